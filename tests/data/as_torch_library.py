"""as_torch_library.py NAME: the outputs of a small model of a library, from a seed, as JSON, by whatever torch is."""
import json
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))


def torchvision_resnet18():
    from models import torchvision_models
    return torchvision_models().resnet18(num_classes=10), torch.randn(1, 3, 32, 32)


def timm_vit():
    from models import torchvision_models
    torchvision_models()
    import timm
    return timm.create_model("test_vit", pretrained=False), torch.randn(1, 3, 160, 160)


def transformers_bert():
    from models import torchvision_models
    torchvision_models()
    import transformers
    config = transformers.BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                                     intermediate_size=32)
    return transformers.BertForSequenceClassification(config), torch.randint(0, 50, (2, 5))


if __name__ == "__main__":
    torch.manual_seed(3)
    model, x = globals()[sys.argv[1]]()
    model.eval()
    with torch.no_grad():
        y = model(x)
    print(json.dumps((y if isinstance(y, torch.Tensor) else y.logits).tolist()))

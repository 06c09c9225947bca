"""The architectures of ./dev zoo: {name: function giving (model, args)}, small, with random weights.

One model of each module of timm (the smallest by its name), torchvision's classifiers, segmenters and video models, and
families of transformers with a few layers."""
import torch

import models

VISION = {
    "alexnet": 64, "squeezenet1_1": 64, "vgg11_bn": 32, "resnet18": 64, "resnext50_32x4d": 32, "wide_resnet50_2": 32,
    "densenet121": 32, "googlenet": 64, "inception_v3": 96, "mobilenet_v2": 64, "mobilenet_v3_small": 64,
    "mnasnet0_5": 64, "shufflenet_v2_x0_5": 64, "efficientnet_b0": 64, "efficientnet_v2_s": 32, "regnet_y_400mf": 64,
    "convnext_tiny": 32, "swin_t": 64, "vit_b_32": 224, "maxvit_t": 224,
}
# What makes a timm model small, best first.
SMALL = ("test_", "atto", "femto", "pico", "nano", "_xxs", "_xxt", "xx_small", "_xs", "x_small", "micro", "_tiny",
         "tiny", "_mini", "_s0", "_b0", "_050", "_0_5", "_0", "small", "_s", "_t", "18", "26", "_11", "_12", "_a1",
         "lite")
FAMILIES = """albert bart bert big_bird biogpt blenderbot bloom camembert codegen convbert convnext convnextv2 ctrl
cvt data2vec-text deberta deberta-v2 deit distilbert electra ernie esm falcon flaubert fnet funnel gemma glm gpt2
gpt_bigcode gpt_neo gpt_neox gptj granite ibert layoutlm levit llama longformer marian mbart megatron-bert mistral
mixtral mobilebert mobilenet_v1 mobilenet_v2 mobilevit mpnet mpt mt5 nezha nystromformer olmo openai-gpt opt pegasus
persimmon phi pix2pix poolformer prophetnet pvt qwen2 qwen3 regnet rembert resnet roberta roberta-prelayernorm roformer
segformer squeezebert stablelm starcoder2 swin swinv2 t5 umt5 van vit vit_mae xglm xlm xlm-roberta xlnet xmod yolos
yoso""".split()
# Settings by the names that families use for them; those that a configuration has are set.
TINY = dict(
    vocab_size=99, hidden_size=32, d_model=32, dim=32, n_embd=32, embed_dim=32, embedding_size=32, num_hidden_layers=2,
    n_layer=2, n_layers=2, num_layers=2, encoder_layers=2, decoder_layers=2, num_attention_heads=4, n_head=4, n_heads=4,
    num_heads=4, encoder_attention_heads=4, decoder_attention_heads=4, num_key_value_heads=4, intermediate_size=64,
    d_inner=64, ffn_dim=64, d_ff=64, d_kv=8, head_dim=8, encoder_ffn_dim=64, decoder_ffn_dim=64, hidden_dim=64,
    max_position_embeddings=64, n_positions=64, n_ctx=64, image_size=32, patch_size=8, decoder_layerdrop=0,
    encoder_layerdrop=0, layerdrop=0, num_local_experts=2, num_experts_per_tok=1, pad_token_id=1, bos_token_id=2,
    eos_token_id=3, decoder_start_token_id=2, use_cache=False, return_dict=True, rotary_dim=4, n_inner=64,
    embedding_dim=32, attention_head_size=8, num_decoder_layers=2, qkv_hidden_size=32,
)


class Tensors(torch.nn.Module):
    """A model whose result is a tuple of the floating tensors in what it gives."""

    def __init__(self, model, **fixed):
        super().__init__()
        self.model = model
        self.fixed = fixed

    def forward(self, *args):
        out = self.model(*args, **self.fixed)
        leaves = torch.utils._pytree.tree_leaves(dict(out) if hasattr(out, "keys") else out)
        return tuple(t for t in leaves if isinstance(t, torch.Tensor) and t.is_floating_point())


def _vision(name, size):
    return Tensors(getattr(models.torchvision_models(), name)()), (torch.randn(2, 3, size, size),)


def _timm(name):
    models.torchvision_models()
    import timm
    for size in (64, 96, 128, None):
        if size is None:
            model = timm.create_model(name, pretrained=False)
            size = model.default_cfg["input_size"][-1]
            return Tensors(model), (torch.randn(2, 3, size, size),)
        for settings in ({"img_size": size}, {}):
            try:
                model = timm.create_model(name, pretrained=False, **settings).eval()
                args = (torch.randn(2, 3, size, size),)
                with torch.no_grad():
                    model(*args)
                return Tensors(model), args
            except Exception:
                continue
    return None


def smallest(names):
    """The model whose name promises the least work."""
    def rank(name):
        return next((i for i, word in enumerate(SMALL) if word in name), len(SMALL)), len(name), name
    return min(names, key=rank)


def timm_models():
    models.torchvision_models()
    import timm
    found = {}
    for module in timm.list_modules():
        names = timm.list_models(module=module)
        if names:
            found[f"timm/{module}"] = smallest(names)
    return found


def _family(kind):
    models.torchvision_models()
    import transformers
    config = transformers.AutoConfig.for_model(kind)
    for name, value in TINY.items():
        if hasattr(config, name) and isinstance(getattr(config, name), (int, float, bool, type(None))):
            try:
                setattr(config, name, value)
            except Exception:
                continue
    config._attn_implementation = "eager" if kind in ("deberta", "deberta-v2") else None
    model = transformers.AutoModel.from_config(config)
    if hasattr(config, "num_channels") or hasattr(config, "image_size") and "pixel" in model.main_input_name:
        size = getattr(config, "image_size", 64)
        size = size if isinstance(size, int) else 64
        return Tensors(model), (torch.randn(2, getattr(config, "num_channels", 3), max(size, 32), max(size, 32)),)
    ids = torch.randint(4, 90, (2, 12))
    if getattr(config, "is_encoder_decoder", False):
        return Tensors(model, decoder_input_ids=ids[:, :7]), (ids,)
    return Tensors(model), (ids,)


def everything():
    """{name: function giving (model, args)}; names begin with the package's."""
    out = {f"torchvision/{name}": (lambda name=name, size=size: _vision(name, size)) for name, size in VISION.items()}
    out.update({f"{module}/{name}": (lambda name=name: _timm(name)) for module, name in timm_models().items()})
    out.update({f"transformers/{kind}": (lambda kind=kind: _family(kind)) for kind in FAMILIES})
    return out

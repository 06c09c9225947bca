"""The architectures of ./dev zoo: {name: function giving (model, args)}, small, with random weights.

One model of each module of timm (the smallest by its name), torchvision's classifiers, segmenters and video models, and
every family of transformers, with a few layers."""
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
DEEP = ("deepseek_vit_412m",)  # the smallest of their modules, and still too much: two layers of them
LARGEST = 50_000_000  # parameters of a model that is still small
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


def floats(out):
    """The floating tensors in a result."""
    leaves = torch.utils._pytree.tree_leaves(dict(out) if hasattr(out, "keys") else out)
    return tuple(t for t in leaves if isinstance(t, torch.Tensor) and t.is_floating_point())


class Tensors(torch.nn.Module):
    """A model whose result is a tuple of the floating tensors in what it gives."""

    def __init__(self, model, **fixed):
        super().__init__()
        self.model = model
        self.fixed = fixed

    def forward(self, *args):
        return floats(self.model(*args, **self.fixed))


def _vision(name, size):
    return Tensors(getattr(models.torchvision_models(), name)()), (torch.randn(2, 3, size, size),)


def _timm(name):
    models.torchvision_models()
    import timm
    shallow = {"depth": 2} if name in DEEP else {}
    for size in (64, 96, 128, None):
        if size is None:
            model = timm.create_model(name, pretrained=False, **shallow)
            size = model.default_cfg["input_size"][-1]
            return Tensors(model), (torch.randn(2, 3, size, size),)
        for settings in ({"img_size": size}, {}):
            try:
                model = timm.create_model(name, pretrained=False, **settings, **shallow).eval()
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


def shrink(config):
    """Sets what TINY names, in the configurations inside as well."""
    for inner in vars(config).values():
        if hasattr(inner, "to_diff_dict"):
            shrink(inner)
    for name, value in TINY.items():
        if isinstance(getattr(config, name, ""), (int, float, bool, type(None))):
            try:
                setattr(config, name, value)
            except Exception:
                continue
    per_layer = getattr(config, "layer_types", None)
    if isinstance(per_layer, list):
        # one of each kind, so that a hybrid stays one
        kinds = list(dict.fromkeys(per_layer))
        config.layer_types = (kinds * 2)[:max(2, len(kinds))]
        config.num_hidden_layers = len(config.layer_types)


def inputs_of(model, config):
    """What the model's first argument is, small: token ids, an image, sound or its features."""
    name, batch = model.main_input_name, 2
    if name == "pixel_values":
        inner = getattr(config, "vision_config", config)
        size = getattr(inner, "image_size", 64)
        size = max(size if isinstance(size, int) else 64, 32)
        return (torch.randn(batch, getattr(inner, "num_channels", 3), size, size),)
    if name == "pixel_values_videos":
        return (torch.randn(batch, getattr(config, "num_frames", 8), 3, config.image_size, config.image_size),)
    if name == "input_values":
        bins = getattr(config, "num_mel_bins", None)
        return (torch.randn(batch, getattr(config, "max_length", 32), bins) if bins else torch.randn(batch, 4000),)
    if name == "input_features":
        names = ("num_mel_bins", "feature_projection_input_dim", "input_feat_per_channel", "input_dim")
        bins = next((getattr(config, n) for n in names if getattr(config, n, None)), 80)
        if hasattr(config, "max_source_positions") and hasattr(config, "num_mel_bins"):
            return (torch.randn(batch, bins, 2 * config.max_source_positions),)
        return (torch.randn(batch, 64, bins),)
    if name != "input_ids":
        raise NotImplementedError(f"the zoo makes no {name}")
    return (torch.randint(4, 90, (batch, 12)),)


def _family(kind):
    models.torchvision_models()
    import transformers
    config = transformers.AutoConfig.for_model(kind)
    shrink(config)
    config._attn_implementation = "eager" if kind in ("deberta", "deberta-v2") else None
    with torch.device("meta"):
        parameters = sum(p.numel() for p in transformers.AutoModel.from_config(config).parameters())
    if parameters > LARGEST:
        raise NotImplementedError(f"{parameters} parameters with the zoo's settings")
    model = transformers.AutoModel.from_config(config)
    args = inputs_of(model, config)
    if getattr(config, "is_encoder_decoder", False):
        return Tensors(model, decoder_input_ids=torch.randint(4, 90, (2, 7))), args
    return Tensors(model), args


def families():
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES
    return sorted(MODEL_MAPPING_NAMES)


def everything():
    """{name: function giving (model, args)}; names begin with the package's."""
    out = {f"torchvision/{name}": (lambda name=name, size=size: _vision(name, size)) for name, size in VISION.items()}
    out.update({f"{module}/{name}": (lambda name=name: _timm(name)) for module, name in timm_models().items()})
    out.update({f"transformers/{kind}": (lambda kind=kind: _family(kind)) for kind in families()})
    return out

"""Models of models.py written once for both libraries: `torch` is a parameter, PyTorch or Cresset.

    m, args = make(cresset, "resnet50")              # full size: benchmarks
    m, args = make(torch, "bert", small=True)        # a few layers, small inputs: tests

State-dict keys are those of the models in models.py, so that a checkpoint of one loads into the other; weights are
random, with the same numbers in both libraries for the same seed.
"""
import functools
import math
import types


@functools.cache
def define(torch):
    """The classes, made for one library."""
    nn, F = torch.nn, torch.nn.functional

    # ---- residual networks ----

    class BasicBlock(nn.Module):
        expansion = 1

        def __init__(self, inplanes, planes, stride=1, downsample=None):
            super().__init__()
            self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(planes)
            self.relu = nn.ReLU(inplace=True)
            self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(planes)
            self.downsample = downsample

        def forward(self, x):
            out = self.relu(self.bn1(self.conv1(x)))
            out = self.bn2(self.conv2(out))
            out += x if self.downsample is None else self.downsample(x)
            return self.relu(out)

    class Bottleneck(nn.Module):
        expansion = 4

        def __init__(self, inplanes, planes, stride=1, downsample=None):
            super().__init__()
            self.conv1 = nn.Conv2d(inplanes, planes, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(planes)
            self.conv2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(planes)
            self.conv3 = nn.Conv2d(planes, planes * 4, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(planes * 4)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = downsample

        def forward(self, x):
            out = self.relu(self.bn1(self.conv1(x)))
            out = self.relu(self.bn2(self.conv2(out)))
            out = self.bn3(self.conv3(out))
            out += x if self.downsample is None else self.downsample(x)
            return self.relu(out)

    class ResNet(nn.Module):
        def __init__(self, block, counts):
            super().__init__()
            self.inplanes = 64
            self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(64)
            self.relu = nn.ReLU(inplace=True)
            self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
            for i, count in enumerate(counts):
                setattr(self, f"layer{i + 1}", self.stage(block, 64 << i, count, 1 if i == 0 else 2))
            self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
            self.fc = nn.Linear(512 * block.expansion, 1000)
            for module in self.modules():
                if isinstance(module, nn.Conv2d):
                    nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                elif isinstance(module, nn.BatchNorm2d):
                    nn.init.constant_(module.weight, 1)
                    nn.init.constant_(module.bias, 0)

        def stage(self, block, planes, count, stride):
            wide, downsample = planes * block.expansion, None
            if stride != 1 or self.inplanes != wide:
                downsample = nn.Sequential(nn.Conv2d(self.inplanes, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))
            layers = [block(self.inplanes, planes, stride, downsample)]
            self.inplanes = wide
            return nn.Sequential(*layers, *(block(wide, planes) for _ in range(1, count)))

        def forward(self, x):
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
            return self.fc(torch.flatten(self.avgpool(x), 1))

    # ---- BERT ----

    class SelfAttention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.query = nn.Linear(width, width)
            self.key = nn.Linear(width, width)
            self.value = nn.Linear(width, width)
            self.dropout = nn.Dropout(0.1)

        def forward(self, x):
            split = lambda t: t.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)
            out = F.scaled_dot_product_attention(split(self.query(x)), split(self.key(x)), split(self.value(x)))
            return out.transpose(1, 2).reshape(x.shape)

    class Output(nn.Module):
        def __init__(self, inner, width):
            super().__init__()
            self.dense = nn.Linear(inner, width)
            self.LayerNorm = nn.LayerNorm(width, eps=1e-12)
            self.dropout = nn.Dropout(0.1)

        def forward(self, x, residual):
            return self.LayerNorm(self.dropout(self.dense(x)) + residual)

    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.self = SelfAttention(width, heads)
            self.output = Output(width, width)

        def forward(self, x):
            return self.output(self.self(x), x)

    class Dense(nn.Module):
        def __init__(self, width, inner, activation):
            super().__init__()
            self.dense = nn.Linear(width, inner)
            self.activation = activation

        def forward(self, x):
            return self.activation(self.dense(x))

    class Layer(nn.Module):
        def __init__(self, width, heads, inner):
            super().__init__()
            self.attention = Attention(width, heads)
            self.intermediate = Dense(width, inner, F.gelu)
            self.output = Output(inner, width)

        def forward(self, x):
            x = self.attention(x)
            return self.output(self.intermediate(x), x)

    class Embeddings(nn.Module):
        def __init__(self, vocabulary, width):
            super().__init__()
            self.word_embeddings = nn.Embedding(vocabulary, width, padding_idx=0)
            self.position_embeddings = nn.Embedding(512, width)
            self.token_type_embeddings = nn.Embedding(2, width)
            self.LayerNorm = nn.LayerNorm(width, eps=1e-12)
            self.dropout = nn.Dropout(0.1)
            self.register_buffer("position_ids", torch.arange(512).expand((1, -1)), persistent=False)
            self.register_buffer("token_type_ids", torch.zeros((1, 512), dtype=torch.long), persistent=False)

        def forward(self, ids):
            n = ids.shape[1]
            kinds = self.token_type_embeddings(self.token_type_ids[:, :n].expand(ids.shape[0], n))
            x = self.word_embeddings(ids) + kinds + self.position_embeddings(self.position_ids[:, :n])
            return self.dropout(self.LayerNorm(x))

    class Bert(nn.Module):
        def __init__(self, vocabulary, width, heads, inner, count):
            super().__init__()
            self.embeddings = Embeddings(vocabulary, width)
            self.encoder = nn.Module()
            self.encoder.layer = nn.ModuleList([Layer(width, heads, inner) for _ in range(count)])
            self.pooler = Dense(width, width, torch.tanh)
            self.apply(small_normal)

        def forward(self, ids):
            x = self.embeddings(ids)
            for layer in self.encoder.layer:
                x = layer(x)
            return x

    # ---- GPT-2 ----

    class Conv1D(nn.Module):
        """A linear layer with its weight the other way round."""

        def __init__(self, outputs, inputs):
            super().__init__()
            self.nf = outputs
            self.weight = nn.Parameter(torch.empty(inputs, outputs))
            self.bias = nn.Parameter(torch.zeros(outputs))
            nn.init.normal_(self.weight, std=0.02)

        def forward(self, x):
            return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(x.size()[:-1] + (self.nf,))

    class CausalAttention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.c_attn = Conv1D(3 * width, width)
            self.c_proj = Conv1D(width, width)

        def forward(self, x):
            split = lambda t: t.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)
            q, k, v = self.c_attn(x).split(x.shape[-1], dim=2)
            out = F.scaled_dot_product_attention(split(q), split(k), split(v), is_causal=True)
            return self.c_proj(out.transpose(1, 2).contiguous().view(x.shape))

    class Gpt2Mlp(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.c_fc = Conv1D(4 * width, width)
            self.c_proj = Conv1D(width, 4 * width)

        def forward(self, x):
            x = self.c_fc(x)
            x = 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))
            return self.c_proj(x)

    class Gpt2Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.ln_1 = nn.LayerNorm(width)
            self.attn = CausalAttention(width, heads)
            self.ln_2 = nn.LayerNorm(width)
            self.mlp = Gpt2Mlp(width)

        def forward(self, x):
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp(self.ln_2(x))

    class Gpt2(nn.Module):
        def __init__(self, vocabulary, width, heads, count):
            super().__init__()
            self.transformer = nn.Module()
            self.transformer.wte = nn.Embedding(vocabulary, width)
            self.transformer.wpe = nn.Embedding(1024, width)
            self.transformer.h = nn.ModuleList([Gpt2Block(width, heads) for _ in range(count)])
            self.transformer.ln_f = nn.LayerNorm(width)
            self.lm_head = nn.Linear(width, vocabulary, bias=False)
            self.apply(small_normal)
            self.lm_head.weight = self.transformer.wte.weight

        def forward(self, ids):
            t = self.transformer
            x = t.wte(ids) + t.wpe(torch.arange(ids.shape[1], device=ids.device).unsqueeze(0))
            for block in t.h:
                x = block(x)
            return self.lm_head(t.ln_f(x))

    class First(nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, input_ids):
            return self.model(input_ids)

    # ---- vision transformer ----

    class VitAttention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.qkv = nn.Linear(width, 3 * width)
            self.proj = nn.Linear(width, width)

        def forward(self, x):
            batch, n, width = x.shape
            q, k, v = self.qkv(x).reshape(batch, n, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, n, width))

    class VitMlp(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.fc1 = nn.Linear(width, 4 * width)
            self.act = nn.GELU()
            self.fc2 = nn.Linear(4 * width, width)

        def forward(self, x):
            return self.fc2(self.act(self.fc1(x)))

    class VitBlock(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.norm1 = nn.LayerNorm(width, eps=1e-6)
            self.attn = VitAttention(width, heads)
            self.norm2 = nn.LayerNorm(width, eps=1e-6)
            self.mlp = VitMlp(width)

        def forward(self, x):
            x = x + self.attn(self.norm1(x))
            return x + self.mlp(self.norm2(x))

    class PatchEmbed(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.proj = nn.Conv2d(3, width, 16, 16)

        def forward(self, x):
            return self.proj(x).flatten(2).transpose(1, 2)

    class Vit(nn.Module):
        def __init__(self, width, heads, count, size=224):
            super().__init__()
            self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
            self.pos_embed = nn.Parameter(torch.randn(1, (size // 16) ** 2 + 1, width) * 0.02)
            self.patch_embed = PatchEmbed(width)
            self.blocks = nn.Sequential(*[VitBlock(width, heads) for _ in range(count)])
            self.norm = nn.LayerNorm(width, eps=1e-6)
            self.head = nn.Linear(width, 1000)

        def forward(self, x):
            x = self.patch_embed(x)
            x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], dim=1) + self.pos_embed
            return self.head(self.norm(self.blocks(x))[:, 0])

    # ---- small ones ----

    class Norms(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.a = nn.LayerNorm(width)
            self.b = nn.LayerNorm(width)

        def forward(self, x, y):
            z = torch.softmax(self.a(x + y) * 0.125, -1)
            return F.gelu(self.b(z * torch.sigmoid(x) + y.tanh())).mean(-1)

    class LastStep(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.rnn = nn.LSTM(width, width, 2, batch_first=True)
            self.head = nn.Linear(width, 10)

        def forward(self, x):
            return self.head(self.rnn(x)[0][:, -1])

    def small_normal(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)
            if getattr(module, "padding_idx", None) is not None:
                with torch.no_grad():
                    module.weight[module.padding_idx].zero_()

    return types.SimpleNamespace(**{name: value for name, value in locals().items() if isinstance(value, type)})


def _image(torch, small):
    return (torch.randn(1, 3, 64 if small else 224, 64 if small else 224),)


def _words(torch, small, vocabulary):
    return (torch.randint(0, vocabulary, (1, 16 if small else 128)),)


def pointwise(torch, small):
    rows, width = (8, 96) if small else (512, 768)
    return define(torch).Norms(width), (torch.randn(rows, width), torch.randn(rows, width))


def mlp8(torch, small):
    width = 64 if small else 1024
    layers = [layer for _ in range(8) for layer in (torch.nn.Linear(width, width), torch.nn.GELU())]
    return torch.nn.Sequential(*layers), (torch.randn(4 if small else 64, width),)


def lstm(torch, small):
    width = 32 if small else 256
    return define(torch).LastStep(width), (torch.randn(2 if small else 8, 8 if small else 32, width),)


def resnet18(torch, small):
    kinds = define(torch)
    return kinds.ResNet(kinds.BasicBlock, [2, 2, 2, 2]), _image(torch, small)


def resnet50(torch, small):
    kinds = define(torch)
    return kinds.ResNet(kinds.Bottleneck, [3, 4, 6, 3]), _image(torch, small)


def vit(torch, small):
    width, heads = (192, 3) if small else (384, 6)
    return define(torch).Vit(width, heads, 12), (torch.randn(1, 3, 224, 224),)


def bert(torch, small):
    kinds = define(torch)
    model = kinds.Bert(500, 64, 4, 128, 2) if small else kinds.Bert(30522, 768, 12, 3072, 12)
    return kinds.First(model), _words(torch, small, 500 if small else 30000)


def gpt2(torch, small):
    kinds = define(torch)
    model = kinds.Gpt2(500, 64, 4, 2) if small else kinds.Gpt2(50257, 768, 12, 12)
    return kinds.First(model), _words(torch, small, 500 if small else 50000)


ALL = [pointwise, mlp8, lstm, resnet18, resnet50, vit, bert, gpt2]


def make(torch, name, small=False):
    torch.manual_seed(0)
    model, args = globals()[name](torch, small)
    return model.eval(), args

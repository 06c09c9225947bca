"""export() against torch.export.export on the same two networks, written once for both libraries: an encoder of BERT's size and ResNet-50."""
import statistics
import time

from measure import row

FASTER = 20  # how many times faster than PyTorch it has to be


def encoder(torch):
    """BERT base without its pooler, 128 tokens."""
    nn = torch.nn

    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

        def forward(self, x):
            b, n, c = x.shape
            q, k, v = (layer(x).view(b, n, self.heads, c // self.heads).transpose(1, 2) for layer in (self.query, self.key, self.value))
            y = nn.functional.scaled_dot_product_attention(q, k, v)
            return self.out(y.transpose(1, 2).reshape(b, n, c))

    class Layer(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.attention, self.norm1, self.norm2 = Attention(width, heads), nn.LayerNorm(width), nn.LayerNorm(width)
            self.up, self.down, self.dropout = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(0.1)

        def forward(self, x):
            x = self.norm1(x + self.dropout(self.attention(x)))
            return self.norm2(x + self.dropout(self.down(nn.functional.gelu(self.up(x)))))

    class Encoder(nn.Module):
        def __init__(self, width=768, heads=12, layers=12):
            super().__init__()
            self.tokens, self.positions, self.norm = nn.Embedding(30000, width), nn.Embedding(512, width), nn.LayerNorm(width)
            self.layers = nn.ModuleList([Layer(width, heads) for _ in range(layers)])

        def forward(self, ids):
            x = self.norm(self.tokens(ids) + self.positions(torch.arange(ids.shape[1])))
            for layer in self.layers:
                x = layer(x)
            return x

    return Encoder().eval(), (torch.zeros(1, 128, dtype=torch.int64),)


def resnet50(torch):
    nn = torch.nn

    class Bottleneck(nn.Module):
        def __init__(self, inputs, width, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
            self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(width)
            self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if stride != 1 or inputs != 4 * width:
                self.downsample = nn.Sequential(nn.Conv2d(inputs, 4 * width, 1, stride=stride, bias=False), nn.BatchNorm2d(4 * width))

        def forward(self, x):
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.relu(self.bn2(self.conv2(y)))
            y = self.bn3(self.conv3(y))
            return self.relu(y + (x if self.downsample is None else self.downsample(x)))

    def stage(inputs, width, blocks, stride):
        return nn.Sequential(Bottleneck(inputs, width, stride), *(Bottleneck(4 * width, width, 1) for _ in range(blocks - 1)))

    class ResNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1, self.relu = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)
            self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
            self.layer1, self.layer2, self.layer3, self.layer4 = stage(64, 64, 3, 1), stage(256, 128, 4, 2), stage(512, 256, 6, 2), stage(1024, 512, 3, 2)
            self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(2048, 1000)

        def forward(self, x):
            x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
            x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
            return self.fc(torch.flatten(self.avgpool(x), 1))

    return ResNet().eval(), (torch.zeros(1, 3, 224, 224),)


def seconds(library, make, times):
    module, args = make(library)
    library.export.export(module, args)  # files are read, modules imported
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        library.export.export(module, args)
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def rows():
    import torch

    import cresset
    for make in (encoder, resnet50):
        ours, theirs = seconds(cresset, make, 9), seconds(torch, make, 3)
        yield row(f"export of {make.__name__}, seconds", ours, theirs, "torch.export.export", goal=FASTER)

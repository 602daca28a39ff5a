"""Images (B, 3, H, W) -> logits (B, classes): ResNets as in the reference implementation of torchvision.

Plain torch, since a torchvision that does not fit the installed torch cannot be imported. Widths, strides (that of a
bottleneck lies in its 3 x 3 convolution), initial weights and names of parameters are those of the reference.
"""

from collections.abc import Mapping
from types import MappingProxyType

import torch
from torch import Tensor, nn

DEPTHS: Mapping[str, tuple[bool, tuple[int, ...]]] = {  # bottlenecks or basic blocks; blocks per layer
    "resnet18": (False, (2, 2, 2, 2)),
    "resnet34": (False, (3, 4, 6, 3)),
    "resnet50": (True, (3, 4, 6, 3)),
    "resnet101": (True, (3, 4, 23, 3)),
}


def convolution(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False)


class Block(nn.Module):
    """Two 3 x 3 convolutions, or three with a narrow middle (bottleneck), and a shortcut around them."""

    def __init__(self, inputs: int, width: int, stride: int, *, bottleneck: bool) -> None:
        super().__init__()
        outputs = 4 * width if bottleneck else width
        first, last = (1, 1) if bottleneck else (3, 3)
        self.conv1 = convolution(inputs, width, first, 1 if bottleneck else stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = convolution(width, width, 3, stride) if bottleneck else convolution(width, outputs, last)
        self.bn2 = nn.BatchNorm2d(width)
        if bottleneck:
            self.conv3 = convolution(width, outputs, last)
            self.bn3 = nn.BatchNorm2d(outputs)
        self.bottleneck = bottleneck
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        if self.bottleneck:
            out = self.bn3(self.conv3(out.relu()))
        shortcut = x if self.downsample is None else self.downsample(x)
        return torch.relu(out + shortcut)


def make_layer(inputs: int, width: int, depth: int, *, stride: int, bottleneck: bool) -> nn.Sequential:
    """Blocks of one width, of which the first changes channels and size."""
    outputs = 4 * width if bottleneck else width
    first = Block(inputs, width, stride, bottleneck=bottleneck)
    return nn.Sequential(first, *(Block(outputs, width, 1, bottleneck=bottleneck) for _ in range(depth - 1)))


class ResNet(nn.Module):
    """Stem, four layers of blocks, global average and a linear head.

    Attributes:
        stages: Submodule -> stage that its time counts for.
    """

    stages: Mapping[str, str] = MappingProxyType(
        {"conv1": "stem", "bn1": "stem", "maxpool": "stem", "fc": "head"}
        | {f"layer{i}": f"layer {i}" for i in (1, 2, 3, 4)}
    )

    def __init__(self, arch: str, classes: int) -> None:
        super().__init__()
        bottleneck, depths = DEPTHS[arch]
        self.conv1 = convolution(3, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        wider = 4 if bottleneck else 1
        self.layer1 = make_layer(64, 64, depths[0], stride=1, bottleneck=bottleneck)
        self.layer2 = make_layer(64 * wider, 128, depths[1], stride=2, bottleneck=bottleneck)
        self.layer3 = make_layer(128 * wider, 256, depths[2], stride=2, bottleneck=bottleneck)
        self.layer4 = make_layer(256 * wider, 512, depths[3], stride=2, bottleneck=bottleneck)
        self.fc = nn.Linear(512 * wider, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):  # He et al., for what leaves a convolution
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(x.mean(dim=(2, 3)))
        return logits

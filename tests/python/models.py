"""Small models, as text that scripts of these tests begin with."""

MLP = """
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)

def mlp(width=64, layers=2):
    return nn.Sequential(*[layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.ReLU())], nn.Linear(width, 10))

def rows(n=8, width=64):
    return torch.randn(n, width), torch.randint(0, 10, (n,))
"""

RESNET = """
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)

class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)])

    def forward(self, x):
        y = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(x + self.norms[1](self.second(y)))

class TinyResNet(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.stem = nn.Conv2d(3, channels, 3, padding=1)
        self.body = nn.Sequential(Block(channels), Block(channels))
        self.head = nn.Linear(channels, 10)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))

def rows(n=4):
    return torch.randn(n, 3, 8, 8), torch.randint(0, 10, (n,))
"""

GPT = """
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)

class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        length = x.shape[1]
        mask = torch.triu(torch.ones(length, length, dtype=torch.bool, device=x.device), 1)
        y = self.norm1(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))

class TinyGPT(nn.Module):
    def __init__(self, words=101, width=32, layers=2, length=16):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, 2) for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(x).transpose(1, 2)

def rows(n=4, length=16):
    tokens = torch.randint(0, 101, (n, length + 1))
    return tokens[:, :-1], tokens[:, 1:]
"""

GROUP = """
import os
import torch.distributed
torch.distributed.init_process_group("gloo")
RANK = int(os.environ["RANK"])
"""

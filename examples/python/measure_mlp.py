"""What a second device buys for a small network under DDP: python3 measure_mlp.py

The function makes everything anew in every process; amdahl_lab moves nothing and wraps the model.
"""
import amdahl_lab
import torch
from torch import nn


def make(batch, device):
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 10)).to(device)
    batches = [(torch.randn(batch, 256, device=device), torch.randint(0, 10, (batch,), device=device)) for _ in range(8)]
    return amdahl_lab.Training(model, loss, lambda parameters: torch.optim.SGD(parameters, lr=0.01), batches)


def loss(model, batch):
    features, labels = batch
    return nn.functional.cross_entropy(model(features), labels)


if __name__ == "__main__":
    result = amdahl_lab.measure(make, devices=[1, 2], batch=[64, 512], runs=5)
    print(result.json)

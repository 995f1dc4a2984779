"""A script for torchrun, with one edit: `with amdahl_lab.step():` around the training step.

    torchrun --nproc-per-node 2 train_ddp.py            # trains, as without the edit
    amdahl run --devices 1,2 train_ddp.py               # what the second device buys, and where a step's time goes
    amdahl run --devices 1,2 --batch-sizes 64,512 train_ddp.py
"""
import argparse
import os

import amdahl_lab
import torch
import torch.distributed as dist
from torch import nn


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=64, help="rows of a step over all ranks")
    parser.add_argument("--steps", type=int, default=1000)
    arguments = parser.parse_args()
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    rows = amdahl_lab.batch_size(default=arguments.batch_size // ranks)  # of this rank

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)).to(device)
    if ranks > 1:
        dist.init_process_group("nccl" if on_gpu else "gloo")
        model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index] if on_gpu else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number in range(arguments.steps):
        features, labels = torch.randn(rows, 256), torch.randint(0, 10, (rows,))  # a DataLoader in a real script
        with amdahl_lab.step(samples=rows):
            loss = nn.functional.cross_entropy(model(features.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        if number % 100 == 0 and os.environ.get("RANK", "0") == "0":
            print(f"step {number}: loss {loss.item():.3f}")
    if ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()

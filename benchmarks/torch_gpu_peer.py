"""PyTorch peer for the study's MLPs on GPUs: one line of JSON per cell.

One process: eager and one manual whole-step CUDA graph, fused Adam. Several (torch.distributed.run): DDP, eager, global batch
fixed. Same layers, dropout, MSE, Adam 1e-3 and TF32 as amdahl; the batch is resident on the device.

    python3 benchmarks/torch_gpu_peer.py --batches 64,8192
    python3 -m torch.distributed.run --nproc_per_node=2 benchmarks/torch_gpu_peer.py --batches 64,8192
"""
import argparse
import json
import os
import statistics

import torch
import torch.distributed as dist
from torch import nn

MODELS = {  # input, hidden, dropout, output bias
    "medium": (50, (256, 128, 64), 0.2, True),
    "medium-258k": (847, (256, 128, 64), 0.2, False),
    "large": (50, (1024, 1024, 512, 512, 256), 0.3, True),
    "large-6.9m": (4800, (1024, 1024, 512, 512, 256), 0.3, False),
}


def build(name):
    width, hidden, dropout, bias = MODELS[name]
    layers = []
    for units in hidden:
        layers += [nn.Linear(width, units), nn.ReLU(), nn.Dropout(dropout)]
        width = units
    return nn.Sequential(*layers, nn.Linear(width, 3, bias=bias)).cuda()


def time_us(step, world, blocks=7, steps=40, warm=30):
    for _ in range(warm):
        step()
    samples = []
    for _ in range(blocks):
        torch.cuda.synchronize()
        if world > 1:
            dist.barrier()
            torch.cuda.synchronize()
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(steps):
            step()
        end.record()
        torch.cuda.synchronize()
        samples.append(start.elapsed_time(end) / steps * 1e3)
    return samples


def training_step(model, batch, rows, capturable):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=capturable)
    x = torch.randn(batch, rows, device="cuda")
    y = torch.randn(batch, 3, device="cuda")
    loss = nn.MSELoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss(model(x), y).backward()
        optimizer.step()

    return step


def graph_of(step):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--batches", default="64,8192")
    options = parser.parse_args()
    world, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(rank)
    if world > 1:
        dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    torch.backends.cuda.matmul.allow_tf32 = True
    for name in options.models.split(","):
        for batch in map(int, options.batches.split(",")):
            local, width = max(1, batch // world), MODELS[name][0]
            torch.manual_seed(0)
            cells = {}
            if world == 1:
                cells["eager"] = time_us(training_step(build(name), local, width, False), world)
                cells["graph"] = time_us(graph_of(training_step(build(name), local, width, True)), world)
            else:
                net = nn.parallel.DistributedDataParallel(build(name), device_ids=[rank], gradient_as_bucket_view=True)
                cells["ddp"] = time_us(training_step(net, local, width, False), world)
            if rank == 0:
                for mode, samples in cells.items():
                    print(json.dumps({"peer": "torch " + torch.__version__, "model": name, "batch": batch, "devices": world,
                                      "mode": mode, "math": "tf32", "us": statistics.median(samples),
                                      "samples_us": samples}), flush=True)
    if world > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()

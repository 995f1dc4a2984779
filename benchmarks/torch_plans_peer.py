"""PyTorch peer for amdahl's plans on the GPUs of one host: DDP, FSDP2, tensor parallel, pipelines, dp x tp. One line of JSON
per plan from rank 0: median step_us and samples (largest rank each), peak memory per rank in GB, parameters, first and last loss.

    python3 -m torch.distributed.run --nproc_per_node=4 benchmarks/torch_plans_peer.py --model gpt2 --batch 32 --math bf16 \
        --plan ddp,fsdp2,tp,pp-1f1b,dp2.tp2 --micro-batches 8 --compile

Plans, over the whole world; the batch is global, resident on the device, and the same in every plan:
  ddp      one process: plain, the baseline. Several: DistributedDataParallel, gradient_as_bucket_view.
  fsdp2    fully_shard per block and at the root; bf16: MixedPrecisionPolicy(param_dtype=bf16), gradients reduced in bf16.
  tp       Colwise/RowwiseParallel: attention by heads, feed-forward by units; the MLP's layers alternate. gpt2: the tied vocabulary
           too (loss_parallel). The transformer has 3 heads: only its feed-forward is sharded on 2 or 4. No sequence parallel.
  pp-1f1b, pp-gpipe, pp-interleaved, pp-zb (ScheduleInterleavedZeroBubble, which excludes --compile and runs without it): contiguous
           stages with the least largest weight count, embedding first, head and loss last; interleaved and zb: --stages-per-rank,
           cut inside blocks where these are too few. Tied weights are untied (gpt2: 38.6M parameters more). bf16 between stages.
  dpA.tpB, fsdpA.tpB: a mesh; tp inside; outside, replicate_with_fsdp (an all-reduce per block) or fully_shard.
bf16 elsewhere is autocast with float32 parameters. --compile compiles each block, and the head with the loss (not tp's sharded
vocabulary); --compile whole the whole model (ddp only). Fused AdamW 3e-4 with decay 0.01 of matrices for gpt2, fused Adam 1e-3 for
the others. A plan that fails prints "error" and the next goes on; after --deadline seconds in a plan the processes end.
"""
import argparse
import contextlib
import datetime
import gc
import itertools
import json
import os
import re
import statistics
import threading
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed._composable.replicate_with_fsdp import replicate
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module

SCHEDULES = {"pp-1f1b": "1F1B", "pp-gpipe": "GPipe", "pp-interleaved": "Interleaved1F1B", "pp-zb": "InterleavedZeroBubble"}
PLANS = "ddp|fsdp2|tp|(dp|fsdp)\\d+\\.tp\\d+|" + "|".join(SCHEDULES)


class Attention(nn.Module):  # columns of qkv are ordered by head: a contiguous shard holds whole heads
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads, self.head_width, self.causal = heads, width // heads, causal
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (-1, 3, self.head_width)).permute(3, 0, 2, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return x + self.out(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x)), approximate="tanh"))


class Front(nn.Module):
    def __init__(self, inputs, width, length):
        super().__init__()
        self.inputs, self.positions = inputs, nn.Parameter(torch.randn(length, width) * 0.02)

    def forward(self, x):
        return self.inputs(x) + self.positions


class Head(nn.Module):
    def __init__(self, width, outputs, model):
        super().__init__()
        self.norm, self.pool = nn.Identity() if model == "large-6.9m" else nn.LayerNorm(width), model == "transformer"
        self.out = nn.Linear(width, outputs, bias=model == "transformer")

    def forward(self, x, labels):
        y = self.out(self.norm(x).mean(1) if self.pool else self.norm(x)).float()
        if labels.is_floating_point():
            return F.mse_loss(y, labels.float())
        loss = F.cross_entropy(y.flatten(0, 1), labels.flatten())
        return loss.to_local() if isinstance(loss, DTensor) else loss


class Stack(nn.Module):  # consecutive units; the one with the head returns the mean loss, an inner stage its activations
    def __init__(self, units, amp, inner=False):
        super().__init__()
        self.units, self.amp, self.inner = nn.ModuleList(units), amp, inner

    def forward(self, x, labels):
        with torch.autocast(labels.device.type, torch.bfloat16) if self.amp else contextlib.nullcontext():
            for unit in self.units:
                x = unit(x, labels) if isinstance(unit, Head) else unit(x)
        return x.to(torch.bfloat16) if self.inner and self.amp else x


def build(options, device, untie=False):
    """The units front, blocks, head; one global batch; the number of parameters. The same on every rank."""
    torch.manual_seed(0)
    model, batch, gpt2 = options.model, options.batch, options.model == "gpt2"
    with torch.device(device):
        if model == "large-6.9m":
            widths, dropout = (4800, 1024, 1024, 512, 512, 256), 0.3 if options.dropout else 0.0
            units = [nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Dropout(dropout)) for a, b in zip(widths, widths[1:])]
            units, x, y = [*units, Head(256, 3, model)], torch.randn(batch, 4800), torch.randn(batch, 3)
        else:
            width, heads, layers, length = (768, 12, 12, options.tokens or 1024) if gpt2 else (192, 3, 4, 96)
            blocks = [nn.Sequential(Attention(width, heads, gpt2), FeedForward(width)) for _ in range(options.layers or layers)]
            inputs = nn.Embedding(50304, width) if gpt2 else nn.Linear(50, width)
            units = [Front(inputs, width, length), *blocks, Head(width, 50304 if gpt2 else 3, model)]
            x, y = torch.randn(batch, 96, 50), torch.randn(batch, 3)
        if gpt2:
            for parameter in nn.ModuleList(units).parameters():
                nn.init.normal_(parameter, std=0.02) if parameter.dim() > 1 else None
            x, y = torch.randint(0, 50257, (batch, length)), torch.randint(0, 50257, (batch, length))
            units[-1].out.weight = nn.Parameter(inputs.weight.detach().clone()) if untie else inputs.weight
    return units, x, y, sum(p.numel() for p in nn.ModuleList(units).parameters())


def optimizer_of(parameters, model):
    groups = {}  # fused kernels take tensors of one mesh; without decay AdamW is Adam
    for p in parameters:
        groups.setdefault((str(p.device_mesh) if isinstance(p, DTensor) else "", 0.01 * (p.dim() > 1)), []).append(p)
    groups = [{"params": group, "weight_decay": decay if model == "gpt2" else 0.0} for (_, decay), group in groups.items()]
    return torch.optim.AdamW(groups, lr=3e-4 if model == "gpt2" else 1e-3, fused=True)


def shard_tensors(units, mesh, model):
    column, row = ColwiseParallel, RowwiseParallel
    for i, unit in enumerate(units if model == "large-6.9m" else []):
        parallelize_module(unit, mesh, {"out" if isinstance(unit, Head) else "0": row() if i % 2 else column()})
    for block in units[1:-1] if model != "large-6.9m" else []:
        heads = {"0.qkv": column(), "0.out": row()} if block[0].heads % mesh.size() == 0 else {}
        parallelize_module(block, mesh, {"1.up": column(), "1.down": row(), **heads})
    if model == "gpt2":
        parallelize_module(units[0], mesh, {"inputs": row(input_layouts=Replicate())})
        parallelize_module(units[-1], mesh, {"out": column(output_layouts=Shard(-1), use_local_output=False)})
        units[-1].out.weight = units[0].inputs.weight


def plain_step(plan, options, device, world):
    """One training step of ddp, fsdp2, tp, dpA.tpB or fsdpA.tpB, and the number of parameters."""
    units, x, y, count = build(options, device)
    bf16, mlp = options.math == "bf16", options.model == "large-6.9m"
    grid = {"ddp": f"ddp{world}.tp1", "fsdp2": f"fsdp{world}.tp1", "tp": f"ddp1.tp{world}"}.get(plan, plan)
    kind, dp, tp = re.fullmatch(r"(ddp|dp|fsdp)(\d+)\.tp(\d+)", grid).groups()
    dp, tp, kind, vocabulary = int(dp), int(tp), "" if kind == "ddp" else kind, options.model == "gpt2" and int(tp) > 1
    if dp * tp != world or options.batch % dp:
        raise ValueError(f"plan {plan} on {world} devices, batch {options.batch}")
    place = dist.get_rank() // tp
    x, y = x.chunk(dp)[place].clone(), y.chunk(dp)[place].clone()
    mesh = init_device_mesh(device.type, (dp, tp), mesh_dim_names=("dp", "tp")) if plan != "ddp" else None
    if tp > 1:
        shard_tensors(units, mesh["tp"], options.model)
    for unit in units[:-1 if vocabulary else None] if options.compile == "parts" else []:
        unit.compile(dynamic=False)
    net = Stack(units, bf16 and not kind)
    if kind:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16) if bf16 else MixedPrecisionPolicy()
        for module in [*units[0 if mlp else 1:-1], net]:
            (fully_shard if kind == "fsdp" else replicate)(module, mesh=mesh["dp"], mp_policy=policy)
    elif dp > 1:
        net = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)
    optimizer = optimizer_of(net.parameters(), options.model)
    net = torch.compile(net, dynamic=False) if options.compile == "whole" else net
    torch.manual_seed(2 + place)  # dropout: equal on the ranks of one tp group

    def step():
        optimizer.zero_grad(set_to_none=True)
        with loss_parallel() if vocabulary else contextlib.nullcontext():
            loss = net(x, labels=y)
            loss.backward()
        optimizer.step()
        return loss.detach()
    return step, count


def cut(costs, stages):
    """Pairs first, end of contiguous, non-empty stages: the least largest cost, then the least sum of squares."""
    def key(pairs):
        sums = [sum(costs[first:end]) for first, end in pairs]
        return max(sums), sum(x * x for x in sums)
    cuts = itertools.combinations(range(1, len(costs)), stages - 1)
    return min((tuple(zip((0, *ends), (*ends, len(costs)))) for ends in cuts), key=key)


def pipeline_step(plan, options, device, world):
    rank, single, micro = dist.get_rank(), plan in ("pp-1f1b", "pp-gpipe"), options.micro_batches or 2 * world
    stages, amp = world * (1 if single else options.stages_per_rank), options.math == "bf16"
    units, x, y, count = build(options, device, untie=True)
    if stages > len(units) and options.model != "large-6.9m":
        units = [units[0], *(half for block in units[1:-1] for half in block), units[-1]]
    if stages > len(units) or options.batch % micro:
        raise ValueError(f"{stages} stages of {len(units)} units, {micro} micro-batches of batch {options.batch}")
    costs = [sum(m.weight.numel() for m in u.modules() if isinstance(m, nn.Linear)) for u in units]
    rows, labels, local = x[:options.batch // micro], y[:options.batch // micro], []
    for i, (first, end) in enumerate(cut(costs, stages)):  # one micro-batch through the model: the shapes between the stages
        module = Stack(units[first:end], amp, i + 1 < stages)
        with torch.no_grad():
            local.append((i, module, rows, rows := module(rows, labels)))
    local = local[rank::world]
    for _, module, rows, _ in local if options.compile and plan != "pp-zb" else []:
        for unit in module.units:  # compiled before the schedule: no rank waits for another's compiler
            unit.compile(dynamic=False)
        module(rows.requires_grad_(rows.is_floating_point()), labels).float().sum().backward()
    pipe = [PipelineStage(module, i, stages, device, rows.detach().to("meta"), to.to("meta")) for i, module, rows, to in local]
    schedule = schedules.get_schedule_class(SCHEDULES[plan])
    schedule = schedule(pipe[0] if single else pipe, micro, loss_fn=lambda loss, _: loss / micro, scale_grads=False)
    optimizer = optimizer_of([p for stage in pipe for p in stage.submod.parameters()], options.model)
    inputs, losses = (x,) if rank == 0 else (), [] if rank == (stages - 1) % world else None
    torch.manual_seed(2 + rank)

    def step():
        optimizer.zero_grad(set_to_none=True)
        schedule.step(*inputs, target=None if losses is None else y, losses=losses, return_outputs=False, labels=y)
        optimizer.step()
        return None if losses is None else torch.stack(losses).sum().detach()
    return step, count


def measure(step, options, cuda):
    """Of all ranks: samples in us per step (the largest), peak GB, first and last loss (means of those that have one)."""
    synchronize, samples, losses = torch.cuda.synchronize if cuda else lambda: None, [], [step()]
    for _ in range(options.warm):
        step()
    synchronize()
    torch.cuda.reset_peak_memory_stats() if cuda else None
    for _ in range(options.blocks):
        dist.barrier()
        synchronize()
        start = time.perf_counter()
        for _ in range(options.steps):
            last = step()
        synchronize()
        samples.append((time.perf_counter() - start) / options.steps * 1e6)
    losses, ranks = [None if loss is None else float(loss) for loss in (*losses, last)], [None] * dist.get_world_size()
    dist.all_gather_object(ranks, (samples, torch.cuda.max_memory_allocated() / 1e9, losses))
    samples = [max(times) for times in zip(*(rank[0] for rank in ranks))]
    return {"step_us": statistics.median(samples), "samples_us": samples, "memory_gb": [rank[1] for rank in ranks],
            "loss": [statistics.mean(rank[2][i] for rank in ranks if rank[2][i] is not None) for i in (0, 1)]}


def run(plan, options, device, world):
    row = {"peer": "torch " + torch.__version__, "model": options.model, "plan": plan, "world": world, "batch": options.batch,
           "math": options.math, "compile": "" if plan == "pp-zb" else options.compile,
           "micro_batches": (options.micro_batches or 2 * world) if plan in SCHEDULES else 1}
    rank, begin, errors = dist.get_rank(), time.perf_counter(), [None] * world

    def report(code=None, **more):
        if rank == 0:
            print(json.dumps({**row, **more, "seconds": round(time.perf_counter() - begin, 1)}), flush=True)
        os._exit(code) if code else None
    timer, error = threading.Timer(options.deadline, report, (3,), {"error": f"no end in {options.deadline} s"}), None
    timer.daemon = True
    timer.start()
    try:
        if options.compile == "whole" and plan != "ddp" or not re.fullmatch(PLANS, plan):
            raise ValueError(f"unknown plan '{plan}', or --compile whole with it")
        step, row["parameters"] = (pipeline_step if plan in SCHEDULES else plain_step)(plan, options, device, world)
        row.update(measure(step, options, device.type == "cuda"))
    except Exception as problem:  # ranks that wait for this one end at the timeout of the process group
        error = f"rank {rank}: {type(problem).__name__}: {' '.join(str(problem).split())[-300:]}"
        os.write(2, f"{error}\n".encode())
    dist.all_gather_object(errors, error)
    timer.cancel()
    report(**{"error": error for error in reversed(errors) if error})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan", required=True)
    parser.add_argument("--compile", nargs="?", const="parts", default="", choices=("parts", "whole"))
    for name, values in {"model": "gpt2 transformer large-6.9m", "math": "tf32 bf16 fp32", "device": "cuda cpu"}.items():
        parser.add_argument("--" + name, choices=values.split(), default=values.split()[0])
    for name, value in {"batch": 32, "micro-batches": 0, "stages-per-rank": 2, "layers": 0, "tokens": 0, "dropout": 1,
                        "blocks": 7, "steps": 20, "warm": 10, "deadline": 240}.items():
        parser.add_argument("--" + name, type=int, default=value)
    options = parser.parse_args()
    cuda, world, rank = options.device == "cuda", int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", rank) if cuda else torch.device("cpu")
    torch.backends.cuda.matmul.allow_tf32 = options.math != "fp32"
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo", timeout=datetime.timedelta(seconds=60), device_id=device if cuda else None)
    for plan in options.plan.split(","):
        run(plan, options, device, world)
        gc.collect()
        torch._dynamo.reset()
        torch.cuda.empty_cache()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

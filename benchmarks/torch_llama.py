"""PyTorch peer for decoders after GPT-2 (RMSNorm, rotary positions, grouped queries, SwiGLU) on one GPU: one line of JSON per
cell, with samples in us per step, tokens/s and peak memory.

    python3 benchmarks/torch_llama.py --model qwen2.5-0.5b --batches 4,8 --tokens 1024 --modes compile,graph

Parameters in float32 under autocast in bfloat16, as amdahl's bf16; scaled_dot_product_attention (flash), cross entropy inside
the compiled model, so that its logits are fused, fused AdamW 3e-4. Batch resident on the device. compile: torch.compile of the whole model. graph: the
same, and the whole step as one CUDA graph. A cell that fails says so and the next goes on.
"""
import argparse
import gc
import json
import statistics

import torch
import torch.nn.functional as F
from torch import nn
from torch_gpu_peer import graph_of, time_us

MODELS = {  # width, blocks, heads, heads of keys and values, their width, hidden, vocabulary, bias of q, k, v
    "smollm2-135m": (576, 30, 9, 3, 64, 1536, 49152, False),
    "qwen2.5-0.5b": (896, 24, 14, 2, 64, 4864, 151936, True),
    "qwen2.5-1.5b": (1536, 28, 12, 2, 128, 8960, 151936, True),
    "llama3.2-1b": (2048, 16, 32, 8, 64, 8192, 128256, False),
}


def rotated(x, cosine, sine):
    a, b = x.chunk(2, -1)
    return x * cosine + torch.cat((-b, a), -1) * sine


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = x.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight.to(x.dtype)


class Block(nn.Module):
    def __init__(self, width, heads, kv_heads, head_width, hidden, bias):
        super().__init__()
        self.parts, self.head_width = (heads, kv_heads, kv_heads), head_width
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * head_width, bias=bias)
        self.out = nn.Linear(heads * head_width, width, bias=False)
        self.up, self.down = nn.Linear(width, 2 * hidden, bias=False), nn.Linear(hidden, width, bias=False)

    def forward(self, x, cosine, sine):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (-1, self.head_width)).transpose(1, 2).split(self.parts, 1)
        q, k = rotated(q, cosine, sine), rotated(k, cosine, sine)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.parts[0] != self.parts[1])
        x = x + self.out(y.transpose(1, 2).flatten(2))
        gate, up = self.up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self, width, blocks, heads, kv_heads, head_width, hidden, vocabulary, bias, tokens):
        super().__init__()
        self.table, self.norm = nn.Embedding(vocabulary, width), Norm(width)
        self.blocks = nn.ModuleList(Block(width, heads, kv_heads, head_width, hidden, bias) for _ in range(blocks))
        angles = torch.outer(torch.arange(tokens), 1e6 ** (-torch.arange(0, head_width, 2) / head_width)).repeat(1, 2)
        self.register_buffer("cosine", angles.cos().bfloat16())
        self.register_buffer("sine", angles.sin().bfloat16())
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.02) if parameter.dim() > 1 else None

    def forward(self, tokens, targets):
        with torch.autocast("cuda", torch.bfloat16):
            x = self.table(tokens).bfloat16()
            for block in self.blocks:
                x = block(x, self.cosine, self.sine)
            return F.cross_entropy(F.linear(self.norm(x), self.table.weight).flatten(0, 1).float(), targets.flatten())


def step_of(options, batch, capturable):
    torch.manual_seed(0)
    model = Decoder(*MODELS[options.model], options.tokens).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True, capturable=capturable)
    tokens, targets = torch.randint(0, MODELS[options.model][6], (2, batch, options.tokens), device="cuda")
    compiled = torch.compile(model, dynamic=False)

    def step():
        optimizer.zero_grad(set_to_none=True)
        compiled(tokens, targets).backward()
        optimizer.step()
    return step, sum(p.numel() for p in model.parameters())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True, choices=list(MODELS))
    parser.add_argument("--batches", default="8")
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--modes", default="compile,graph")
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    for batch in map(int, options.batches.split(",")):
        for mode in options.modes.split(","):
            row = {"peer": "torch " + torch.__version__, "model": options.model, "batch": batch, "tokens": options.tokens,
                   "mode": mode, "math": "bf16"}
            try:
                torch.cuda.reset_peak_memory_stats()
                step, row["parameters"] = step_of(options, batch, mode == "graph")
                samples = time_us(graph_of(step) if mode == "graph" else step, 1, blocks=5, steps=options.steps, warm=8)
                us = statistics.median(samples)
                row.update(us=us, tokens_per_s=batch * options.tokens / us * 1e6, samples_us=samples,
                           memory_gb=torch.cuda.max_memory_allocated() / 1e9)
            except (RuntimeError, torch.OutOfMemoryError) as problem:
                row["error"] = " ".join(str(problem).split())[:200]
            print(json.dumps(row), flush=True)
            step = None
            gc.collect()
            torch._dynamo.reset()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()

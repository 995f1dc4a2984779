"""amdahl_lab.trace and fits: blocks, FLOP and kept activations of modules against formulas; what they refuse.

usage: trace_test.py SOURCE_DIR BINARY_DIR
"""
import random
import resource

from package_support import harness, lab, refused

try:
    import torch
    from torch.distributed._tools.mem_tracker import MemTracker  # noqa: F401
except ImportError:
    harness.main({"check_torch": lambda case: (_ for _ in ()).throw(harness.Skip("PyTorch 2.6 or newer is not installed"))})
    raise SystemExit(77) from None

from torch import nn

mean_square = nn.functional.mse_loss


def error(model, batch):
    return mean_square(model(batch[0]), batch[1])


def mlp(widths):
    layers = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def check_mlps_of_any_shape(case):
    draw = random.Random(7)
    for _ in range(8):
        widths = [draw.randint(1, 300) for _ in range(draw.randint(2, 5))]
        rows = draw.randint(1, 64)
        batch = (torch.zeros(rows, widths[0]), torch.zeros(rows, widths[-1]))
        step = lab.trace(lambda widths=widths: mlp(widths), error, batch)
        products = [rows * a * b for a, b in zip(widths, widths[1:])]
        parameters = sum(a * b + b for a, b in zip(widths, widths[1:]))
        assert (step.parameters, step.trainable, step.parameter_bytes) == (parameters, parameters, 4 * parameters), step
        assert step.step_flops == 6 * sum(products) - 2 * products[0], (step.step_flops, products)  # no gradient of the input
        assert sum(block.forward_flops * block.repeats for block in step.blocks) == 2 * sum(products), step
        # The input, the output of each ReLU, and what the loss keeps: prediction and target.
        kept = 4 * rows * (sum(widths[:-1]) + 2 * widths[-1])
        assert sum(block.kept_bytes * block.repeats for block in step.blocks) == kept, (step, kept)
        assert step.peak_bytes["parameters"] == 4 * parameters and step.total_bytes >= 4 * 4 * parameters, step


class Chain(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.stem = nn.Linear(8, 32)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(depth))
        self.head = nn.Linear(32, 4)
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x) * self.scale


def check_equal_blocks_are_one_row(case):
    step = lab.trace(Chain(6), error, (torch.zeros(5, 8), torch.zeros(5, 4)))
    assert sum(block.parameters * block.repeats for block in step.blocks) == step.parameters, step
    assert max(block.repeats for block in step.blocks) >= 5, step
    assert step.blocks[-1].name == "(outside the blocks)" and step.blocks[-1].parameters == 4, step
    assert "x 6" in str(step) or "x 5" in str(step), step


def check_recurrent_layers_have_flop(case):
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.cells = nn.LSTM(6, 10, batch_first=True)

        def forward(self, x):
            return self.cells(x)[0]

    step = lab.trace(Reader, error, (torch.zeros(3, 7, 6), torch.zeros(3, 7, 10)))
    assert step.blocks[0].forward_flops == 2 * 3 * 7 * 4 * 10 * (6 + 10), step


def check_a_function_allocates_nothing(case):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    step = lab.trace(lambda: nn.Linear(50_000, 50_000), error, (torch.zeros(2, 50_000), torch.zeros(2, 50_000)))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert step.parameters == 2_500_050_000 and grown < 1_000_000, f"{grown} KiB more"


def check_the_module_is_left_as_it_was(case):
    module = Chain(2)
    values = [parameter.detach().clone() for parameter in module.parameters()]
    lab.trace(module, error, (torch.zeros(5, 8), torch.zeros(5, 4)))
    for parameter, value in zip(module.parameters(), values):
        assert type(parameter) is nn.Parameter and parameter.grad is None and torch.equal(parameter, value)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


def check_a_branch_on_data_is_measured(case):
    class Branch(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            y = self.first(x)
            return self.second(y) if y.sum().item() > -1e9 else y

    step = lab.trace(Branch(), error, (torch.zeros(5, 8), torch.zeros(5, 8)))
    assert step.how.startswith("measured") and "without data the step failed" in step.notes[0], step
    assert all(block.forward_us > 0 for block in step.blocks if block.parameters), step
    assert sum(block.forward_flops for block in step.blocks) == 2 * 2 * 5 * 64, step
    refused("usage", lab.fits, step, memory_gb=1, says=["the trace has no memory"])


def check_what_is_no_step_is_refused(case):
    batch = (torch.zeros(5, 8), torch.zeros(5, 4))
    refused("usage", lab.trace, lambda: [1, 2], error, batch, says=["the model is a list"])
    refused("usage", lab.trace, Chain(1), lambda model, rows: model(rows[0]), batch, says=["the loss is of shape (5, 4)"])
    refused("usage", lab.trace, Chain(1), lambda model, rows: 3.5, batch, says=["the loss is a float"])


def check_fits(case):
    step = lab.trace(lambda: mlp([256, 4096, 4096, 10]), error, (torch.zeros(4096, 256), torch.zeros(4096, 10)))
    sizes = {(wrap, devices): lab.fits(step, devices, wrap, memory_gb=80).tensor_bytes
             for wrap, devices in (("none", 1), ("ddp", 2), ("ddp", 4), ("fsdp2", 2), ("fsdp2", 4))}
    assert sizes["none", 1] == step.total_bytes
    assert sizes["ddp", 4] < sizes["ddp", 2] and sizes["fsdp2", 4] < sizes["fsdp2", 2] < sizes["ddp", 2], sizes
    assert lab.fits(step, memory_gb=80) and not lab.fits(step, memory_gb=0.1)
    assert "does not fit" in str(lab.fits(step, memory_gb=0.1))
    for words, says in (({"wrap": "zero"}, "unknown wrap 'zero'"), ({"devices": 2, "wrap": "none"}, "on 2 devices"),
                        ({"devices": 0, "wrap": "ddp"}, "on 0 devices"), ({"memory_gb": -1}, "memory_gb is -1")):
        refused("usage", lab.fits, step, **{"memory_gb": 8, **words}, says=[says])
    if not torch.cuda.is_available():
        refused("usage", lab.fits, step, says=["there is no GPU here"])


def check_models_of_transformers(case):
    try:
        from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    except ImportError:
        raise harness.Skip("transformers is not installed") from None
    tokens = torch.zeros(2, 32, dtype=torch.long)
    for make in (lambda: GPT2LMHeadModel(GPT2Config(n_layer=3, n_embd=64, n_head=4, vocab_size=100)),
                 lambda: BertForMaskedLM(BertConfig(num_hidden_layers=3, hidden_size=64, num_attention_heads=4,
                                                    intermediate_size=128, vocab_size=100)),
                 lambda: LlamaForCausalLM(LlamaConfig(num_hidden_layers=3, hidden_size=64, num_attention_heads=4,
                                                      num_key_value_heads=2, intermediate_size=128, vocab_size=100))):
        step = lab.trace(make, lambda model, batch: model(input_ids=batch, attention_mask=batch + 1, labels=batch).loss, tokens)
        assert step.parameters == sum(p.numel() for p in make().parameters()), step
        assert step.step_flops > 0 and sum(block.kept_bytes for block in step.blocks) > 0, step
        if step.how.startswith("module tree"):  # some versions branch on the values of the mask
            assert any(block.repeats >= 2 for block in step.blocks) and step.total_bytes > 4 * step.parameters, step
        else:
            assert "without data the step failed: DataDependent" in step.notes[0], step


if __name__ == "__main__":
    harness.main(globals())

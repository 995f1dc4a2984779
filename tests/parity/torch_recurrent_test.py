"""Loss and gradients of models with LSTM and GRU layers on the CPU backend against PyTorch in float64.

usage: torch_recurrent_test.py SOURCE_DIR BINARY_DIR; exit code 77: skipped, with the reason.
With one argument, torch_recurrent_test.py INPUT.json prints PyTorch's results as JSON.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

TOLERANCE = 1e-5  # relative, in norm: float32 against float64
CASES = [(1, seed) for seed in range(3)] + [(7, seed) for seed in range(3, 8)] + [(33, seed) for seed in range(8, 12)]
SKIPPED = 77
PYTHON = "/usr/bin/python3"  # whose PyTorch (Debian: python3-torch) is the reference
TORCH_NAMES = {"weight_input": "weight_ih_l0", "weight_hidden": "weight_hh_l0", "bias_input": "bias_ih_l0",
               "bias_hidden": "bias_hh_l0"}


def set_parameters(module, layer, names):
    import torch
    for ours, theirs in names.items():
        parameter = getattr(module, theirs)
        parameter.data = torch.tensor(layer[ours], dtype=torch.float64).reshape(parameter.shape)
    return {ours: getattr(module, theirs) for ours, theirs in names.items()}


def evaluate(problem):
    """{"loss": number, "gradients": per layer {tensor: numbers}}"""
    import torch
    rows, (steps, width) = problem["rows"], problem["shape"]
    value = torch.tensor(problem["inputs"], dtype=torch.float64).reshape(rows, steps, width)
    parameters = []
    for layer in problem["layers"]:
        if layer["kind"] in ("lstm", "gru"):
            make = torch.nn.LSTM if layer["kind"] == "lstm" else torch.nn.GRU
            module = make(value.shape[-1], layer["units"], batch_first=True).double()
            parameters.append(set_parameters(module, layer, TORCH_NAMES))
            value = module(value)[0]
            value = value[:, -1] if layer["last_step_only"] else value
        else:
            value = value.reshape(rows, -1)
            module = torch.nn.Linear(value.shape[-1], layer["units"]).double()
            parameters.append(set_parameters(module, layer, {"weight": "weight", "bias": "bias"}))
            value = module(value)
    targets = torch.tensor(problem["targets"], dtype=torch.float64).reshape(value.shape)
    loss = ((value - targets) ** 2).mean()
    loss.backward()
    return {"loss": loss.item(),
            "gradients": [{name: tensor.grad.reshape(-1).tolist() for name, tensor in layer.items()}
                          for layer in parameters]}


def relative_error(ours, theirs):
    if len(ours) != len(theirs):
        return math.inf
    norm = math.sqrt(sum(b * b for b in theirs))
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(ours, theirs))) / max(norm, 1e-30)


def check(probe, folder, rows, seed):
    """(largest error, problems, kinds of layers) of one random model."""
    given, ours = os.path.join(folder, "input.json"), os.path.join(folder, "ours.json")
    subprocess.run([probe, given, ours, str(rows), str(seed)], check=True, timeout=60)
    printed = subprocess.run([PYTHON, os.path.abspath(__file__), given], stdout=subprocess.PIPE, check=True, text=True,
                             timeout=120).stdout
    wanted = json.loads(printed)
    with open(ours, encoding="utf-8") as file:
        got = json.load(file)
    with open(given, encoding="utf-8") as file:
        kinds = [layer["kind"] for layer in json.load(file)["layers"]]
    found = {"loss": abs(got["loss"] - wanted["loss"]) / max(abs(wanted["loss"]), 1e-30)}
    for index, (a, b) in enumerate(zip(got["gradients"], wanted["gradients"])):
        found.update({f"layer {index} {name}": relative_error(a.get(name, []), b[name]) for name in b})
    name = f"{' '.join(kinds)} with {rows} rows, seed {seed}"
    return (max(found.values()),
            [f"{name}: {what} is off by {error:.2e}" for what, error in found.items() if not error <= TOLERANCE],
            set(kinds))


def main():
    if len(sys.argv) == 2:
        with open(sys.argv[1], encoding="utf-8") as file:
            print(json.dumps(evaluate(json.load(file))))
        return 0
    probe = os.path.join(sys.argv[2], "tests", "recurrent_probe")
    if not os.path.exists(probe):
        print(f"skipped: {probe} is not built")
        return SKIPPED
    if not os.path.exists(PYTHON) or subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL,
                                                    check=False).returncode:
        print(f"skipped: {PYTHON} has no PyTorch (Debian: python3-torch), which is the reference")
        return SKIPPED
    worst, problems, kinds = 0.0, [], set()
    with tempfile.TemporaryDirectory() as folder:
        for rows, seed in CASES:
            error, found, seen = check(probe, folder, rows, seed)
            worst, problems, kinds = max(worst, error), problems + found, kinds | seen
    if not {"lstm", "gru"} <= kinds:
        problems.append(f"the models have only layers of {kinds}")
    print("\n".join(problems + [f"{len(CASES)} models, largest relative error {worst:.2e}"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

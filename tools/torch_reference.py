#!/usr/bin/python3
"""Loss and gradients of a multi-layer perceptron, computed by PyTorch in float64: an independent reference for amdahl's.

usage: torch_reference.py INPUT.json OUTPUT.json

INPUT.json
    loss      "mse" or "softmax_cross_entropy"
    rows      number of rows B
    layers    list, first layer first, of objects
                  units       O
                  activation  "relu" or "none"
                  weights     O * I numbers, row-major [O, I]
                  bias        O numbers; absent, null or [] for none
                  mask        optional, B * O numbers: what relu's output is multiplied by (dropout: 0 or 1/(1-p))
    input_width   I of the first layer
    inputs    B * I numbers, row-major [B, I]
    targets   mse: B * O numbers; softmax_cross_entropy: B class indices
    global_rows   optional: rows that the loss is averaged over (a share of a larger batch); B when absent

OUTPUT.json
    torch_version, loss (number), num_correct (rows whose largest output is the class; 0 for mse),
    outputs [B * O], inputs_grad [B * I], layers: list of {"weights_grad": [O * I], "bias_grad": [O] or []}

The loss is sum((y - t)^2) / (global_rows * O) for mse and sum(-log softmax(y)[class]) / global_rows for cross-entropy.
Numbers are written with all their digits. Exit codes: 0 done, 2 bad input, 77 PyTorch is not installed.
"""
import json
import sys

try:
    import torch
except ImportError:
    print("skipped: PyTorch is not installed (Debian: python3-torch)", file=sys.stderr)
    sys.exit(77)


class BadInput(Exception):
    """The input file does not describe a network; the message says where."""


def matrix(values, rows, columns, what):
    if len(values) != rows * columns:
        raise BadInput(f"{what}: {len(values)} numbers where {rows} x {columns} are needed")
    return torch.tensor(values, dtype=torch.float64).reshape(rows, columns)


def flat(tensor):
    return tensor.reshape(-1).tolist()


def read_layers(document, rows):
    """[(weights, bias or None, relu, mask or None)] with gradients switched on."""
    layers, width = [], document["input_width"]
    for index, layer in enumerate(document["layers"]):
        units, name = layer["units"], f"layers[{index}]"
        if layer["activation"] not in ("relu", "none"):
            raise BadInput(f"{name}.activation is {layer['activation']!r}")
        weights = matrix(layer["weights"], units, width, f"{name}.weights").requires_grad_()
        bias = matrix(layer["bias"], 1, units, f"{name}.bias").requires_grad_() if layer.get("bias") else None
        mask = matrix(layer["mask"], rows, units, f"{name}.mask") if layer.get("mask") else None
        layers.append((weights, bias, layer["activation"] == "relu", mask))
        width = units
    return layers, width


def compute_loss(document, outputs, rows):
    """(loss, number of correct rows)"""
    global_rows = document.get("global_rows", rows)
    if document["loss"] == "mse":
        targets = matrix(document["targets"], rows, outputs.shape[1], "targets")
        return ((outputs - targets) ** 2).sum() / (global_rows * outputs.shape[1]), 0
    if document["loss"] == "softmax_cross_entropy":
        classes = matrix(document["targets"], rows, 1, "targets").reshape(-1).long()
        if rows and (classes.min() < 0 or classes.max() >= outputs.shape[1]):
            raise BadInput(f"targets: class {int(classes.max())} of {outputs.shape[1]}")
        loss = torch.nn.functional.cross_entropy(outputs, classes, reduction="sum") / global_rows
        return loss, int((outputs.argmax(dim=1) == classes).sum())
    raise BadInput(f"loss is {document['loss']!r}")


def evaluate(document):
    rows = document["rows"]
    inputs = matrix(document["inputs"], rows, document["input_width"], "inputs").requires_grad_()
    layers, _ = read_layers(document, rows)
    value = inputs
    for weights, bias, relu, mask in layers:
        value = torch.nn.functional.linear(value, weights, None if bias is None else bias[0])
        value = torch.relu(value) if relu else value
        value = value if mask is None else value * mask
    loss, num_correct = compute_loss(document, value, rows)
    loss.backward()
    return {
        "torch_version": torch.__version__,
        "loss": loss.item(),
        "num_correct": num_correct,
        "outputs": flat(value.detach()),
        "inputs_grad": flat(inputs.grad),
        "layers": [{"weights_grad": flat(weights.grad), "bias_grad": [] if bias is None else flat(bias.grad)}
                   for weights, bias, _, _ in layers],
    }


def main(arguments):
    if len(arguments) != 3:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    try:
        with open(arguments[1], encoding="utf-8") as file:
            result = evaluate(json.load(file))
    except (BadInput, KeyError, TypeError, json.JSONDecodeError, OSError) as error:
        print(f"torch_reference: {arguments[1]}: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    with open(arguments[2], "w", encoding="utf-8") as file:
        json.dump(result, file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))

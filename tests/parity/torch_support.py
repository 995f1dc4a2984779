"""What the comparisons with PyTorch in this folder share: reasons to skip, runs of model_probe, the comparison."""
import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile

SKIPPED = 77
SCHEMA_VERSION = 1
# Relative, in norm, of each tensor's gradient: float32 against float64. Three times the largest error or a bit more.
TOLERANCE = 3e-6
# The input of a ReLU that is nearer to zero than this may have the other sign in float32, and so pass another gradient.
RELU_MARGIN = 4e-6


def model(input_shape, layers, loss="mse"):
    """The content of a model file."""
    return {"version": SCHEMA_VERSION, "name": "random", "input_shape": input_shape, "loss": loss, "layers": layers}


def kind_of(layer):
    return layer.get("kind", "dense")


def relative_error(ours, theirs):
    """In norm; infinite where only one is zero or their sizes differ."""
    if len(ours) != len(theirs):
        return math.inf
    difference = math.sqrt(sum((a - b) ** 2 for a, b in zip(ours, theirs)))
    norm = math.sqrt(sum(b * b for b in theirs))
    return difference / norm if norm > 0 else math.inf if difference > 0 else 0.0


def errors_of(layers, ours, theirs):
    """{what: relative error} of the loss and the gradient of every tensor that either has."""
    found = {"loss": relative_error([ours["loss"]], [theirs["loss"]])}
    if not len(ours["gradients"]) == len(theirs["gradients"]) == len(layers):
        found["number of layers"] = math.inf
    for index, (layer, a, b) in enumerate(zip(layers, ours["gradients"], theirs["gradients"])):
        for name in {**a, **b}:
            found[f"layer {index} ({kind_of(layer)}) {name}"] = relative_error(a.get(name, []), b.get(name, []))
    return found


class Comparison:
    """Compares models one by one; `finish` prints the problems and the largest error. Skips the test without PyTorch.

    `evaluate` gets a problem as model_probe writes it and returns PyTorch's loss, num_correct, gradients, and
    relu_margin, the smallest size of a ReLU's input.
    """

    def __init__(self, binary):
        self.probe = os.path.join(binary, "tests", "model_probe")
        self.models, self.problems = 0, []
        self.worst = {}  # by tolerance: (largest error, where)
        self.layers = []  # of all models, with all their fields
        if not os.path.exists(self.probe):
            self.skip(f"{self.probe} is not built")
        if importlib.util.find_spec("torch") is None:
            self.skip(f"{sys.executable} has no PyTorch (Debian: python3-torch), which is the reference")

    @staticmethod
    def skip(reason):
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)

    def layer_kinds(self):
        return json.loads(subprocess.run([self.probe, "kinds"], stdout=subprocess.PIPE, check=True, timeout=60).stdout)

    def solve(self, spec, rows, seed):
        """The problem, and what our CPU backend makes of it; or None and the reason."""
        with tempfile.TemporaryDirectory() as folder:
            given, problem, ours = (os.path.join(folder, name) for name in ("model.json", "problem.json", "ours.json"))
            with open(given, "w", encoding="utf-8") as file:
                json.dump(spec, file)
            done = subprocess.run([self.probe, given, str(rows), str(seed), problem, ours], check=False, timeout=60)
            if done.returncode != 0:
                return None, f"model_probe ended with {done.returncode}"
            with open(problem, encoding="utf-8") as first, open(ours, encoding="utf-8") as second:
                return json.load(first), json.load(second)

    def check(self, name, spec, rows, seed, evaluate, tolerance=TOLERANCE):
        name = f"{name} with {rows} rows, seed {seed}"
        self.models += 1
        problem, ours = self.solve(spec, rows, seed)
        if problem is None:
            self.problems.append(f"{name}: {ours}")
            return
        theirs, layers = evaluate(problem), problem["model"]["layers"]
        errors = errors_of(layers, ours, theirs)
        self.problems += [f"{name}: {what} is off by {error:.2e}" for what, error in errors.items()
                          if not error <= tolerance]
        if ours["num_correct"] != theirs["num_correct"]:
            self.problems.append(f"{name}: {ours['num_correct']} correct, PyTorch says {theirs['num_correct']}")
        if theirs["relu_margin"] < RELU_MARGIN:
            self.problems.append(f"{name}: the input of a ReLU is {theirs['relu_margin']:.1e}; take another seed")
        self.layers += layers
        self.worst[tolerance] = max(self.worst.get(tolerance, (0.0, "")),
                                    *((error, f"{name}: {what}") for what, error in errors.items()))

    def finish(self):
        print("\n".join(self.problems + [f"largest relative error {error:.2e} of the {tolerance:.1e} allowed: {where}"
                                         for tolerance, (error, where) in sorted(self.worst.items())]))
        print(f"{self.models} models")
        return 1 if self.problems else 0

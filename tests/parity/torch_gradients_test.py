"""Loss and gradients of the CPU backend against PyTorch in float64, on random networks with odd shapes and both losses.

usage: torch_gradients_test.py SOURCE_DIR BINARY_DIR; exit code 77: skipped, with the reason.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

TOLERANCE = 1e-5  # relative, in norm: float32 against float64
ROWS = (1, 7, 33, 65)
SKIPPED = 77


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def relative_error(ours, theirs):
    if len(ours) != len(theirs):
        return math.inf
    difference = math.sqrt(sum((a - b) ** 2 for a, b in zip(ours, theirs)))
    norm = math.sqrt(sum(b * b for b in theirs))
    return difference / norm if norm > 0 else difference


def errors_of(ours, theirs):
    """{what: relative error}"""
    found = {"loss": abs(ours["loss"] - theirs["loss"]) / max(abs(theirs["loss"]), 1e-30)}
    for index, (a, b) in enumerate(zip(ours["layers"], theirs["layers"])):
        for what in ("weights_grad", "bias_grad"):
            found[f"layer {index} {what}"] = relative_error(a[what], b[what])
    return found


def check(source, probe, folder, loss, rows, seed):
    """(largest error, problems) of one random network."""
    given, ours, theirs = (os.path.join(folder, name) for name in ("input.json", "ours.json", "theirs.json"))
    subprocess.run([probe, given, ours, loss, str(rows), str(seed)], check=True, timeout=60)
    reference = subprocess.run(["/usr/bin/python3", os.path.join(source, "tools", "torch_reference.py"), given, theirs],
                               stderr=subprocess.PIPE, text=True, timeout=120)
    if reference.returncode == SKIPPED:
        print(reference.stderr.strip())
        sys.exit(SKIPPED)
    if reference.returncode != 0:
        return math.inf, [f"torch_reference.py exited with {reference.returncode}: {reference.stderr}"]
    got, wanted = load(ours), load(theirs)
    name = f"{loss} with {rows} rows, seed {seed}"
    found = errors_of(got, wanted)
    problems = [f"{name}: {what} is off by {error:.2e}" for what, error in found.items() if not error <= TOLERANCE]
    if len(got["layers"]) != len(wanted["layers"]):
        problems.append(f"{name}: {len(got['layers'])} layers against {len(wanted['layers'])}")
    if got["num_correct"] != wanted["num_correct"]:
        problems.append(f"{name}: {got['num_correct']} rows correct, PyTorch says {wanted['num_correct']}")
    return max(found.values()), problems


def main():
    source, binary = sys.argv[1:3]
    probe = os.path.join(binary, "tests", "gradient_probe")
    if not os.path.exists(probe):
        print(f"skipped: {probe} is not built")
        return SKIPPED
    if not os.path.exists("/usr/bin/python3"):
        print("skipped: no /usr/bin/python3, whose PyTorch (Debian: python3-torch) is the reference")
        return SKIPPED
    worst, problems = 0.0, []
    with tempfile.TemporaryDirectory() as folder:
        for loss in ("mse", "softmax_cross_entropy"):
            for index, rows in enumerate(ROWS):
                error, found = check(source, probe, folder, loss, rows, 100 + index)
                worst, problems = max(worst, error), problems + found
    print("\n".join(problems + [f"{2 * len(ROWS)} networks, largest relative error {worst:.2e}"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""tools/torch_reference.py agrees with finite differences and refuses bad input: the reference is tested before it judges.

usage: torch_reference_test.py SOURCE_DIR [BINARY_DIR]
"""
import copy
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile


def network(loss, seed):
    random.seed(seed)
    numbers = lambda n: [random.gauss(0, 1) for _ in range(n)]
    rows, widths = 5, [4, 6, 3]
    mask = [random.choice([0.0, 1.25]) for _ in range(rows * 6)]
    return {
        "loss": loss, "rows": rows, "input_width": 4, "inputs": numbers(rows * 4), "global_rows": 8,
        "targets": numbers(rows * 3) if loss == "mse" else [0, 2, 1, 1, 0],
        "layers": [
            {"units": 6, "activation": "relu", "weights": numbers(24), "bias": numbers(6), "mask": mask},
            {"units": widths[2], "activation": "none", "weights": numbers(18)},
        ],
    }


def difference(evaluate, document, path, index):
    """Central difference of the loss by one number."""
    step, values = 1e-6, []
    for sign in (1, -1):
        moved = copy.deepcopy(document)
        place = moved
        for key in path:
            place = place[key]
        place[index] += sign * step
        values.append(evaluate(moved)["loss"])
    return (values[0] - values[1]) / (2 * step)


def check_gradients(evaluate, loss):
    document = network(loss, 42)
    result = evaluate(document)
    problems = []
    for path, got in ((("layers", 0, "weights"), result["layers"][0]["weights_grad"]),
                      (("layers", 0, "bias"), result["layers"][0]["bias_grad"]),
                      (("layers", 1, "weights"), result["layers"][1]["weights_grad"]),
                      (("inputs",), result["inputs_grad"])):
        for index, value in enumerate(got):
            expected = difference(evaluate, document, path, index)
            if abs(value - expected) > 1e-7 * max(1, abs(expected)):
                problems.append(f"{loss}: gradient of {path}[{index}] is {value}, by differences {expected}")
    if result["layers"][1]["bias_grad"] != []:
        problems.append("a layer without bias has a bias gradient")
    return problems


def main():
    script = os.path.join(os.path.abspath(sys.argv[1]), "tools", "torch_reference.py")
    if importlib.util.find_spec("torch") is None:
        print("skipped: PyTorch is not installed (Debian: python3-torch)")
        return 77
    spec = importlib.util.spec_from_file_location("torch_reference", script)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    problems = check_gradients(module.evaluate, "mse") + check_gradients(module.evaluate, "softmax_cross_entropy")

    with tempfile.TemporaryDirectory() as folder:
        given, made = os.path.join(folder, "in.json"), os.path.join(folder, "out.json")
        for spoil, code in ((lambda d: None, 0), (lambda d: d["inputs"].pop(), 2), (lambda d: d.pop("rows"), 2)):
            document = network("mse", 1)
            spoil(document)
            with open(given, "w", encoding="utf-8") as file:
                json.dump(document, file)
            done = subprocess.run([sys.executable, script, given, made], capture_output=True, text=True, check=False)
            if done.returncode != code:
                problems.append(f"exit code {done.returncode} instead of {code}: {done.stderr}")
        with open(made, encoding="utf-8") as file:
            if json.load(file)["loss"] != module.evaluate(network("mse", 1))["loss"]:
                problems.append("the file has another loss than the function")
    print("\n".join(problems + [f"{len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

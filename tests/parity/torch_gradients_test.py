"""Loss and gradients of dense networks on the CPU backend against tools/torch_reference.py, PyTorch in float64: random
networks with odd widths, with and without biases and dropout, and both losses.

usage: torch_gradients_test.py SOURCE_DIR BINARY_DIR; exit code 77: skipped, with the reason.
"""
import os
import random
import sys

from torch_support import Comparison, model

ROWS = (1, 7, 33, 65)


def network(loss, seed):
    drawn = random.Random(seed)
    layers = [{"units": drawn.randint(1, 140), "bias": drawn.random() < 0.5, "dropout": drawn.choice((0.0, 0.0, 0.3))}
              for _ in range(drawn.randint(1, 4))]
    layers.append({"units": drawn.randint(2, 13), "bias": drawn.random() < 0.5})
    return model([drawn.randint(1, 150)], layers, loss)


def evaluate_dense(problem):
    """What tools/torch_reference.py makes of the problem, in the form of torch_models.evaluate."""
    import torch_models
    import torch_reference
    spec, parameters = problem["model"], problem["parameters"]
    layers = [{**layer, "weights": p["weight"], "bias": p.get("bias"), "mask": mask}
              for layer, p, mask in zip(spec["layers"], parameters, problem["masks"])]
    result = torch_reference.evaluate({"loss": spec["loss"], "rows": problem["rows"], "layers": layers,
                                       "input_width": spec["input_width"], "inputs": problem["inputs"],
                                       "targets": problem["targets"]})
    gradients = [{"weight": layer["weights_grad"], **({"bias": layer["bias_grad"]} if "bias" in p else {})}
                 for layer, p in zip(result["layers"], parameters)]
    return {"loss": result["loss"], "num_correct": result["num_correct"], "gradients": gradients,
            "relu_margin": torch_models.evaluate(problem)["relu_margin"]}


def main():
    comparison = Comparison(sys.argv[2])
    sys.path.append(os.path.join(sys.argv[1], "tools"))
    cases = [(loss, rows) for loss in ("mse", "softmax_cross_entropy") for rows in ROWS]
    for seed, (loss, rows) in enumerate(cases, 100):
        comparison.check(f"dense network, {loss}", network(loss, seed), rows, seed, evaluate_dense)
    return comparison.finish()


if __name__ == "__main__":
    sys.exit(main())

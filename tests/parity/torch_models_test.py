"""Loss and gradients of every kind of layer on the CPU backend against PyTorch in float64.

usage: torch_models_test.py SOURCE_DIR BINARY_DIR; exit code 77: skipped, with the reason.
"""
import random
import sys

from torch_support import TOLERANCE, Comparison, kind_of, model

# The normalisation after a convolution removes the part of a gradient that only scales or shifts its input: what is
# left is small beside its terms, so that their rounding weighs more.
IMAGE_TOLERANCE = 1.5e-5
CROSS_ENTROPY = "softmax_cross_entropy"
RECURRENT_CASES = ([(1, seed) for seed in range(3)] + [(7, seed) for seed in range(3, 8)] +
                   [(33, seed) for seed in range(8, 12)])
POOLINGS = {"mean", "first", "last"}


def dense(units, **fields):
    return {"units": units, **fields}


def block(units, heads, **fields):
    return {"kind": "transformer_block", "units": units, "heads": heads, **fields}


def embedding(units, vocabulary, **fields):
    return {"kind": "embedding", "units": units, "vocabulary": vocabulary, **fields}


def token_head(vocabulary, tied):
    return {"kind": "token_head", "vocabulary": vocabulary, "tied": tied}


def projection(units, **fields):
    return {"kind": "projection", "units": units, **fields}


def pool(pooling):
    return {"kind": "pool", "pooling": pooling}


def cells(kind, units, last_step_only):
    return {"kind": kind, "units": units, "last_step_only": last_step_only}


def conv(units, **fields):
    return {"kind": "conv", "units": units, **fields}


def residual(units, stride=1, **fields):
    return {"kind": "residual_block", "units": units, "stride": stride, **fields}


def max_pool(kernel=3, stride=2):
    return {"kind": "max_pool", "kernel": kernel, "stride": stride}


NORM, AVERAGE_POOL = {"kind": "layer_norm"}, {"kind": "average_pool"}

# (name, model, rows, seed). Sizes are no multiples of vector and tile widths; padded vocabularies have 128 or 256 rows.
CASES = [
    ("gpt, tied", model([13], [embedding(24, 37, max_steps=17), block(24, 3, causal=True), block(24, 2, causal=True),
                               NORM, token_head(37, True)], CROSS_ENTROPY), 3, 1),
    ("gpt, untied", model([7], [embedding(20, 150), block(20, 4, causal=True), NORM, token_head(150, False)],
                          CROSS_ENTROPY), 5, 2),
    ("gpt without positions", model([70], [embedding(18, 131, positions=False), block(18, 1, causal=True), NORM,
                                           token_head(131, True)], CROSS_ENTROPY), 1, 3),
    ("tokens without blocks", model([5], [embedding(9, 6), token_head(6, False)], CROSS_ENTROPY), 4, 4),
    ("encoder of windows", model([11, 5], [projection(24, max_steps=14), block(24, 3), block(24, 1), NORM,
                                           pool("mean"), dense(3)]), 5, 5),
    ("encoder of long windows", model([67, 3], [projection(26), block(26, 2), NORM, pool("mean"), dense(2)]), 2, 6),
    ("post-norm encoder", model([9, 7], [projection(21, positions=False), block(21, 3, post_norm=True),
                                         block(21, 1, post_norm=True, causal=True), pool("last"), dense(4)]), 6, 7),
    ("bert", model([12], [embedding(28, 45, token_types=2, max_steps=15), NORM, block(28, 2, post_norm=True),
                          block(28, 4, post_norm=True), pool("first"), dense(28)]), 4, 8),
    ("classifier of windows", model([6, 8], [block(8, 2, causal=True), pool("last"), dense(17, dropout=0.25),
                                             dense(11, bias=False), dense(4)], CROSS_ENTROPY), 9, 9),
    ("normalised features", model([5, 6], [NORM, pool("mean"), dense(3, bias=False)]), 7, 10),
    ("recurrent and transformer layers", model([8, 5], [projection(12), cells("lstm", 14, False), block(14, 2), NORM,
                                                        cells("gru", 10, False), pool("mean"), dense(2)]), 5, 11),
    ("resnet", model([9, 7, 3], [conv(5), residual(5), residual(7, stride=2), residual(6), AVERAGE_POOL, dense(4)],
                     CROSS_ENTROPY), 4, 12),
    ("resnet for regression", model([8, 11, 2], [conv(6, kernel=5, stride=2), conv(4, kernel=1), residual(4),
                                                 residual(4), AVERAGE_POOL, dense(9), dense(2)]), 3, 231),
    ("resnet of bottlenecks", model([19, 14, 3], [conv(5, kernel=7, stride=2), max_pool(), residual(8, bottleneck=3),
                                                  residual(8, bottleneck=2), residual(10, 2, bottleneck=4), AVERAGE_POOL,
                                                  dense(4)], CROSS_ENTROPY), 4, 35),
    ("pooled features and windows larger than the picture", model([3, 2, 4], [max_pool(5, 1), conv(3), max_pool(7, 3),
                                                                              dense(2)]), 4, 17),
    ("residual block first", model([6, 6, 3], [residual(3), residual(5, stride=3), dense(3)], CROSS_ENTROPY), 5, 14),
    ("convolutions and dense layers", model([7, 5, 2], [conv(3, stride=2), conv(4), dense(6), dense(2)]), 6, 15),
]


def recurrent_model(seed):
    """Two recurrent layers, the second of which gives its last step or all steps, and a dense layer."""
    drawn = random.Random(seed)
    layers = [cells(drawn.choice(("lstm", "gru")), drawn.randint(1, 60), place == 1 and drawn.randint(1, 3) > 1)
              for place in range(2)]
    return model([drawn.randint(1, 15), drawn.randint(1, 30)], layers + [dense(drawn.randint(2, 6))])


def uncovered(kinds, layers):
    """The kinds of layers, and options of them, that no model has, or only with one value."""
    seen = {kind: {} for kind in kinds}
    for layer in layers:
        for field, value in layer.items():
            seen[kind_of(layer)].setdefault(field, set()).add(value)
    problems = [f"no model has a layer of the kind {kind}" for kind in kinds
                if not any(kind_of(layer) == kind for layer in layers)]
    problems += [f"all layers of the kind {kind} have {field} = {next(iter(values))}"
                 for kind, fields in seen.items() for field, values in fields.items()
                 if field != "kind" and len(values) == 1]
    missing = POOLINGS - seen["pool"].get("pooling", set())
    return problems + [f"no model pools by {pooling}" for pooling in sorted(missing)]


def main():
    comparison = Comparison(sys.argv[2])
    from torch_models import evaluate  # imports PyTorch
    for name, spec, rows, seed in CASES:
        has_images = any(kind_of(layer) in ("conv", "residual_block") for layer in spec["layers"])
        comparison.check(name, spec, rows, seed, evaluate, IMAGE_TOLERANCE if has_images else TOLERANCE)
    for rows, seed in RECURRENT_CASES:
        spec = recurrent_model(seed)
        comparison.check(" ".join(map(kind_of, spec["layers"])), spec, rows, seed, evaluate)
    kinds = comparison.layer_kinds()
    comparison.problems += uncovered(kinds, comparison.layers)
    print(f"kinds of layers: {', '.join(kinds)}")
    return comparison.finish()


if __name__ == "__main__":
    sys.exit(main())

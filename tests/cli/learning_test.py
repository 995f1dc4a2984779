"""The medium model learns the handwritten digits: at least 96 % on rows it has not seen, alike on 1, 2 and 4 devices."""
import json

import harness
from harness import DIGITS, records_of

WANTED = 0.96
ALIKE = 0.01


def accuracy(case, devices, *words):
    name = f"t{devices}"
    result = case.run("train", "--backend", "cpu", "--data", DIGITS, "--target", "label", "--model", "medium", "--devices",
                      devices, "--json", "-q", "-o", name, *words)
    last = json.loads(result.stdout)
    epochs = records_of(case.path(name))
    assert last["axes"]["epoch"] == len(epochs), "the result is not that of the last epoch"
    series = {s["name"]: s["samples"] for s in last["series"]}
    losses = [s["samples"][0] for record in epochs for s in record["series"] if s["name"] == "train_loss"]
    assert losses[-1] < 0.2 * losses[0], f"train loss {losses[0]} to {losses[-1]}"
    return series["validation_accuracy"][0]


def check_digits_on_1_2_and_4_devices(case):
    reached = {devices: accuracy(case, devices) for devices in (1, 2, 4)}
    print("   validation accuracy:", ", ".join(f"{a:.2%} on {n}" for n, a in reached.items()))
    assert min(reached.values()) >= WANTED, f"below {WANTED:.0%}: {reached}"
    assert max(reached.values()) - min(reached.values()) <= ALIKE, f"more than {ALIKE:.0%} apart: {reached}"


def check_same_seed_same_result(case):
    words = ("train", "--backend", "cpu", "--data", DIGITS, "--target", "label", "--epochs", "2", "--deterministic",
             "--json", "-q")
    results = []
    for name in ("a", "b"):
        case.run(*words, "-o", name)
        results.append([s["samples"] for record in records_of(case.path(name)) for s in record["series"]
                        if s["name"] in ("train_loss", "validation_loss", "validation_accuracy")])
    assert results[0] == results[1], "--deterministic with one seed gave two results"


harness.main(globals())

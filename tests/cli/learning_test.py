"""Training learns: the medium model on the shipped digits reaches 96 % on held-out rows, alike on 1, 2 and 4 devices."""
import json
import pathlib
import subprocess
import sys
import tempfile

source, binary = map(pathlib.Path, sys.argv[1:3])
accuracies = {}
with tempfile.TemporaryDirectory() as scratch:
    for devices in (1, 2, 4):
        folder = pathlib.Path(scratch, str(devices))
        done = subprocess.run([str(binary / "bin/amdahl"), "train", "-q", "--backend", "cpu", "--model", "medium", "--data",
                               str(source / "data/digits.csv"), "--target", "label", "--devices", str(devices), "--epochs", "30",
                               "-o", str(folder)], capture_output=True, text=True, timeout=250)
        if done.returncode:
            sys.exit(done.stderr)
        records = [json.loads(line) for line in open(folder / "records.jsonl")]
        epochs = [{s["name"]: s["samples"][0] for s in r["series"]} for r in records if r["type"] == "record"]
        assert len(epochs) == 30, len(epochs)
        accuracies[devices] = epochs[-1]["validation_accuracy"]
print(accuracies)
assert min(accuracies.values()) >= 0.96, accuracies
assert max(accuracies.values()) - min(accuracies.values()) <= 0.01, accuracies

"""A training that is killed and resumed ends with the weights of one that was not, bit for bit; a damaged checkpoint is
named and the one before is used; a checkpoint of another training is refused."""
import json
import random
import shutil
import signal
import subprocess
import time

import harness
from harness import AMDAHL, DIGITS, ENVIRONMENT, records_of

MODEL = {"version": 1, "name": "tiny", "input_width": 64, "loss": "mse",
         "layers": [{"units": 32, "dropout": 0.2}, {"units": 16}, {"units": 10, "activation": "none"}]}
EVERY = 7
KILLS = 20
OPTIONS = {"--backend": "cpu", "--data": DIGITS, "--target": "label", "--model": "tiny.json", "--batch-size": 64,
           "--epochs": 12, "--optimizer": "adamw", "--clip-norm": 1, "--lr-schedule": "cosine"}
ONE = {"--devices": 1}
ON = (ONE, {"--devices": 2, "--plan": "ddp"}, {"--devices": 2, "--plan": "zero1"})
CONSTANT = {**ONE, "--lr-schedule": "constant"}


def train(changes=None):
    """The words of a training with the options changed."""
    return ("train", "-q", *(word for option in {**OPTIONS, **(changes or {})}.items() for word in option))


def prepare(case):
    case.write("tiny.json", json.dumps(MODEL))


def weights(case, name):
    return case.path(f"{name}.safetensors").read_bytes()


def checkpoints(case, name):
    return sorted(p.name for p in case.path(name).glob("checkpoints/*"))


def reference(case, changes):
    """The weights of the training without interruption, and its seconds."""
    start = time.monotonic()
    case.run(*train(changes), "-o", "whole", "--save", "whole.safetensors")
    seconds = time.monotonic() - start
    shutil.rmtree(case.path("whole"))
    return weights(case, "whole"), seconds


def resumable(changes, name):
    return (*train(changes), "-o", name, "--checkpoint-every", EVERY, "--resume", "--save", f"{name}.safetensors")


def attempt(case, words, seconds):
    """Runs the program and kills it after that time; true when it ended before."""
    process = subprocess.Popen([AMDAHL, *map(str, words)], cwd=case.folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    try:
        error = process.communicate(timeout=seconds)[1]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return False
    assert process.returncode == 0, f"exit code {process.returncode}: {error}"
    return True


def newest_step(case, name):
    return max([int(n[5:14]) for n in checkpoints(case, name) if n.endswith(".safetensors")], default=0)


def check_20_random_kills_change_no_bit(case):
    prepare(case)
    moments = random.Random(20)
    kills = trainings = advances = 0
    ends = set()
    for i, changes in enumerate(ON):
        long = {**changes, "--epochs": 40}  # 880 steps
        expected, _ = reference(case, long)
        ends.add(expected)
        start = time.monotonic()
        case.run(*resumable(long, f"calm{i}"))
        seconds = time.monotonic() - start
        assert weights(case, f"calm{i}") == expected, "checkpoints alone changed the weights"
        target = KILLS * (i + 1) // len(ON)
        while kills < target:
            name = f"t{trainings}"
            trainings += 1
            done = False
            while not done:
                before = newest_step(case, name)
                # Once there have been enough, this training only ends.
                limit = moments.uniform(0, 0.7 * seconds) if kills < target else 60
                done = attempt(case, resumable(long, name), limit)
                kills += not done
                advances += newest_step(case, name) > before
            assert weights(case, name) == expected, f"{name}: other weights after a kill ({changes})"
            epochs = [record["axes"]["epoch"] for record in records_of(case.path(name))]
            assert epochs == list(range(1, 41)), f"{name}: records of epochs {epochs}"
            kept = checkpoints(case, name)
            assert len(kept) == 2 and all(n.endswith(".safetensors") for n in kept), kept
    assert kills >= KILLS, f"{kills} kills"
    assert advances > KILLS // 2, f"only {advances} of the killed processes had written a checkpoint"
    assert len(ends) > 1, "one and two devices add up in different orders, and gave the same bits"
    print(f"   {kills} kills of {trainings} trainings, {advances} processes wrote checkpoints")


def interrupted(case, name, changes=CONSTANT):
    """A training that ended after 7 epochs of 22 steps, with its checkpoints of steps 147 and 154."""
    case.run(*train({**changes, "--lr-schedule": "constant", "--epochs": 7}), "-o", name, "--checkpoint-every", EVERY)
    assert checkpoints(case, name) == ["step-000000147.safetensors", "step-000000154.safetensors"], checkpoints(case, name)


def check_a_damaged_checkpoint_is_named_and_the_one_before_is_used(case):
    prepare(case)
    expected, _ = reference(case, CONSTANT)
    for damage in ("flip", "header", "cut", "empty"):
        interrupted(case, damage)
        path = case.path(damage) / "checkpoints" / "step-000000154.safetensors"
        content = bytearray(path.read_bytes())
        if damage == "flip":
            content[len(content) // 2] ^= 0x10
        elif damage == "header":
            content[200] ^= 1
        path.write_bytes(content[:{"cut": len(content) // 3, "empty": 0}.get(damage, len(content))])
        result = case.run(*resumable(CONSTANT, damage))
        warning = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
        assert len(warning) == 1 and path.name in warning[0] and "step 147 is used" in warning[0], result.stderr
        assert weights(case, damage) == expected, f"{damage}: other weights"


def check_the_oldest_of_three_is_removed(case):
    """A process that was killed after its rename left three; the resumed one may end before it writes another."""
    prepare(case)
    interrupted(case, "r")
    kept = checkpoints(case, "r")
    folder = case.path("r") / "checkpoints"
    shutil.copy(folder / kept[0], folder / "step-000000140.safetensors")
    resumed = ("--checkpoint-dir", "r/checkpoints", "--resume")
    case.run(*train({**CONSTANT, "--epochs": 8}), *resumed, "-o", "reader")
    assert len(checkpoints(case, "r")) == 3, "a training that writes no checkpoints removed one"
    case.run(*train({**CONSTANT, "--epochs": 8}), *resumed, "-o", "writer", "--checkpoint-every", 1000)
    assert checkpoints(case, "r") == kept, checkpoints(case, "r")


def check_nothing_but_damage_is_refused(case):
    prepare(case)
    interrupted(case, "r")
    for path in case.path("r").glob("checkpoints/*"):
        path.write_bytes(path.read_bytes()[:-1])
    case.refused(2, "data-corrupt", *resumable(CONSTANT, "r"), says=["step-000000147.safetensors", "cut off"])


def check_another_training_is_refused(case):
    prepare(case)
    interrupted(case, "r")
    case.write("other.json", json.dumps({**MODEL, "name": "other", "layers": [{"units": 10, "activation": "none"}]}))
    again = ("--checkpoint-dir", "r/checkpoints", "--resume", "-o", "s")
    case.refused(2, "usage", *train({"--model": "other.json"}), *again, says=["'tiny'", "'other'", "step-000000154"])
    for option, value, says in (("--seed", 7, "seed"), ("--batch-size", 32, "batch_size"), ("--optimizer", "adam", "optimizer")):
        case.refused(2, "usage", *train({option: value}), *again, says=[says, "r/checkpoints"])
    case.refused(2, "usage", *train({"--epochs": 3}), *again, says=["epoch 7", "--epochs is 3"])


def check_checkpoints_are_not_mixed(case):
    """A new training does not write among the checkpoints of another one."""
    prepare(case)
    interrupted(case, "r")
    case.refused(2, "usage", *train(), "--checkpoint-every", EVERY, "--checkpoint-dir", "r/checkpoints", "-o", "s",
                 says=["r/checkpoints", "--resume"])
    case.refused(2, "usage", *train(), "--resume", says=["--resume", "--checkpoint-dir"])
    case.refused(2, "usage", *train(), "--checkpoint-dir", "c", says=["--checkpoint-dir", "--checkpoint-every"])


def check_more_devices_can_go_on(case):
    """The state of two devices is whole: one device, or three, continue from it."""
    prepare(case)
    interrupted(case, "two", ON[2])
    for devices in (1, 3):
        result = case.run(*train({"--devices": devices, "--plan": "zero1"}), "--checkpoint-dir", "two/checkpoints",
                          "--resume", "-o", f"on{devices}", "--json")
        series = {s["name"]: s["samples"][0] for s in json.loads(result.stdout)["series"]}
        assert series["validation_accuracy"] > 0.8, series


def check_a_transformer_goes_on(case):
    """Tied and padded tables, positions and norms: every tensor is in the file by name."""
    layers = [{"kind": "embedding", "units": 16, "vocabulary": 256}, {"kind": "transformer_block", "units": 16, "heads": 2,
              "causal": True}, {"kind": "layer_norm"}, {"kind": "token_head", "vocabulary": 256, "tied": True}]
    case.write("text.json", json.dumps({"version": 1, "name": "text", "input_width": 24, "input_shape": [24],
                                        "loss": "softmax_cross_entropy", "layers": layers}))
    words = ("train", "-q", "--backend", "cpu", "--data", harness.SOURCE / "data" / "gpl-3.0.txt", "--model", "text.json",
             "--optimizer", "adamw", "--devices", "2", "--plan", "zero1")
    case.run(*words, "--epochs", "2", "-o", "whole", "--save", "whole.safetensors")
    case.run(*words, "--epochs", "1", "-o", "part", "--checkpoint-every", "10")
    case.run(*words, "--epochs", "2", "-o", "part", "--resume", "--save", "part.safetensors")
    assert weights(case, "whole") == weights(case, "part")


def check_running_statistics_go_on(case):
    """Validation of a convolutional model uses statistics that no optimizer updates."""
    layers = [{"kind": "conv", "units": 8}, {"kind": "residual_block", "units": 8}, {"kind": "average_pool"}, {"units": 10}]
    case.write("conv.json", json.dumps({"version": 1, "name": "conv", "input_width": 64, "input_shape": [8, 8, 1],
                                        "loss": "softmax_cross_entropy", "layers": layers}))
    rows = [line.split(",") for line in DIGITS.read_text().split("\n")[1:-1]]
    harness.save_npy(case.path("x.npy"), "|u1", (len(rows), 8, 8, 1), bytes(int(v) * 15 for row in rows for v in row[:64]))
    harness.save_npy(case.path("y.npy"), "|u1", (len(rows),), bytes(int(row[64]) for row in rows))
    words = ("train", "-q", "--backend", "cpu", "--data", "x.npy", "--data-options", "labels=y.npy", "--model", "conv.json", "--lr", "0.01",
             "--devices", "2")
    case.run(*words, "--epochs", "3", "-o", "whole", "--save", "whole.safetensors")
    case.run(*words, "--epochs", "2", "-o", "part", "--checkpoint-every", "10")
    case.run(*words, "--epochs", "3", "-o", "part", "--resume", "--save", "part.safetensors")
    assert b"layers.0.norm.running_mean" in weights(case, "whole")
    assert weights(case, "whole") == weights(case, "part")
    losses = [[s["samples"] for s in records_of(case.path(name))[-1]["series"] if s["name"] == "validation_loss"]
              for name in ("whole", "part")]
    assert losses[0] == losses[1], losses


harness.main(globals())

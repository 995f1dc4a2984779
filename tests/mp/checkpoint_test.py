"""Checkpoints of a training in two processes: the state of both is in one file, and a resumed job ends with the weights of
one that was not interrupted, bit for bit; where the checkpoint is refused, both processes end."""
import os
import sys
import tempfile

import mp_support as mp

DIGITS = os.path.join(os.path.abspath(sys.argv[1]), "data", "digits.csv")
TRAIN = ("train", "--backend", "cpu", "--data", DIGITS, "--target", "label", "--batch-size", "64", "--optimizer", "adamw",
         "--clip-norm", "1", "--timeout", "30", "-q")


def train(folder, *words, code=0):
    with mp.Programs(2, mp.amdahl_env, folder, *TRAIN, *words) as world:
        world.wait_all(60)
        for rank in world.ranks:
            world.expect(code if rank.number == 0 or code == 0 else 4, ranks=[rank])
        return world.texts()


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def check_strategy(folder, strategy):
    on = ("--plan", strategy)
    train(folder, *on, "--epochs", "4", "-o", f"{strategy}-whole", "--save", "whole.safetensors")
    part = ("-o", f"{strategy}-part", "--checkpoint-every", "10")
    train(folder, *on, "--epochs", "2", *part)
    train(folder, *on, "--epochs", "4", *part, "--resume", "--save", "part.safetensors")
    assert read(folder, "whole.safetensors") == read(folder, "part.safetensors"), f"{strategy}: other weights"
    kept = sorted(os.listdir(os.path.join(folder, f"{strategy}-part", "checkpoints")))
    assert kept == ["step-000000070.safetensors", "step-000000080.safetensors"], kept
    print(f"ok: {strategy}, two processes")


def check_another_seed_ends_both(folder):
    text = train(folder, "--epochs", "4", "--seed", "7", "-o", "other", "--checkpoint-dir", "zero1-part/checkpoints",
                 "--resume", code=2)
    assert "seed was '42' and is now '7'" in text, text
    print("ok: a refused checkpoint ends both processes")


mp.program()
with tempfile.TemporaryDirectory(prefix="amdahl-test-") as place:
    check_strategy(place, "ddp")
    check_strategy(place, "zero1")
    check_another_seed_ends_both(place)

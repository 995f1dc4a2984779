"""SIGTERM and SIGINT of a training with checkpoints: one more is written, all ranks end with it within seconds and with the
right exit codes, and resumed trainings end with the weights of one that was not stopped, bit for bit. A second signal ends the
program at once. Due checkpoints do not change trainings whose ranks differ between steps."""
import glob
import os
import re
import signal
import sys
import tempfile
import time

import mp_support as mp

DIGITS = os.path.join(os.path.abspath(sys.argv[1]), "data", "digits.csv")
TRAIN = ("train", "--backend", "cpu", "--data", DIGITS, "--target", "label", "--batch-size", "64", "--timeout", "30")
EPOCHS = 30
WRITTEN = re.compile(r"stopped by the user after step (\d+), whose checkpoint is written; try: --resume to go on from it")


def single(*_):
    return {}


def run(place, processes, *words, code=0):
    with mp.Programs(processes, mp.amdahl_env if processes > 1 else single, place, *TRAIN, *words) as world:
        world.wait_all(60)
        world.expect(code)
        return world.texts()


def weights(place, name):
    with open(os.path.join(place, name + ".safetensors"), "rb") as file:
        return file.read()


def stop(place, processes, victims, number, *words):
    """Signals these ranks in the middle of the training; the step of the checkpoint that it leaves."""
    records = os.path.join(place, "part", "records.jsonl")
    with mp.Programs(processes, mp.amdahl_env if processes > 1 else single, place, *TRAIN, *words) as world:
        end = time.monotonic() + 30
        while not os.path.exists(records) or sum(1 for _ in open(records)) < 3:  # the header and two epochs
            assert time.monotonic() < end, world.texts()
            time.sleep(0.005)
        for rank in victims:
            world.ranks[rank].signal(number)
        took = max(world.wait_all(8).values())
        for rank in world.ranks:
            world.expect(128 + number if rank.number in victims else 130, ranks=[rank])
        said = {int(WRITTEN.search(rank.text())[1]) for rank in world.ranks if WRITTEN.search(rank.text())}
        assert len(said) == 1, world.texts()
        step = said.pop()
        found = [os.path.basename(path) for path in glob.glob(os.path.join(place, "part", "checkpoints", "step-*.safetensors"))]
        assert found == [f"step-{step:09}.safetensors"], (found, step)
        return step, took


def check_stops(place, name, processes, victims, number, *words):
    with tempfile.TemporaryDirectory(dir=place) as own:
        epochs = ("--epochs", str(EPOCHS))
        run(own, processes, *words, *epochs, "-o", "whole", "--save", "whole.safetensors")
        part = (*words, *epochs, "-o", "part", "--checkpoint-every", "1000000", "--save", "part.safetensors")
        step, took = stop(own, processes, victims, number, *part)
        text = run(own, processes, *part, "--resume")
        assert f"step-{step:09}.safetensors" in text and f"epoch  {EPOCHS}/{EPOCHS}" in text, text
        assert weights(own, "whole") == weights(own, "part"), f"{name}: other weights"
        print(f"ok: {name}: a checkpoint of step {step}, all ended after {took:.1f} s")


def check_second_signal(place):
    with mp.Programs(1, single, place, *TRAIN, "--model", "large", "--devices", "1", "--epochs", "1000",
                     "--checkpoint-every", "1000", "-o", "twice") as world:
        time.sleep(1.5)
        world.ranks[0].signal(signal.SIGTERM)
        world.ranks[0].signal(signal.SIGINT)
        took = world.wait_all(1)
        world.expect(128 + signal.SIGINT)
    print(f"ok: a second signal ends it after {took[0]:.2f} s")


def check_without_a_checkpoint(place):
    """Nothing is promised that is not there."""
    with mp.Programs(1, single, place, *TRAIN, "--epochs", "1000", "-o", "none") as world:
        time.sleep(0.7)
        world.ranks[0].signal(signal.SIGTERM)
        world.wait_all(8)
        world.expect(143)
        assert "resume" not in world.texts() and "checkpoint" not in world.texts(), world.texts()
    print("ok: a training without checkpoints does not speak of them")


def check_due_checkpoints_change_nothing(place):
    for plan in ("dp2,ddp,local8", "dp2,ddp,async2", "dp2,zero1"):
        with tempfile.TemporaryDirectory(dir=place) as own:
            words = ("--plan", plan, "--epochs", "6", "--save")
            run(own, 1, *words, "whole.safetensors", "-o", "whole")
            run(own, 1, *words, "saved.safetensors", "-o", "saved", "--checkpoint-every", "5")
            assert weights(own, "whole") == weights(own, "saved"), f"{plan}: checkpoints change the weights"
            kept = sorted(os.listdir(os.path.join(own, "saved", "checkpoints")))
            assert len(kept) == 2, kept
            run(own, 1, "--plan", plan, "--epochs", "3", "--save", "half.safetensors", "-o", "half", "--checkpoint-every", "5")
            run(own, 1, *words, "half.safetensors", "-o", "half", "--checkpoint-every", "5", "--resume")
            assert weights(own, "whole") == weights(own, "half"), f"{plan}: a resumed training has other weights"
    print("ok: checkpoints of local, async and zero1 change no bit")


mp.program()
with tempfile.TemporaryDirectory(prefix="amdahl-test-") as folder:
    check_stops(folder, "one device", 1, [0], signal.SIGINT, "--devices", "1")
    check_stops(folder, "two devices", 1, [0], signal.SIGTERM, "--devices", "2", "--plan", "zero1")
    check_stops(folder, "local8", 1, [0], signal.SIGTERM, "--plan", "dp2,ddp,local8")
    check_stops(folder, "one of two processes", 2, [1], signal.SIGTERM, "--plan", "ddp")
    check_stops(folder, "both processes", 2, [0, 1], signal.SIGINT, "--plan", "zero1")
    check_second_signal(folder)
    check_without_a_checkpoint(folder)
    check_due_checkpoints_change_nothing(folder)

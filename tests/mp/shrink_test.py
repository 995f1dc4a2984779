"""A rank of a training is killed: with --on-failure shrink the others go on from the last checkpoint with a plan of fewer
ranks, say which rank died and how many steps of work are lost, and end with weights; without it all end."""
import glob
import os
import re
import signal
import sys
import tempfile
import time

import mp_support as mp

DIGITS = os.path.join(os.path.abspath(sys.argv[1]), "data", "digits.csv")
TRAIN = ("train", "--backend", "cpu", "--data", DIGITS, "--target", "label", "--batch-size", "64", "--timeout", "30",
         "--epochs", "40", "--checkpoint-every", "20")
SAID = re.compile(r"rank (\d) died after step (\d+): plan (\S+) in place of (\S+) goes on from step (\d+), (\d+) steps? of")


def wait_for_checkpoint(world, folder, seconds=30):
    end = time.monotonic() + seconds
    while not glob.glob(os.path.join(folder, "checkpoints", "step-*.safetensors")):
        assert time.monotonic() < end, "no checkpoint:\n" + world.texts()
        time.sleep(0.005)


def kill_one(place, name, dead, words, root, ranks=3):
    """The text of `root`, the rank that is rank 0 of those left."""
    run = os.path.join(place, name)
    with mp.Programs(ranks, mp.amdahl_env, place, *TRAIN, *words, "-o", name, "--save", name + ".safetensors") as world:
        wait_for_checkpoint(world, run)
        world.ranks[dead].signal(signal.SIGKILL)
        left = [rank for rank in world.ranks if rank.number != dead]
        world.wait_all(60, left)
        world.ranks[dead].process.wait()
        if root is None:
            return [rank.process.returncode for rank in left], world.texts()
        world.expect(0, ranks=left)
        return world.ranks[root].text()


def check_shrinks(place, name, dead, words, plans, ranks=3, says=()):
    text = kill_one(place, name, dead, words, root=1 if dead == 0 else 0, ranks=ranks)
    said = SAID.search(text)
    assert said, text
    assert int(said[1]) == dead and (said[4], said[3]) == plans, said[0]
    assert int(said[5]) % 20 == 0 and int(said[2]) - int(said[5]) == int(said[6]) < 21, said[0]
    assert "epoch  40/40" in text, text
    for words in says:
        assert words in text, text
    assert os.path.getsize(os.path.join(place, name + ".safetensors")) > 1000
    assert not os.path.exists(os.path.join(place, name, "failure.json"))
    print(f"ok: {said[0]} work lost")


mp.program()
with tempfile.TemporaryDirectory(prefix="amdahl-test-") as place:
    check_shrinks(place, "compressed", 2, ("--plan", "dp3,compress=int8", "--on-failure", "shrink"),
                  ("dp3,compress=int8", "dp2,compress=int8"))
    check_shrinks(place, "first", 0, ("--on-failure", "shrink", "--plan", "zero1"), ("dp3,zero1", "dp2,zero1"))
    check_shrinks(place, "alone", 1, ("--plan", "dp2,compress=topk", "--on-failure", "shrink"),
                  ("dp2,compress=topk", "dp1,ddp"), ranks=2, says=("the error feedback of 2 ranks",))
    codes, text = kill_one(place, "stopped", 1, (), root=None)
    assert all(code != 0 for code in codes) and "rank 1" in text, text
    print("ok: without it the others end")

"""A rank that ends before the ranks have met: the others end soon, and name its error, or that rank 0 ended. What a rank that
may become rank 0 must have in common with the others is compared."""
import os
import signal
import sys
import tempfile
import time

import mp_support as mp

DIGITS = os.path.join(os.path.abspath(sys.argv[1]), "data", "digits.csv")
TRAIN = ("train", "--backend", "cpu", "--target", "label", "--batch-size", "64", "--epochs", "1", "-q", "-o", "run")


def check_killed_at_its_start(place):
    """However early: what was seen of rank 0 is little or nothing."""
    for world_size, delays in ((2, (0.002, 0.01, 0.03, 0.06)), (3, (0.005,))):
        for delay in delays:
            with mp.Programs(world_size, mp.amdahl_env, place, *TRAIN, "--data", DIGITS, "--timeout", "60") as world:
                time.sleep(delay)
                world.ranks[0].signal(signal.SIGKILL)
                others = world.ranks[1:]
                took = world.wait_all(10, others)
                world.expect(4, "error[rank-died]: rank 0 ", ranks=others)
                assert max(took.values()) < 6, took
    print(f"ok: rank 0 killed 2 to 60 ms after its start is named within {max(took.values()):.1f} s")


def check_reaped_at_once(place):
    """Nothing of rank 0 is left when the others look: not even an ended process."""
    with mp.Programs(2, mp.amdahl_env, place, *TRAIN, "--data", DIGITS, "--timeout", "60", present=[1]) as world:
        took = world.wait_all(16)
        world.expect(4, "error[rank-died]: rank 0 is not among the processes of this host")
    print(f"ok: rank 0 that nobody saw is named after {took[1]:.1f} s")


def check_an_error_of_one_rank(place):
    for bad in (0, 1):
        data = lambda rank, bad=bad: ("--data", "absent.csv" if rank == bad else DIGITS)
        with mp.Programs(2, mp.amdahl_env, place, *TRAIN, "--timeout", "60", own=data) as world:
            took = world.wait_all(15)
            world.expect(2, "absent.csv")
            assert f"rank {bad}" in world.ranks[1 - bad].text(), world.texts()
    print(f"ok: bad --data on one rank ends both with its reason, within {max(took.values()):.1f} s")


def check_places_with_shrink(place):
    words = (*TRAIN[:-2], "--data", DIGITS, "--timeout", "30", "--checkpoint-every", "5")
    for option in ("--output-dir", "--checkpoint-dir", "--save"):
        value = lambda rank: (option, f"of{rank}" + (".safetensors" if option == "--save" else ""))
        with mp.Programs(2, mp.amdahl_env, place, *words, "--on-failure", "shrink", own=value) as world:
            world.wait_all(30)
            world.expect(2, f"error[launcher-mismatch]: the ranks were not started alike: {option[2:].replace('-', '_')} is ")
    own = lambda rank: ("--on-failure", ("stop", "shrink")[rank])
    with mp.Programs(2, mp.amdahl_env, place, *words, "-o", "same", own=own) as world:
        world.wait_all(30)
        world.expect(2, "on_failure is stop on rank 0 and shrink on rank 1")
    with mp.Programs(2, mp.amdahl_env, place, *words, "--on-failure", "shrink") as world:  # the default has the time in it
        world.wait_all(30)
        world.expect(0)
    print("ok: with --on-failure shrink the places of files must be the same, and --on-failure itself")


mp.program()
with tempfile.TemporaryDirectory(prefix="amdahl-test-") as folder:
    check_killed_at_its_start(folder)
    check_reaped_at_once(folder)
    check_an_error_of_one_rank(folder)
    check_places_with_shrink(folder)

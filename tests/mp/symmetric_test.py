"""Collectives in symmetric memory between processes: known results, named mismatches, and the end of waits for a rank
that dies or stays away."""
import glob
import os
import signal
import tempfile
import time

import mp_support as mp


def check_results():
    for size in (1, 2, 3, 4):
        with mp.World(size, "check-symmetric") as world:
            world.wait_all(90)
            world.expect(0)
        print(f"ok: {size} processes")


def check_mismatch():
    texts = {"mismatch": "rank 1 called all_reduce #2 (2,999 x f32, 11,996 bytes, sum)",
             "mismatch-kind": "rank 1 called broadcast #1 (3,000 x f32, 12,000 bytes, root 1)",
             "mismatch-pair": "rank 1 called recv #1 (2,000 x f32, 8,000 bytes, from rank 0) but rank 0 called send #1 (3,000"}
    for mode, text in texts.items():
        with mp.World(3, mode + "-symmetric", timeout=20) as world:
            times = world.wait_all(10)
            world.expect(4, "error[collective-mismatch]")
            world.expect(4, text)
        print(f"ok: {mode} is named by all, {max(times.values()):.2f} s after the start")


def check_death():
    """A rank that is killed inside a collective ends the waits of the others, long before the deadline."""
    with mp.World(3, "loop-symmetric", timeout=60) as world:
        world.wait_for("looping")
        world.ranks[1].signal(signal.SIGKILL)
        others = [world.ranks[0], world.ranks[2]]
        times = world.wait_all(15, others)
        world.expect(4, "error[rank-died]", others)
        world.expect(4, "rank 1", others)
    print(f"ok: the death of a rank is named, {max(times.values()):.2f} s after it")


def check_stopped():
    """A rank that is stopped is named at the deadline."""
    with mp.World(3, "loop-symmetric", timeout=2) as world:
        world.wait_for("looping")
        world.ranks[2].signal(signal.SIGSTOP)
        others = world.ranks[:2]
        times = world.wait_all(15, others)
        world.expect(6, "error[rank-hung]: rank 2", others)
    print(f"ok: a stopped rank is named, {max(times.values()):.2f} s after it stopped")


def check_program():
    """A rank of `amdahl onesided` that is killed while the others wait for its signals is named by them."""
    words = ("collectives", "--onesided", "--backend", "cpu", "-q", "-e", "64K", "--samples", "100000", "--timeout", "30")
    with tempfile.TemporaryDirectory() as folder:
        with mp.Programs(2, mp.torchrun_env, folder, *words) as world:
            time.sleep(2)
            assert all(rank.process.poll() is None for rank in world.ranks), world.texts()
            world.ranks[1].signal(signal.SIGKILL)
            times = world.wait_all(15, world.ranks[:1])
            world.expect(4, "error[rank-died]: rank 1", world.ranks[:1])
    print(f"ok: amdahl onesided names a killed rank, {max(times.values()):.2f} s after it")


def check_leftovers():
    # /amdahl-PID-RANDOM; other tests that run now have some too.
    left = [path for path in glob.glob("/dev/shm/amdahl-[0-9]*-*") if not os.path.exists(f"/proc/{path.split('-')[1]}")]
    assert not left, f"segments remain: {left}"
    print("ok: no segment remains in /dev/shm")


check_results()
check_mismatch()
check_death()
check_stopped()
check_program()
check_leftovers()

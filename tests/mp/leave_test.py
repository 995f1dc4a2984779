"""A rank that ends its work and leaves while others wait for it is named by them at once, whatever they wait in (exit 4); so is a
rank 0 that was killed before its rendezvous was up."""
import subprocess
import tempfile
import time

import mp_support as mp

LIMIT = 2.0


def check_leave(mode, size, leaver):
    with mp.World(size, mode, timeout=60) as world:
        others = [rank for rank in world.ranks if rank.number != leaver]
        world.wait_for("left", ranks=[world.ranks[leaver]])
        took = max(world.wait_all(20, others).values())
        world.expect(4, f"error[rank-died]: rank {leaver} ended its work and left the job, but rank ", others)
        world.wait_all(10)
        world.expect(0, ranks=[world.ranks[leaver]])
    assert took <= LIMIT, f"{mode}: {took:.2f} s from the leave to the end of the others"
    print(f"ok: {mode}: rank {leaver} of {size} leaves, the others name it within {took:.2f} s")


def check_root_killed_early():
    """A program with rank 0's variables that never listens stands for one that is still reading its data."""
    port = mp.free_port()
    with tempfile.TemporaryDirectory(prefix="amdahl-test-") as folder:
        root = subprocess.Popen(["sleep", "60"], env={**mp.clean_environment(), **mp.torchrun_env(0, 3, port)})
        with mp.Programs(3, mp.torchrun_env, folder, "train", "--backend", "cpu", "-q", "-o", "run", present=[1, 2],
                         port=port) as world:
            time.sleep(2)
            ended = any(rank.process.poll() is not None for rank in world.ranks)
            root.kill()
            root.wait()
            assert not ended, world.texts()
            took = max(world.wait_all(20).values())
            world.expect(4, "error[rank-died]: rank 0 (process ")
            world.expect(4, "ended before its rendezvous at localhost:")
    assert took <= LIMIT, f"{took:.2f} s from kill -9 of rank 0 to the end of the others"
    print(f"ok: rank 0 killed before its rendezvous is up: the others name it within {took:.2f} s")


check_leave("leave", 3, 1)
check_leave("leave-reduce", 3, 1)
check_leave("leave-root", 2, 0)
check_root_killed_early()

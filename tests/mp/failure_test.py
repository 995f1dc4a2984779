"""A rank that is killed is named by every survivor within 2 s (exit 4); one that is stopped, by the deadline (exit 6)."""
import signal
import time

import mp_support as mp

LIMIT = 2.0


def check_kill(size, mode, repeats=1, victims=None):
    worst = 0
    for victim in victims or range(size):
        for _ in range(repeats):
            with mp.World(size, mode) as world:
                world.wait_for("looping")
                survivors = [rank for rank in world.ranks if rank.number != victim]
                world.ranks[victim].signal(signal.SIGKILL)
                times = world.wait_all(10, survivors)
                world.expect(4, f"rank {victim} died", survivors)
                worst = max(worst, *times.values())
    assert worst <= LIMIT, f"{worst:.2f} s from kill -9 to the last survivor's end"
    print(f"ok: kill -9 of {len(victims or range(size))} of {size} ranks in {mode}: all survivors name it within {worst:.3f} s")


def check_stop(size, mode, timeout=3):
    worst = 0
    for victim in range(size):
        with mp.World(size, mode, timeout) as world:
            world.wait_for("looping")
            survivors = [rank for rank in world.ranks if rank.number != victim]
            world.ranks[victim].signal(signal.SIGSTOP)
            times = world.wait_all(timeout + 5, survivors)
            world.expect(6, f"rank {victim} ", survivors)
            for rank in survivors:  # alone: a rank that waits for the victim, too, is not to blame
                assert "ranks " not in rank.text(), world.texts()
            worst = max(worst, *times.values())
    assert worst <= timeout + LIMIT, f"{worst:.2f} s from SIGSTOP to the last survivor's end"
    print(f"ok: SIGSTOP of each of {size} ranks in {mode}: all survivors name it within {worst:.2f} s, timeout {timeout} s")


def check_stuck(size=4, timeout=2):
    with mp.World(size, "stuck", timeout) as world:
        worst = max(world.wait_all(timeout + 8).values())
        world.expect(6, f"rank {size - 1} did not reach all_reduce #4")
    assert worst <= timeout + 2 * LIMIT, f"{worst:.2f} s with a timeout of {timeout} s"
    print(f"ok: a rank that calls nothing is named alone by all {size}, {worst:.2f} s after the start, timeout {timeout} s")


def check_slow_is_not_hung(size=3, timeout=3):
    with mp.World(size, "loop", timeout) as world:
        world.wait_for("looping")
        for rank in world.ranks:
            rank.signal(signal.SIGSTOP)
            time.sleep(timeout / 2)
            rank.signal(signal.SIGCONT)
            time.sleep(0.5)  # the call that waited for this rank ends before the next one stops
        ended = [rank.number for rank in world.ranks if rank.process.poll() is not None]
        assert not ended, f"false alarm in ranks {ended}:\n" + world.texts()
    print(f"ok: no alarm when each rank stops for {timeout / 2} s of {timeout} s")


check_kill(4, "loop", repeats=2)
check_kill(2, "loop", repeats=2)
check_kill(3, "barrier")
check_kill(3, "busy")
check_kill(3, "connect", victims=[2])
check_stop(3, "loop")
check_stop(3, "small")
check_stop(2, "barrier")
check_stuck()
check_slow_is_not_hung()

"""Worlds that launchers describe wrongly end with launcher-mismatch (2) or name the rank that is not there (4)."""
import subprocess

import mp_support as mp


def check_disagreement():
    environment = {**mp.clean_environment(), **mp.torchrun_env(0, 2, 29511), "OMPI_COMM_WORLD_RANK": "1",
                   "OMPI_COMM_WORLD_SIZE": "2"}
    result = subprocess.run([mp.probe(), "check"], env=environment, capture_output=True, text=True, timeout=30)
    assert result.returncode == 2, result
    assert "error[launcher-mismatch]" in result.stderr and "OMPI_COMM_WORLD_RANK=1" in result.stderr, result.stderr
    environment = {**mp.clean_environment(), "OMPI_COMM_WORLD_SIZE": "4"}
    result = subprocess.run([mp.probe(), "check"], env=environment, capture_output=True, text=True, timeout=30)
    assert result.returncode == 2, result
    print("ok: families that disagree or are half set")


def check_worlds_of_different_size():
    def variables(rank, world, port):
        return mp.amdahl_env(rank, world + (rank == 1), port)
    with mp.World(2, "check", variables=variables) as world:
        world.wait_all(20)
        world.expect(2, "error[launcher-mismatch]: rank 1")
    print("ok: ranks told of different world sizes")


def check_same_rank_twice():
    def variables(rank, world, port):
        return mp.amdahl_env(min(rank, 1), world, port)
    with mp.World(3, "check", variables=variables) as world:
        world.wait_all(20)
        world.expect(2, "a second process says that it is rank 1")
    print("ok: a rank that is there twice")


def check_absent_rank():
    with mp.World(3, "check", timeout=2, present=[0, 2]) as world:
        times = world.wait_all(10)
        world.expect(4, "error[peer-unreachable]: rank 1 did not reach exchange 'join'")
    with mp.World(3, "check", timeout=2, present=[1, 2]) as world:
        world.wait_all(10)
        world.expect(4, "error[peer-unreachable]: rank 0 at 127.0.0.1")
    print(f"ok: an absent rank is named, {max(times.values()):.2f} s with a timeout of 2 s")


def check_mpirun_inside_torchrun_variables():
    mp.need("mpirun")
    result = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", mp.probe(), "check"],
                            env={**mp.clean_environment(), "RANK": "0", "WORLD_SIZE": "1"}, capture_output=True,
                            text=True, timeout=60)
    assert result.returncode == 2, result
    assert "launcher-mismatch" in result.stderr, result.stderr
    print("ok: mpirun with leftover variables of torchrun")


check_disagreement()
check_worlds_of_different_size()
check_same_rank_twice()
check_absent_rank()
check_mpirun_inside_torchrun_variables()

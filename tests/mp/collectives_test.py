"""Every collective over Gloo gives known results, started by hand, in torchrun's manner and by mpirun."""
import subprocess

import mp_support as mp


def check_worlds():
    for variables in (mp.amdahl_env, mp.torchrun_env):
        for size in (1, 2, 3, 4):
            with mp.World(size, "check", variables=variables) as world:
                world.wait_all(60)
                world.expect(0)
            print(f"ok: {size} ranks by {variables.__name__}")


def check_mismatch():
    """Named at once, long before the deadline."""
    texts = {"mismatch": "rank 1 called all_reduce #2 (2,999 x f32, 11,996 bytes, sum)",
             "mismatch-kind": "rank 1 called broadcast #1 (3,000 x f32, 12,000 bytes, root 1)",
             "mismatch-pair": "rank 1 called recv #1 (2,000 x f32, 8,000 bytes, from rank 0) but rank 0 called send #1 (3,000"}
    for mode, text in texts.items():
        with mp.World(3, mode, timeout=20) as world:
            times = world.wait_all(10)
            world.expect(4, "error[collective-mismatch]")
            world.expect(4, text)
        assert max(times.values()) <= 3, f"{max(times.values()):.2f} s for {mode}"
        print(f"ok: {mode} is named by all, {max(times.values()):.2f} s after the start with a timeout of 20 s")


def check_late():
    with mp.World(3, "late") as world:
        world.wait_all(30)
        world.expect(0)
    print("ok: ranks that come late to a call are no mismatch")


def check_split():
    """A rank that stays away from a part is named by its rank in the job, also to ranks of the other part."""
    with mp.World(4, "split-late", timeout=2) as world:
        world.wait_all(12, world.ranks[:3])
        world.expect(6, "error[rank-hung]: rank 3 did not reach all_reduce #1", world.ranks[:3])
    print("ok: a rank that is missing in a part is named by its rank in the job")


def check_own_error():
    with mp.World(3, "fail") as world:
        times = world.wait_all(10)
        world.expect(1, "rank 1 met a NaN")
    print(f"ok: the error of one rank ends all, {max(times.values()):.2f} s after the start")


def check_mpirun():
    mp.need("mpirun")
    for size in (2, 3):
        result = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(size), mp.probe(), "check"],
                                env=mp.clean_environment(), capture_output=True, text=True, timeout=120)
        assert result.returncode == 0, result.stdout + result.stderr
        assert f"of {size} by openmpi" in result.stdout, result.stdout
        print(f"ok: {size} ranks by mpirun")
    result = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4", mp.probe(), "split-mpi"],
                            env=mp.clean_environment(), capture_output=True, text=True, timeout=120)
    if result.returncode == 3 and "without MPI" in result.stderr:
        return print("not run: parts over MPI: this build has no MPI")
    assert result.returncode == 0, result.stdout + result.stderr
    print("ok: parts of 4 ranks over MPI")


check_worlds()
check_mismatch()
check_late()
check_split()
check_own_error()
check_mpirun()

"""examples/two_gpu_all_reduce.cpp: builds by the command in its first lines, refuses GPUs that are not there, sums over those
that are. Two GPUs are needed to see it sum; without them it is still built and started."""
import pathlib
import re
import shutil
import subprocess

import harness

NAME = "two_gpu_all_reduce"
SOURCE = harness.SOURCE / "examples" / f"{NAME}.cpp"
NCCL_PROBE = "#include <nccl.h>\nint main() { int v = 0; return ncclGetVersion(&v); }\n"


def nvcc():
    usual = "/usr/local/cuda/bin/nvcc"
    found = shutil.which("nvcc") or (usual if pathlib.Path(usual).exists() else None)
    if not found:
        raise harness.Skip("no nvcc here")
    return found


def compiled(case):
    """The program by the documented command; only a missing NCCL excuses a failure to build."""
    compiler = nvcc()
    case.write("probe.cpp", NCCL_PROBE)
    probe = subprocess.run([compiler, "probe.cpp", "-o", "probe", "-lnccl"], cwd=case.folder, capture_output=True, text=True)
    if probe.returncode != 0:
        raise harness.Skip("nvcc finds no nccl.h or no libnccl")
    command = re.search(r"^// Without CMake: nvcc (.*)$", SOURCE.read_text(), re.MULTILINE).group(1).split()
    words = [str(SOURCE) if word == SOURCE.name else word for word in command]
    built = subprocess.run([compiler, "-Werror", "all-warnings", "-Xcompiler", "-Wall,-Wextra", *words], cwd=case.folder,
                           capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return case.path(NAME)


def of_the_build(_):
    path = harness.BINARY / "examples" / NAME
    if not path.exists():
        raise harness.Skip("this build has no CUDA or found no NCCL")
    return path


def run(program, *words):
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=120)


def num_gpus(program):
    """As the program itself says when it is asked for too many."""
    asked = run(program, 1_000_000)
    if asked.returncode == 1:
        assert re.fullmatch(r"line \d+: .*(driver|device).*\n", asked.stderr), asked.stderr
        raise harness.Skip(f"built, not run: {asked.stderr.strip()}")
    assert asked.returncode == 2, asked
    return int(re.fullmatch(r"1000000 GPUs asked for; 2 to the (\d+) that are here\n", asked.stderr).group(1))


def try_out(program):
    here = num_gpus(program)
    for words in (("1",), ("0",), ("-2",), ("two",), (here + 1,)):
        refused = run(program, *words)
        assert refused.returncode == 2 and "that are here" in refused.stderr and not refused.stdout, refused
    if here < 2:
        raise harness.Skip(f"built and refused, not summed: {here} GPU here")
    for words in ((), *((n,) for n in range(2, here + 1))):
        done = run(program, *words)
        n = words[0] if words else 2
        assert done.returncode == 0 and done.stdout == f"{n} GPUs, 1048576 elements on each, 0 wrong\n", done


def check_by_its_own_command(case):
    try_out(compiled(case))


def check_by_cmake(case):
    try_out(of_the_build(case))


harness.main(globals())

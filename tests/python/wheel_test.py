"""The wheel of this build: its content, and that it works in a fresh environment, with preprocessing against
references.

usage: wheel_test.py SOURCE_DIR BINARY_DIR; exit code 77: skipped, with the reason
"""
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

SOURCE, BINARY = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
MOST_BYTES = 40_000_000
CUDA = ("libcuda", "libcudart", "libcublas", "libcudnn", "libnccl", "libtorch", "libc10")
EXAMPLES = """
import amdahl_lab as lab, os
assert lab.find_program() == os.path.join(os.path.dirname(lab.__file__), "bin", "amdahl"), lab.find_program()
assert lab.info().json["amdahl"] == lab.__version__, lab.__version__
run = lab.study(backend="cpu", batch_sizes=16, devices=[1, 2], warmup=1, steps=2, runs=5, output_dir="run", quiet=True)
assert len(run.records) == 10 and "medium" in run.text and run._repr_html_().startswith("<iframe")
assert lab.cost(run).json["rows"] and os.path.dirname(lab.example_prices()).startswith(os.path.dirname(lab.__file__))
lab.compare(f"{run.run_dir}@devices=1", f"{run.run_dir}@devices=2", allow_unlike=True).save("verdict.json")
"""


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nexit {done.returncode}\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
    return done.stdout


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(77)


def build(scratch):
    """The wheel of this interpreter, with library and program of the build."""
    environment = dict(os.environ, PYTHON=sys.executable)
    if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
        skip(f"{sys.executable} has no Python.h (Debian: python3-dev)")
    tools = subprocess.run([SOURCE / "scripts/install_deps.sh", "wheel"], capture_output=True, text=True,
                           env=environment)
    if tools.returncode != 0:
        skip(tools.stderr.strip().splitlines()[-1])
    run("cmake", "--install", BINARY, "--prefix", scratch / "prefix")
    printed = run(SOURCE / "scripts/build_wheel.sh", scratch / "wheels", scratch / "prefix", env=environment)
    return pathlib.Path(printed.strip().splitlines()[-1])


def check_content(wheel):
    assert wheel.stat().st_size <= MOST_BYTES, f"{wheel.name} has {wheel.stat().st_size} bytes"
    names = zipfile.ZipFile(wheel).namelist()
    for needed in ("__init__.py", "py.typed", "bin/amdahl", "lib/libamdahl.so.0", "share/prices.toml",
                   "share/schema/record.schema.json"):
        assert f"amdahl_lab/{needed}" in names, f"{needed} is not in {names}"
    assert any(name.startswith("amdahl_lab/_native") for name in names), names
    assert any(name.endswith("/LICENSE") for name in names), names
    foreign = [name for name in names if os.path.basename(name).startswith(CUDA) or "__pycache__" in name]
    assert not foreign, foreign
    tag = "cp312-abi3" if sys.version_info >= (3, 12) else "cp{0}{1}-cp{0}{1}".format(*sys.version_info)
    assert tag in wheel.name and "manylinux" in wheel.name, wheel.name


def check_linking(folder):
    """Neither library, module nor program needs a library of CUDA or torch to start."""
    for name in ("bin/amdahl", "lib/libamdahl.so.0", *(path.name for path in folder.glob("_native*.so"))):
        lines = run("readelf", "-d", folder / name).splitlines()
        needed = [line.split("[")[1].rstrip("]") for line in lines if "NEEDED" in line]
        assert needed and not [library for library in needed if library.startswith(CUDA)], f"{name} needs {needed}"


with tempfile.TemporaryDirectory() as scratch_name:
    scratch = pathlib.Path(scratch_name)
    wheel = build(scratch)
    check_content(wheel)
    run(sys.executable, "-m", "venv", "--system-site-packages", scratch / "venv")  # numpy and torch of the system
    python = scratch / "venv/bin/python"
    run(python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("AMDAHL_", "PYTHON"))}
    run(python, "-c", EXAMPLES, cwd=scratch, env=clean)
    version = run(scratch / "venv/bin/amdahl", "--version", env=clean)
    assert version.startswith("amdahl "), version
    folder = run(python, "-c", "import amdahl_lab; print(amdahl_lab.__path__[0])", env=clean, cwd=scratch)
    check_linking(pathlib.Path(folder.strip()))
    if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
        print(run(python, SOURCE / "tests/python/preprocess_check.py", cwd=scratch, env=clean).splitlines()[-1])
    else:
        print("   skipped: preprocessing, numpy is not installed (python3-numpy)")
    print(f"wheel: {wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB: ok")

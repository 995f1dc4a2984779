"""The examples of every help text run: none names an option, model, strategy or file kind that does not exist."""
import glob
import os
import re
import shlex
import shutil
import subprocess

import harness
from harness import SOURCE

USAGE = 2
# What the machine of this test and the stand-ins of `prepare` lack.
LACKING = re.compile("need a CUDA device|CPU devices have none|measured on CPU virtual devices|no record of that cell|judges nothing here"
                     "|has no cell (with|that 5)|already holds a run|no spread of processes|onesided.json: cannot be read")
RUNS = ("my-run", "a", "b", "c", "large", "medium", "ddp", "zero1", "my-study")
OTHERS_DATA = {"scan.bin", "scan.ply", "run.csv", "run.npz", "streams.npz", "one.json", "two.json", "both.json",
               "nccl-tests.json"}  # the reader's own files


def help_of(case, *words):
    return case.run(*words, "--help").stdout


def commands(case):
    def below(text):
        found = re.search(r"^Commands:\n((?:  .*\n)+)", text, re.MULTILINE)
        return re.findall(r"^  ([a-z]+) ", found[1], re.MULTILINE) if found else []

    for name in below(help_of(case)):
        yield (name,)
        yield from ((name, part) for part in below(help_of(case, name)))


def examples(case):
    for command in commands(case):
        found = re.search(r"^examples?:\n((?:  .*\n)+)", help_of(case, *command) + "\n", re.MULTILINE)
        for line in re.findall(r"^  (.*)$", found[1], re.MULTILINE) if found else []:
            yield command, line


def prepare(case):
    """What examples take for granted: earlier runs, a machine file, the data of a checkout."""
    case.run("study", *harness.TINY, "--runs", "2", "-q", "-o", "run")
    case.run("collectives", "--backend", "cpu", "-q", "-b", "8", "-e", "8", "-n", "1", "--output-dir", "fabric")
    case.run("calibrate", "--backend", "cpu", "--devices", "2", "--seconds", "0.2", "--machine", "machine.json", "-q")
    os.makedirs(case.path("results"))
    os.makedirs(case.path("out"))
    for name in RUNS:
        shutil.copytree(case.path("run"), case.path(f"results/{name}"))
    for name in ("a", "b", "my-study"):
        shutil.copytree(case.path("run"), case.path(name))
    shutil.copytree(case.path("run"), case.path("out/calibration"))
    for name in ("fabric", "collectives"):
        shutil.copytree(case.path("fabric"), case.path(f"results/{name}"))
    for name in ("data", "tests"):
        os.symlink(SOURCE / name, case.path(name))
    shutil.copytree(SOURCE / "results/h200/virtual-shards", case.path("results/h200"))
    shutil.copy(SOURCE / "data/prices.toml", case.path("my-prices.toml"))
    shutil.copy(SOURCE / "examples/python/train_ddp.py", case.path("train.py"))


def check_examples_of_help_texts(case):
    prepare(case)
    ran, wrong = 0, []
    for command, line in examples(case):
        assert line.startswith(("amdahl ", "mpirun ", "source ")), f"{command}: {line!r} is no command"
        words = re.split(r" [|>] | && |\)$", line.removeprefix("source <("))[0]
        words = shlex.split(words.replace(" --open", ""))
        if words[0] == "mpirun":
            words = words[words.index("amdahl"):]
        words = [path for word in words for path in sorted(glob.glob(word, root_dir=case.folder)) or [word]]
        if any(word in OTHERS_DATA for word in words):
            parsed = subprocess.run([harness.AMDAHL, *words[1:]], cwd=case.folder, capture_output=True, text=True, timeout=20,
                                    env=harness.ENVIRONMENT)
            assert re.search("there is no|No such file|is absent|cannot|no run is stored", parsed.stderr), f"{line}: {parsed.stderr}"
            continue
        code, errors = harness.run_briefly(case.folder, words[1:])
        if code == USAGE and not LACKING.search(errors):
            wrong.append(f"{' '.join(command)}: {line}\n{errors}")
        ran += 1
    assert not wrong, "\n".join(wrong)
    assert ran > 30, ran


harness.main(globals())

"""Files that a program writes for a while: nobody can put a link in their place. Two trainings do not share a folder of
checkpoints, in which only files count."""
import os
import subprocess
import time

import harness
from harness import AMDAHL, DIGITS, ENVIRONMENT, TINY

TRAIN = ("train", "--backend", "cpu", "-q", "--data", DIGITS, "--target", "label", "--batch-size", 64, "--devices", 1)


def check_a_link_where_a_temporary_file_would_be(case):
    """The process number is known before exec: a link of that name led the output to another file."""
    case.run("study", *TINY, "--runs", 1, "-q", "-o", "run")
    outputs = (("report", "run", "--csv", "out.csv"), ("info", "--topology", "-o", "out.json"), ("report", "run", "--jsonl", "out.jsonl"))
    for words in outputs:
        name = words[-1]
        case.write("victim", "untouched")
        script = f'for i in "" . ; do ln -s victim {name}.tmp$$$i; done; exec "$0" "$@"'
        subprocess.run(["bash", "-c", script, AMDAHL, *words], cwd=case.folder, env=ENVIRONMENT, check=True, timeout=60,
                       capture_output=True)
        assert case.path("victim").read_text() == "untouched", words
        assert case.path(name).stat().st_size > 0 and not case.path(name).is_symlink(), words
    left = [p.name for p in case.folder.glob("*.tmp*") if not p.is_symlink()]
    assert not left, left


def check_a_link_in_a_folder_of_checkpoints(case):
    case.write("victim", "untouched")
    case.path("c").mkdir()
    for step in (5, 10):
        case.path(f"c/step-{step:09}.safetensors.tmp").symlink_to("../victim")
    case.run(*TRAIN, "--epochs", 1, "-o", "run", "--checkpoint-every", 5, "--checkpoint-dir", "c")
    assert case.path("victim").read_text() == "untouched"


def check_two_trainings_in_one_folder(case):
    words = (*TRAIN, "--checkpoint-every", 5, "--checkpoint-dir", "c", "--resume")
    first = subprocess.Popen([AMDAHL, *map(str, words), "--epochs", "100000", "-o", "first"], cwd=case.folder, env=ENVIRONMENT,
                             stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 20
        while not list(case.folder.glob("c/step-*.safetensors")):
            assert time.monotonic() < end and first.poll() is None
            time.sleep(0.01)
        case.refused(2, "usage", *words, "--epochs", 2, "-o", "second", says=["another training writes", "c"])
    finally:
        first.kill()
        first.wait()
    kept = sorted(case.folder.glob("c/step-*.safetensors"))
    assert 1 <= len(kept) <= 3, kept  # two, and one that was written when the signal came
    step = int(kept[-1].name[5:14])
    per_epoch = 22
    case.run(*words, "--epochs", step // per_epoch + 2, "-o", "third")


def check_other_things_than_files_of_checkpoints(case):
    """A pipe was opened and waited for; folders, sockets and dangling links are no checkpoints either."""
    case.run(*TRAIN, "--epochs", 1, "-o", "run", "--checkpoint-every", 10, "--checkpoint-dir", "c")
    os.mkfifo(case.path("c/step-000000099.safetensors"))
    case.path("c/step-000000098.safetensors").mkdir()
    case.path("c/step-000000097.safetensors").symlink_to("nowhere")
    case.run(*TRAIN, "--epochs", 2, "-o", "more", "--checkpoint-every", 10, "--checkpoint-dir", "c", "--resume", timeout=20)


harness.main(globals())

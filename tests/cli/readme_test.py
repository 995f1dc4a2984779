"""README's commands leave a checkout clean: git ignores whatever they write."""
import re
import shlex
import subprocess

import harness
from harness import SOURCE, Skip

# Options whose value is a file or folder that a command writes, and those that name it only for one command.
WRITTEN = ("--output-dir", "--output", "--html", "--md", "--env-file", "--csv", "--jsonl", "--metrics")
OF_COMMAND = {"-o": ("study", "train", "links", "doctor", "info", "sensor"), "--machine": ("links", "doctor")}


def commands():
    text = (SOURCE / "README.md").read_text()
    for block in re.findall(r"```sh\n(.*?)```", text, re.S):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip() and not line.startswith("#"):
                yield shlex.split(line, comments=True)


def outputs(words):
    for i, word in enumerate(words):
        value = words[i + 1] if i + 1 < len(words) else ""
        if word == ">" or word in WRITTEN or (word in OF_COMMAND and words[1] in OF_COMMAND[word]):
            yield value


def ignored(path):
    asked = subprocess.run(["git", "-C", SOURCE, "check-ignore", "-q", path], capture_output=True, text=True)
    if asked.returncode not in (0, 1):
        raise Skip(f"the sources are no git checkout here: {asked.stderr.strip()}")
    return asked.returncode == 0


def check_outputs_of_readme_are_ignored(case):
    written = sorted({path for words in commands() for path in outputs(words) if not path.startswith(("~", "/"))})
    assert len(written) > 10, written
    tracked = [path for path in written if not ignored(path)]
    assert not tracked, f"git would show {tracked}"


def check_default_run_folders_are_ignored(case):
    """README's first commands name no folder."""
    case.run("train", "--backend", "cpu", "--epochs", "1", "-q")
    case.run("study", *harness.TINY, "--runs", "1", "-q")
    made = [path.relative_to(case.folder) for path in case.folder.rglob("records.jsonl")]
    assert len(made) == 2, made
    for path in made:
        assert ignored(path), f"git would show {path}"


def check_make_demo_is_ignored(case):
    folder = re.search(r"^DEMO_OUTPUT := (\S+)$", (SOURCE / "Makefile").read_text(), re.MULTILINE)[1]
    assert ignored(f"{folder}/records.jsonl"), folder


harness.main(globals())

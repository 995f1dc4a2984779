"""The commands of README and docs/*.md are accepted, and leave a checkout clean: git ignores whatever they write."""
import re
import shlex
import shutil
import subprocess

import harness
from harness import SOURCE, Skip

# Options whose value is a file or folder that a command writes, and those that name it only for one command.
WRITTEN = ("--output-dir", "--output", "--html", "--md", "--env-file", "--csv", "--jsonl", "--metrics", "--save",
           "--checkpoint-dir")
OF_COMMAND = {"-o": ("study", "train", "links", "doctor", "info", "sensor"), "--machine": ("links", "doctor", "calibrate")}
USAGE = 2
# What the machine of this test and the stand-ins of `prepare` lack.
LACKING = re.compile("judges nothing here|onesided.json: cannot be read")
PAGES = ["README.md", *sorted(str(path.relative_to(SOURCE)) for path in (SOURCE / "docs").glob("*.md"))]


def commands(pages):
    """(page, words) of each command of amdahl in the shell blocks of these pages."""
    for page in pages:
        for block in re.findall(r"```sh\n(.*?)```", (SOURCE / page).read_text(), re.S):
            for line in block.replace("\\\n", " ").splitlines():
                line = re.split(r" [|] | && ", line.strip())[0]
                if re.match(r"(\S*/)?amdahl ", line):
                    yield page, shlex.split(line, comments=True)


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


def check_outputs_are_ignored(case):
    written = sorted({path for page, words in commands(["README.md", "docs/usage.md"]) for path in outputs(words)
                      if not path.startswith("/")})
    assert len(written) > 10, written
    tracked = [path for path in written if not ignored(path)]
    assert not tracked, f"git would show {tracked}"


def restore_runs(case):
    """Where earlier commands of the pages would have left them. Here they end early, with --overwrite in the place of a run."""
    for name in ("before", "after", "medium", "traced", "small", "sensor"):
        shutil.rmtree(case.path(f"results/local/{name}"), ignore_errors=True)
        shutil.copytree(case.path("bench" if name == "sensor" else "run"), case.path(f"results/local/{name}"))


def prepare(case):
    """The data and results of a checkout, and runs that earlier commands leave."""
    for name in ("data", "tests"):
        case.path(name).symlink_to(SOURCE / name)
    shutil.copytree(SOURCE / "results", case.path("results"), ignore=shutil.ignore_patterns("local"))
    case.run("study", *harness.TINY, "--runs", "2", "-q", "-o", "run")
    case.run("links", "--backend", "cpu", "--devices", "2", "-q", "-t", "device_local_copy", "--output-dir", "links")
    case.run("calibrate", "--backend", "cpu", "--devices", "2", "--seconds", "0.2", "--machine", "machine.json", "-q")
    case.run("sensor", "bench", "--backend", "cpu", "--op", "voxelize", "--mode", "data", "--devices", "1,2", "--points", "1000",
             "--samples", "2", "-o", "bench", "-q")
    restore_runs(case)
    case.write("arm.csv", "t,x,y\n0.0,1,5\n0.4,2,7\n1.1,4,6\n")


def check_commands_are_accepted(case):
    """No page names a command, option, model, plan or file that does not exist."""
    prepare(case)
    ran, wrong = set(), []
    for page, words in commands(PAGES):
        if tuple(words[1:]) in ran:
            continue
        ran.add(tuple(words[1:]))
        words = [word for word in words if word != "--open"]
        code, errors = harness.run_briefly(case.folder, words[1:])
        if "--overwrite" in words:
            restore_runs(case)
        if code == USAGE and not LACKING.search(errors):
            wrong.append(f"{page}: {shlex.join(words)}\n{errors}")
    assert not wrong, "\n".join(wrong)
    assert len(ran) > 60, len(ran)


def check_default_run_folders_are_ignored(case):
    """A command without a folder chooses one."""
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

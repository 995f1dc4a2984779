"""Plants the faults of faults.json one at a time and says which stage of CI finds each.

usage: run.py SOURCE_DIR FOLDER [--stages test,asan,tsan] [--faults 1,2,...] [--tries N] [--table FILE]

A copy of the tree in FOLDER is built once per stage with all faults in it; AMDAHL_FAULT chooses one at run time. A stage is
the preset that CI uses, with the programs that its build target makes and the environment of its test preset. A fault counts
as found when its tests pass without it and fail, or reach their limit of time, with it; with fewer than TRIES (of races: 3)
it says in how many. --table appends rows of Markdown to FILE. Exit code 1 when a fault is not found.
"""
import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
STAGES = {"test": "release", "asan": "asan", "tsan": "tsan"}  # stage: preset
LIMIT_SECONDS = 300


def files_of(source):
    listing = subprocess.run(["git", "-C", source, "ls-files", "-z"], capture_output=True, check=True).stdout.decode()
    return [name for name in listing.split("\0") if name and not name.startswith("results/")
            and os.path.isfile(os.path.join(source, name))]


def copy_with_faults(source, tree):
    """Writes only what differs, so that a second run compiles only what changed."""
    with tempfile.TemporaryDirectory() as fresh:
        for name in files_of(source):
            os.makedirs(os.path.dirname(os.path.join(fresh, name)), exist_ok=True)
            shutil.copy2(os.path.join(source, name), os.path.join(fresh, name))
        subprocess.run([sys.executable, os.path.join(HERE, "apply.py"), fresh], check=True)
        kept = set()
        for folder, _, names in os.walk(fresh):
            for name in names:
                path = os.path.join(folder, name)
                target = os.path.join(tree, os.path.relpath(path, fresh))
                kept.add(target)
                if not os.path.exists(target) or open(path, "rb").read() != open(target, "rb").read():
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    shutil.copy(path, target)
        for folder in ("src", "tests", "include"):
            for path in glob.glob(os.path.join(tree, folder, "**", "*"), recursive=True):
                if os.path.isfile(path) and path not in kept:
                    os.remove(path)
    if not os.path.exists(os.path.join(tree, ".deps")) and os.path.exists(os.path.join(source, ".deps")):
        os.symlink(os.path.join(source, ".deps"), os.path.join(tree, ".deps"))


def build(tree, preset):
    for program in glob.glob(os.path.join(tree, "build", preset, "tests", "*_tests")):
        os.remove(program)  # of another division into programs
    flags = f"-DCMAKE_CXX_FLAGS=-include {os.path.join(tree, 'tests', 'mutations', 'planted.h')}"
    log = os.path.join(tree, f"build-{preset}.log")
    with open(log, "w") as out:
        for command in (["cmake", "--preset", preset, "-DAMDAHL_TESTS=ON", flags], ["cmake", "--build", "--preset", preset]):
            if subprocess.run(command, cwd=tree, stdout=out, stderr=out).returncode != 0:
                sys.exit(f"{' '.join(command)} failed, see {log}")


def environment_of(tree, preset):
    presets = json.load(open(os.path.join(tree, "CMakePresets.json")))["testPresets"]
    given = next((one.get("environment", {}) for one in presets if one["name"] == preset), {})
    return {**os.environ, **{name: value.replace("${sourceDir}", tree) for name, value in given.items()}}


class Stage:
    def __init__(self, name, tree):
        self.name, self.tree, self.binary = name, tree, os.path.join(tree, "build", STAGES[name])
        self.environment = environment_of(tree, STAGES[name])

    def commands_of(self, test):
        """The programs of this stage that have cases of the test's filter; a kind of tests may have several programs."""
        if test["program"] == "script":
            kind, name = test["filter"].split(".")
            script = os.path.join(self.tree, "tests", kind, name + ".py")
            return [[sys.executable, script, self.tree, self.binary]] if self.name == "test" else []
        kind = test["program"].removesuffix("_tests")
        found = []
        for program in sorted(glob.glob(os.path.join(self.binary, "tests", kind + "*_tests"))):
            command = [program, "--gtest_filter=" + test["filter"]]
            cases = subprocess.run([*command, "--gtest_list_tests"], capture_output=True, text=True, env=self.environment)
            if re.search(r"^  \S", cases.stdout, re.M):
                found.append(command)
        return found

    def fails(self, command, number):
        """Why the command fails with the fault, or nothing."""
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=self.binary,
                                  timeout=LIMIT_SECONDS, env={**self.environment, "AMDAHL_FAULT": str(number)})
        except subprocess.TimeoutExpired:
            return "limit of time"
        if done.returncode == 0:
            return ""
        report = re.search(r"(WARNING: ThreadSanitizer: [a-z -]+[a-z]|ERROR: AddressSanitizer: [a-z-]+"
                           r"|ERROR: LeakSanitizer|runtime error: [a-z ]{3,40})", done.stdout + done.stderr)
        return report.group(1).split(": ", 1)[-1].strip() if report else "assertion"


def try_fault(fault, stage, tries):
    """(times found of times tried, how) or a reason why it cannot be tried."""
    for test in fault["tests"]:
        commands = stage.commands_of(test)
        if not commands:
            return 0, tries, "its tests are not in this stage"
        for command in commands:
            if reason := stage.fails(command, 0):
                return 0, tries, "fails without the fault: " + reason
            reasons = [stage.fails(command, fault["number"]) for _ in range(tries)]
            if any(reasons):
                return sum(map(bool, reasons)), tries, next(filter(None, reasons))
    return 0, tries, "NOT FOUND"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("folder")
    parser.add_argument("--stages", default="test,asan,tsan")
    parser.add_argument("--faults", default="")
    parser.add_argument("--tries", type=int, default=0)
    parser.add_argument("--table")
    given = parser.parse_args()
    faults = json.load(open(os.path.join(HERE, "faults.json")))
    if given.faults:
        faults = [fault for fault in faults if str(fault["number"]) in given.faults.split(",")]
    tree = os.path.abspath(given.folder)
    os.makedirs(tree, exist_ok=True)
    copy_with_faults(os.path.abspath(given.source), tree)
    missed, rows = 0, []
    for name in given.stages.split(","):
        here = [fault for fault in faults if fault["stage"] == name]
        if not here:
            continue
        build(tree, STAGES[name])
        stage = Stage(name, tree)
        for fault in here:
            start = time.monotonic()
            found, tries, how = try_fault(fault, stage, given.tries or (3 if fault["kind"] == "race" else 1))
            missed += found == 0
            cases = ", ".join(test["filter"] for test in fault["tests"])
            rows.append(f"| {fault['number']} | {fault['kind']} | {fault['layer']} | {fault['fault']} | {name} | `{cases}` "
                        f"| {found} of {tries}: {how} |")
            print(f"{rows[-1]} {time.monotonic() - start:.1f} s", flush=True)
    if given.table:
        with open(given.table, "a") as out:
            out.write("".join(row + "\n" for row in sorted(rows, key=lambda row: int(row.split("|")[1]))))
    print(f"{len(rows)} faults, {missed} not found")
    sys.exit(1 if missed else 0)


main()

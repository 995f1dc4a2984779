"""No path of one person's machine, no unfinished-work mark and no broken link in the documents; the README starts with
the two commands.

usage: hygiene_test.py SOURCE_DIR [BINARY_DIR]
"""
import os
import re
import subprocess
import sys

# Written in pieces, so that this file passes its own test.
MACHINE_PATH = re.compile(r"(?<![\w.$}~*-])/(" + "|".join(("wo" + "rk", "fa" + "rm", "ho" + "me", "ro" + "ot")) + r")(/|\b(?![\w-]))")
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
BINARY = (".png", ".svg", ".gz", ".zst", ".jpg", ".pdf", ".ico")
LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)]*)?\)")


def tracked_files(root):
    try:
        names = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True,
                               check=True).stdout.decode().split("\0")
        return [name for name in names if name and os.path.isfile(os.path.join(root, name))]
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive
        found = []
        for directory, folders, names in os.walk(root):
            folders[:] = [f for f in folders if f not in (".git", "build", ".deps", ".venv", "local")]
            found += [os.path.relpath(os.path.join(directory, name), root) for name in names]
        return found


def check_text(name, text):
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        path = MACHINE_PATH.search(line)
        if path:
            problems.append(f"{name}:{number}: a path of one machine: {line.strip()[:100]}")
        mark = UNFINISHED.search(line)
        if mark:
            problems.append(f"{name}:{number}: unfinished work: {line.strip()[:100]}")
    return problems


def check_links(root, name, text):
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    return [f"{name}: link to {target}, which is not there" for target, _ in LINK.findall(prose)
            if not os.path.exists(os.path.join(root, os.path.dirname(name), target))]


def self_test():
    bad = ["see /wo" + "rk/main", "cd /ho" + "me/ann/x", "'/ro" + "ot'", "// TO" + "DO: later", "FIX" + "ME"]
    good = ["framework/main", "a/ho" + "me/x", "$x/ro" + "ot/y", "the to-do list", "/usr/local/cuda", "/ho" + "mepage"]
    return [text for text in bad if not check_text("x", text)] + [text for text in good if check_text("x", text)]


def main():
    root = os.path.abspath(sys.argv[1])
    broken = self_test()
    if broken:
        print(f"this test does not work: wrong about {broken}")
        return 1
    problems, num_files = [], 0
    for name in tracked_files(root):
        if name.endswith(BINARY):
            continue
        text = open(os.path.join(root, name), encoding="utf-8", errors="replace").read()
        num_files += 1
        problems += check_text(name, text)
        if name.endswith(".md"):
            problems += check_links(root, name, text)
    readme = open(os.path.join(root, "README.md"), encoding="utf-8").read()
    for command in ("make demo", "make test"):
        if command not in readme:
            problems.append(f"README.md does not show `{command}`")
    print("\n".join(problems + [f"{num_files} files, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

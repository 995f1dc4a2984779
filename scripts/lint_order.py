"""Which sources of src/ to check, one per line, nearest to the change first.

usage: lint_order.py COMPILE_COMMANDS changed|--all <CHANGED_FILES
"""
import json
import os
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def includers(files):
    """header -> the files that include it; headers are named from src/ or include/."""
    of = {}
    for path in files:
        for name in INCLUDE.findall(open(path, encoding="utf-8").read()):
            for header in (os.path.join("src", name), os.path.join("include", name)):
                of.setdefault(header, set()).add(path)
    return of


def by_distance(changed, of):
    """The changed files, then what includes them, then what includes those, and so on."""
    order, front = [], list(changed)
    seen = set(front)
    while front:
        order += sorted(front)
        front = [path for header in front for path in of.get(header, ()) if path not in seen and not seen.add(path)]
    return order


def main():
    compiled = {os.path.relpath(entry["file"]) for entry in json.load(open(sys.argv[1]))}
    sources = sorted(path for path in compiled if path.startswith("src/") and path.endswith(".cpp"))
    if sys.argv[2] != "--all":
        files = [os.path.join(folder, name) for root in ("src", "include") for folder, _, names in os.walk(root)
                 for name in names if name.endswith((".h", ".cpp"))]
        near = by_distance([line.strip() for line in sys.stdin if line.strip()], includers(files))
        known = set(sources)
        sources = [path for path in near if path in known]
    print("".join(path + "\n" for path in sources), end="")


main()

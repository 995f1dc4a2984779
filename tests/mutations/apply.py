"""Writes every fault of faults.json into a copy of the sources, each behind `planted(number)` (planted.h).

usage: apply.py SOURCE_DIR
"""
import json
import os
import sys

FAULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "faults.json")


def read_faults():
    with open(FAULTS, encoding="utf-8") as file:
        faults = json.load(file)
    numbers = [fault["number"] for fault in faults]
    if numbers != list(range(1, len(faults) + 1)):
        raise SystemExit(f"faults.json: the faults are numbered {numbers}")
    for fault in faults:
        if f"planted({fault['number']})" not in fault["new"]:
            raise SystemExit(f"faults.json: fault {fault['number']} is not behind planted({fault['number']})")
    return faults


def apply(root):
    texts = {}
    problems = []
    for fault in read_faults():
        path = os.path.join(root, fault["file"])
        try:
            if path not in texts:
                with open(path, encoding="utf-8") as file:
                    texts[path] = file.read()
        except OSError as error:
            problems.append(f"fault {fault['number']}: {error}")
            continue
        times = texts[path].count(fault["old"])
        if times == 1:
            texts[path] = texts[path].replace(fault["old"], fault["new"])
        else:
            problems.append(f"fault {fault['number']}: its text occurs {times} times in {fault['file']}: {fault['old']}")
    if problems:
        raise SystemExit("\n".join(problems))
    for path, text in texts.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    apply(sys.argv[1])

"""The library names no option of the command line: its texts refer to fields (include/amdahl/error.h), which the
program names. No string literal in src/ outside src/cli, nor in include/, has a word that begins with two hyphens.

usage: fields_test.py SOURCE_DIR [BINARY_DIR]
"""
import os
import re
import sys

from hygiene_test import literals, tracked_files

SOURCE = re.compile(r"^(include/|src/(?!cli/)).*\.(h|cpp|cu|cuh)$")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
OTHER_PROGRAMS = re.compile(r"(?<![\w-])(numactl --cpunodebind=\S+ --membind|docker run --shm-size=\S+ --ulimit|--ipc=host|"
                            r"--oversubscribe|--allow-run-as-root)\b")  # the last three of docker and mpirun


def check(name, text):
    if not SOURCE.match(name):
        return []
    return [f"{name}:{line}: a literal names {option}; write the field, `batch_sizes`: {literal.strip()[:100]}"
            for line, literal in literals(text) for option in OPTION.findall(OTHER_PROGRAMS.sub("", literal))]


def self_test():
    bad = ('throw Error(x, "--steps is 0");', 'f("set\\"--a"\n"b");', 'f("or " "x"); g("amdahl study --resume");',
           'f("docker run --resume");', 'f("--ipc=host, --ulimit");', 'f("a" "\n"\n  "(--steps)");')
    good = ('f("`steps` is 0");', "// --steps", 'f("a--b -- c");', "--left;", 'f("numactl --cpunodebind={0} --membind={0}");',
            'f("-t pairs");', 'f(x--, "y");')
    names = ("include/amdahl/a.h", "src/verbs/a.cpp", "src/ops/a.cu")
    wrong = [text for text in bad for name in names if len(check(name, text)) != 1]
    wrong += [text for text in good for name in names if check(name, text)]
    return wrong + [name for name in ("src/cli/a.cpp", "src/report/page/page.css", "tests/a.cpp") if check(name, bad[0])]


def main():
    root = os.path.abspath(sys.argv[1])
    broken = self_test()
    if broken:
        print(f"this test does not work: wrong about {broken}")
        return 1
    problems, num_files = [], 0
    for name in tracked_files(root):
        if not SOURCE.match(name):
            continue
        num_files += 1
        problems += check(name, open(os.path.join(root, name), encoding="utf-8").read())
    print("\n".join(problems + [f"{num_files} files, {len(problems)} problems"]))
    return 1 if problems or num_files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

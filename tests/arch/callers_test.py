"""Every function that a header of src declares is called by the program or a benchmark, not by tests alone.

usage: callers_test.py SOURCE_DIR BINARY_DIR
"""
import collections
import pathlib
import re
import sys

SOURCE = pathlib.Path(sys.argv[1])
SUFFIXES = (".h", ".cpp", ".cu", ".cuh")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"", re.S)
WORD = re.compile(r"[A-Za-z_]\w*")
# A declaration or definition at namespace level: a type, then the name and an opening bracket.
DECLARED = re.compile(r"^(?=\S)(?!return|using|namespace|template|static_assert|#)(?:[\w:<>,*&\[\] ]+[ *&])(~?[a-z_]\w*)\(", re.M)
# What tests compare the program with: what it declares or computes in another way.
ORACLES = {"gemm_waves", "peak_activations", "record_from_json", "tensor_parallel", "tensor_traffic_bytes"}
NO_FUNCTIONS = {"__launch_bounds__"}


def sources(folder):
    return [path for path in sorted((SOURCE / folder).rglob("*")) if path.suffix in SUFFIXES]


def text_of(path):
    return COMMENT.sub(" ", path.read_text())


def uncalled(texts):
    """(name, header) of functions that no text names but where they are declared and defined."""
    words, places = collections.Counter(), collections.Counter()
    declared = {}
    for path, text in texts.items():
        words.update(WORD.findall(text))
        for name in DECLARED.findall(text):
            places[name] += 1
            if path.suffix in (".h", ".cuh"):
                declared.setdefault(name, path)
    return [(name, path) for name, path in declared.items() if words[name] <= places[name] and name not in ORACLES | NO_FUNCTIONS]


def main():
    planted = {pathlib.Path("a.h"): "int used(int);\nint unused(int);\n", pathlib.Path("a.cpp"): "int used(int a) {\n  return a;\n}\n"
               "int unused(int a) {\n  return used(a);\n}\n"}
    assert [name for name, _ in uncalled(planted)] == ["unused"], uncalled(planted)
    texts = {path: text_of(path) for folder in ("src", "include", "benchmarks", "examples", "tools") for path in sources(folder)}
    found = [(name, path) for name, path in uncalled(texts) if "include" not in path.parts]
    for name, path in found:
        print(f"{path.relative_to(SOURCE)}: {name}() is called by no source outside of tests")
    print(f"{len(texts)} files, 1 planted function found, {len(found)} problems")
    sys.exit(1 if found else 0)


main()

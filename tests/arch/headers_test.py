"""Every public header compiles alone, without warnings, and includes nothing but the standard library and its siblings.

usage: headers_test.py SOURCE_DIR [BINARY_DIR]
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

FLAGS = ["-fsyntax-only", "-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-x", "c++"]


def compile_alone(compiler, root, header):
    # Included twice: a header must also stand that.
    source = f'#include "amdahl/{header}"\n#include "amdahl/{header}"\n'
    done = subprocess.run([compiler, *FLAGS, "-I", os.path.join(root, "include"), "-"], input=source, text=True,
                          capture_output=True, check=False)
    return done.returncode, done.stderr


def foreign_includes(path):
    found = re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', open(path, encoding="utf-8").read(), re.M)
    return [name for name in found if not re.fullmatch(r"[a-z_0-9]+|amdahl/\w+\.h", name)]


def check(compiler, root):
    folder = os.path.join(root, "include", "amdahl")
    headers = sorted(name for name in os.listdir(folder) if name.endswith(".h"))
    problems = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for header, (code, text) in zip(headers, pool.map(lambda h: compile_alone(compiler, root, h), headers)):
            if code != 0:
                problems.append(f"include/amdahl/{header} does not compile alone:\n{text}")
            for name in foreign_includes(os.path.join(folder, header)):
                problems.append(f"include/amdahl/{header}: a public header includes {name}")
    return problems, len(headers)


def main():
    root = os.path.abspath(sys.argv[1])
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        print("skipped: no C++ compiler on the path")
        return 77
    with tempfile.TemporaryDirectory() as planted:  # a header that needs another one must be found out
        os.makedirs(os.path.join(planted, "include", "amdahl"))
        with open(os.path.join(planted, "include", "amdahl", "bad.h"), "w", encoding="utf-8") as out:
            out.write("#pragma once\n#include <fmt/core.h>\nstd::vector<int> all();\n")
        if len(check(compiler, planted)[0]) != 2:
            print("this test does not work: a planted bad header was not found out")
            return 1
    problems, num_headers = check(compiler, root)
    print("\n".join(problems + [f"{num_headers} public headers, {len(problems)} problems"]))
    return 1 if problems or num_headers == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

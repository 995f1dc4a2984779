"""Fails on every include that docs/layers.txt does not allow, on cycles in it, and on other breaches of the layout.

usage: layers_test.py SOURCE_DIR [BINARY_DIR]

Rules: layer may include layer, and within a layer that lists its folders likewise; third-party headers only where listed; CUDA headers only in files named cuda_*, nccl_*,
nvshmem_* or *.cu, *.cuh; at most one #if per 1,000 lines; no file above 400 lines; CMake link lists within layers.txt; SVG is written in *_drawing.cpp
(docs/report.md).
Before it judges the tree it plants one breach of each rule in a small copy and checks that it finds every one.
"""
import os
import re
import shutil
import sys
import tempfile

MAX_LINES = 400
LINES_PER_IF = 1000
SOURCE = (".h", ".cpp", ".cu", ".cuh")
CUDA_FILE = re.compile(r"^((cuda|nccl|nvshmem)_.*|.*\.cuh?)$")
CUDA_HEADER = re.compile(
    r"^(cuda[^/]*\.h|cu(blas|dnn|pti|rand|solver|sparse|fft)[^/]*\.h|nccl[^/]*\.h|nvml\.h|nvshmem[^/]*\.h|mma\.h|"
    r"driver_types\.h|device_launch_parameters\.h|cooperative_groups.*|(cuda|cub|thrust|cutlass|cute|nvtx3|host|device)/.*|"
    r"cudnn_frontend.*)$")
SYSTEM = re.compile(r"^([a-z_0-9]+|c?[a-z_0-9]+\.h|(sys|linux|net|netinet|arpa|bits|asm)/[\w./-]+\.h)$")
EVERYWHERE = ("fmt/",)  # formatting is part of the language here
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CONDITION = re.compile(r"^\s*#\s*(if|ifdef|ifndef|elif)\b\s*(.*)$")
COMPILER_SWITCH = re.compile(r"^(defined\s*\(?\s*)?__CUDA(CC__|_ARCH__)\s*\)?(\s*>=\s*\d+)?\s*(//.*)?$")


def read_layers(path):
    """({folder: set of folders}, [(header prefix, set of folders)])"""
    folders, headers, target = {}, [], None
    for number, raw in enumerate(open(path, encoding="utf-8"), 1):
        line = raw.split("#")[0].strip()
        if "third-party" in raw and raw.startswith("#"):
            target = headers
        if not line:
            continue
        if "->" not in line:
            raise SystemExit(f"{path}:{number}: expected 'name -> names': {line}")
        name, names = (part.strip() for part in line.split("->", 1))
        if target is headers:
            headers.append((name, set(names.split())))
        else:
            folders[name] = set(names.split())
    return folders, headers


def find_cycle(folders):
    state, path = {}, []

    def visit(folder):
        state[folder] = "open"
        path.append(folder)
        for below in sorted(folders.get(folder, ())):
            if state.get(below) == "open":
                return path[path.index(below):] + [below]
            if below not in state:
                cycle = visit(below)
                if cycle:
                    return cycle
        path.pop()
        state[folder] = "done"
        return None

    for folder in sorted(folders):
        if folder not in state:
            cycle = visit(folder)
            if cycle:
                return cycle
    return None


def sources(root):
    for top in ("include/amdahl", "src"):
        for directory, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith(SOURCE):
                    yield os.path.relpath(os.path.join(directory, name), root)


def layer_of(path, folders):
    """"stats" of "stats/summary.h"; "sensor/ops" of "sensor/ops/merge.h", where docs/layers.txt has no line for sensor."""
    first, _, rest = path.partition("/")
    return first if first in folders or "/" not in rest else f"{first}/{rest.split('/')[0]}"


def folder_of(path, folders):
    parts = path.split(os.sep)
    return "public" if parts[0] == "include" else layer_of("/".join(parts[1:]), folders)


def inner_folder(path, folders):
    """"report/study" of "report/study/verdict.h" where docs/layers.txt lists folders of that layer, else None."""
    layer, inner = path.split("/")[0], os.path.dirname(path)
    return inner if layer in folders and any(name.startswith(layer + "/") for name in folders) else None


def project_folder(root, header, folders):
    """Layer of an include path of the project, or None."""
    if header.startswith("amdahl/"):
        return "public"
    return layer_of(header, folders) if os.path.isdir(os.path.join(root, "src", header.split("/")[0])) else None


def check_include(root, path, folder, quote, header, folders, headers):
    name = os.path.basename(path)
    if quote == '"':
        below = project_folder(root, header, folders) if "/" in header else None
        if below is not None:
            where = os.path.join(root, "include" if below == "public" else "src", header)
            if not os.path.exists(where) and not os.path.exists(where + ".in"):  # .in: CMake writes it
                return f'"{header}" does not exist'
            if below != folder and below not in folders.get(folder, ()):
                return f'folder {folder} may not include "{header}" (layer {below})'
            own = inner_folder("/".join(path.split(os.sep)[1:]), folders) if below == folder else None
            inner = inner_folder(header, folders)
            if own is not None and inner != own and inner not in folders.get(own, ()):
                return f'folder {own} may not include "{header}" (folder {inner})'
            return None
        if "/" not in header and os.path.exists(os.path.join(root, os.path.dirname(path), header)):
            return f'"{header}" is written without its folder'
    if CUDA_HEADER.match(header):
        return None if CUDA_FILE.match(name) else f"CUDA header {header} outside cuda_*, nccl_*, nvshmem_* and .cu files"
    for prefix, allowed in headers:
        if header == prefix or (header.startswith(prefix) and (prefix.endswith("/") or header[len(prefix)] in "/.")):
            return None if folder in allowed else f"third-party header {header} belongs to {', '.join(sorted(allowed))}"
    if SYSTEM.match(header) or (header.startswith(EVERYWHERE) and folder != "public"):
        return None
    return f"third-party header {header} is not listed in docs/layers.txt"


def is_guard(lines, index):
    match = re.match(r"^\s*#\s*ifndef\s+(\w+)", lines[index])
    return bool(match and index + 1 < len(lines) and re.match(rf"^\s*#\s*define\s+{match[1]}\s*$", lines[index + 1]))


def check_cmake(root, folders):
    problems = []
    for folder in sorted(folders):
        path = os.path.join(root, "src", folder, "CMakeLists.txt")
        if not os.path.exists(path):
            continue
        text = re.sub(r"#.*", "", open(path, encoding="utf-8").read())
        for name, body in re.findall(r"amdahl_layer\(\s*(\w+)\s([^)]*)\)", text):
            match = re.search(r"\bLAYERS\b([^A-Z]*)", body)
            targets = {layer.replace("/", "_"): layer for layer in folders}  # "sensor_ops": "sensor/ops"
            for below in (match[1].split() if match else []):
                if targets.get(below, below) not in folders.get(targets.get(name, name), ()):
                    problems.append(f"src/{folder}/CMakeLists.txt: {name} links layer {below}, which docs/layers.txt forbids")
    return problems


def check_tree(root):
    folders, headers = read_layers(os.path.join(root, "docs", "layers.txt"))
    problems = []
    cycle = find_cycle(folders)
    if cycle:
        problems.append("docs/layers.txt: cycle " + " -> ".join(cycle))
    num_files = num_lines = 0
    conditions = []
    for path in sources(root):
        folder = folder_of(path, folders)
        if folder not in folders:
            problems.append(f"{path}: folder {folder} is not in docs/layers.txt")
        inner = inner_folder("/".join(path.split(os.sep)[1:]), folders)
        if inner is not None and (inner == folder or inner not in folders):
            problems.append(f"{path}: folder {inner} is not in docs/layers.txt, which lists the folders of {folder}")
        lines = open(os.path.join(root, path), encoding="utf-8").read().splitlines()
        num_files += 1
        num_lines += len(lines)
        if len(lines) > MAX_LINES:
            problems.append(f"{path}: {len(lines)} lines, more than {MAX_LINES}")
        if not path.endswith("_drawing.cpp") and any('"<svg ' in line for line in lines):
            problems.append(f"{path}: writes SVG outside of *_drawing.cpp; charts are Vega-Lite (docs/report.md)")
        for index, line in enumerate(lines):
            include = INCLUDE.match(line)
            if include:
                problem = check_include(root, path, folder, include[1], include[2].strip(), folders, headers)
                if problem:
                    problems.append(f"{path}:{index + 1}: {problem}")
            condition = CONDITION.match(line)
            if condition and not COMPILER_SWITCH.match(condition[2].strip()) and not is_guard(lines, index):
                conditions.append(f"{path}:{index + 1}: {line.strip()}")
    allowed = max(1, num_lines // LINES_PER_IF)
    if len(conditions) > allowed:
        problems.append(f"{len(conditions)} conditional directives in {num_lines} lines, {allowed} allowed:\n    " +
                        "\n    ".join(conditions))
    return problems + check_cmake(root, folders), num_files, num_lines


def self_test(root):
    """One planted breach a rule: (what the finding must say, file, text)."""
    plants = [
        ("may not include", "src/base/planted.cpp", '#include "ops/planted.h"\n'),
        ("may not include", "include/amdahl/planted.h", '#include "base/planted.h"\n'),
        ("folder report/page may not include", "src/report/page/planted.h", '#include "report/study/planted.h"\n'),
        ("folder report/common may not include", "src/report/common/planted.h", '#include "report/page/planted.h"\n'),
        ("lists the folders of report", "src/report/planted.h", "int x;\n"),
        ("lists the folders of report", "src/report/planted/planted.h", "int x;\n"),
        ("folder sensor/ops may not include", "src/sensor/ops/planted.cpp", '#include "sensor/report/planted.h"\n'),
        ("folder sensor/ops may not include", "src/sensor/ops/voxels/planted.cpp", '#include "sensor/report/planted.h"\n'),
        ("folder report may not include", "src/report/page/planted.cpp", '#include "sensor/report/planted.h"\n'),
        ("not in docs/layers.txt", "src/sensor/planted/planted.cpp", "int x;\n"),
        ("not in docs/layers.txt", "src/sensor/planted.cpp", "int x;\n"),
        ("forbids", "src/sensor/ops/CMakeLists.txt", "amdahl_layer(sensor_ops SOURCES a.cpp LAYERS sensor_report)\n"),
        ("cycle", "docs/layers.txt", "public ->\nreport ->\nreport/a -> report/b\nreport/b -> report/a\n"),
        ("writes SVG outside", "src/report/page/planted.cpp", 'text += "<svg xmlns=...";\n'),
        ("does not exist", "src/base/planted.cpp", '#include "base/absent.h"\n'),
        ("without its folder", "src/base/planted.cpp", '#include "planted.h"\n'),
        ("belongs to chart, spec", "src/base/planted.cpp", "#include <nlohmann/json.hpp>\n"),
        ("belongs to ops", "src/comm/planted.cpp", "#include <oneapi/dnnl/dnnl.hpp>\n"),
        ("not listed", "src/base/planted.cpp", "#include <spdlog/spdlog.h>\n"),
        ("not listed", "include/amdahl/planted.h", "#include <fmt/format.h>\n"),
        ("CUDA header", "src/ops/planted.cpp", "  #  include <cuda_runtime.h>\n"),
        ("CUDA header", "src/ops/cpu_planted.cpp", "#include <cublasLt.h>\n"),
        ("CUDA header", "src/comm/planted.h", "#include <nccl.h>\n"),
        ("not in docs/layers.txt", "src/planted/planted.cpp", "int x;\n"),
        ("more than 400", "src/base/planted.cpp", "int x;\n" * 401),
        ("conditional directives", "src/base/planted.cpp", "#if A\n#elif B\n#endif\n#ifdef C\n#endif\n"),
        ("forbids", "src/base/CMakeLists.txt", "amdahl_layer(base SOURCES a.cpp LAYERS ops LINK x)\n"),
        ("cycle", "docs/layers.txt", "public ->\na -> b\nb -> c\nc -> a\n"),
    ]
    clean = {
        "src/base/planted.h": "#pragma once\n#include <vector>\n#include <sys/stat.h>\n#include \"amdahl/planted.h\"\n",
        "include/amdahl/planted.h": "#ifndef PLANTED_H\n#define PLANTED_H\n#endif\n",
        "src/base/made.h.in": "#pragma once\n",
        "src/report/page/planted.h": '#include "base/planted.h"\n',
        "src/report/study/planted.h": '#include "report/page/planted.h"\n#include "base/planted.h"\n',
        "src/report/study/uses_planted.cpp": '#include "report/study/planted.h"\n',
        "src/report/page/planted_drawing.cpp": 'text += "<svg xmlns=...";\n',
        "src/verbs/planted.cpp": '#include "report/study/planted.h"\n#include "sensor/report/planted.h"\n',
        "src/sensor/report/planted.h": '#include "report/page/planted.h"\n',
        "src/sensor/ops/CMakeLists.txt": "amdahl_layer(sensor_ops SOURCES a.cpp LAYERS base device)\n",
        "src/base/uses_made.cpp": '#include "base/made.h"\n',
        "src/ops/planted.h": '#include "base/planted.h"\n#include <fmt/format.h>\n',
        "src/ops/cuda_planted.cpp": "#include <cuda_runtime.h>\n#if defined(__CUDACC__)\n#endif\n#ifdef __CUDACC__\n#endif\n",
        "src/ops/planted.cu": "#include <cublasLt.h>\n#include <cuda_bf16.h>\n",
    }

    def problems_with(files):
        with tempfile.TemporaryDirectory() as copy:
            os.makedirs(os.path.join(copy, "docs"))
            shutil.copy(os.path.join(root, "docs", "layers.txt"), os.path.join(copy, "docs"))
            for path, text in {**clean, **files}.items():
                path = os.path.join(copy, path)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as out:
                    out.write(text)
            return check_tree(copy)[0]

    failures = []
    if problems_with({}):
        failures.append(f"a clean tree was refused: {problems_with({})}")
    for expected, path, text in plants:
        found = problems_with({path: text})
        if not any(expected in problem for problem in found):
            failures.append(f"a planted breach was missed: {path}: {text[:60]!r} (found: {found})")
    return failures, len(plants)


def main():
    root = os.path.abspath(sys.argv[1])
    failures, num_plants = self_test(root)
    if failures:
        print("this test does not work:\n  " + "\n  ".join(failures))
        return 1
    problems, num_files, num_lines = check_tree(root)
    if num_files == 0:
        problems.append("no source file was found")
    for problem in problems:
        print(problem)
    print(f"{num_files} files, {num_lines} lines, {num_plants} planted breaches found, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

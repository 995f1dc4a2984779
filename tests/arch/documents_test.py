"""Every path, file name and section that README, CONTRIBUTING and docs name exists; README stays short; a decision names
alternatives.

usage: documents_test.py SOURCE_DIR [BINARY_DIR]
"""
import fnmatch
import glob
import os
import re
import subprocess
import sys

README_BYTES = 9000
DECISIONS = 20
FOLDERS = ("src", "include", "tests", "docs", "cmake", "scripts", "tools", "benchmarks", "data", "results", "examples", "python", ".ci")
CODE = re.compile(r"`([^`\n]+)`")
NAME = re.compile(r"^[\w.*/-]+\.(cpp|h|cu|cuh|py|cmake|sh|md|txt|toml)$")
LINK = re.compile(r"\]\(([^)#:\s]*)#([^)]*)\)")
# Files of other programs, and files that a command or a reader makes.
FOREIGN = ("benchmark_heterogeneous.py", "compare_results.py", "benchmark_multi_gpu.py", "voxelize_kernel_optimized.cu", "setup.py",
           "report.md", "report.txt", "FILE.txt", "src/graph/tuning.cc", "FILE.toml", ".txt")
PLACEHOLDER = re.compile(r"(^|[/_])(x|X|FOLDER|NAME|OUT|RUN|FILE)([/_.]|$)|^results/local|\.\.\.")


def tracked(root):
    listing = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"], capture_output=True)
    if listing.returncode == 0:
        return [name for name in listing.stdout.decode().split("\0") if name and os.path.exists(os.path.join(root, name))]
    return [os.path.relpath(os.path.join(folder, name), root) for folder, _, names in os.walk(root) for name in names]


def names_in(text):
    """Paths and file names in backticks, outside of code blocks."""
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    for code in CODE.findall(prose):
        for word in re.split(r"[\s,;]+", code):
            word = word.strip("()").rstrip("/")
            if PLACEHOLDER.search(word) or word in FOREIGN:
                continue
            if NAME.match(word) or word.split("/")[0] in FOLDERS:
                yield word


def modules_in(text):
    """Sources named without src/ and suffix, as in "(`stats/compare`)"."""
    for code in CODE.findall(re.sub(r"```.*?```", "", text, flags=re.S)):
        if re.fullmatch(r"[a-z_]+(/[a-z_0-9]+)+(\.h|\.cpp)?", code):
            yield code


def exists(root, files, name):
    if name.split("/")[0] in FOLDERS:
        return bool(glob.glob(os.path.join(root, name)) or glob.glob(os.path.join(root, name + ".*")))
    return any(fnmatch.fnmatch(path, name) or fnmatch.fnmatch(path, "*/" + name) for path in files)


def module_exists(root, name):
    folder = os.path.join(root, "src", name.split("/")[0])
    return not os.path.isdir(folder) or bool(glob.glob(os.path.join(root, "src", name) + "*"))


def anchors_of(text):
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def check_page(root, files, page):
    text = open(os.path.join(root, page), encoding="utf-8").read()
    problems = [f"{page}: `{name}` is not there" for name in sorted(set(names_in(text))) if not exists(root, files, name)]
    problems += [f"{page}: `{name}` is no source" for name in sorted(set(modules_in(text))) if not module_exists(root, name)]
    for target, anchor in LINK.findall(text):
        path = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
        if path.endswith(".md") and os.path.exists(os.path.join(root, path)):
            if anchor not in anchors_of(open(os.path.join(root, path), encoding="utf-8").read()):
                problems.append(f"{page}: {path} has no section #{anchor}")
    return problems


def self_test(root, files):
    text = "`src/plan/plan.cpp`, `plan.cpp`, `cuda_*.cu`, `stats/compare`, `src/nowhere.cpp`, `nowhere.cpp`, `stats/nowhere`"
    wrong = [name for name in names_in(text) if not exists(root, files, name)]
    wrong += [name for name in modules_in(text) if not module_exists(root, name)]
    return wrong == ["src/nowhere.cpp", "nowhere.cpp", "stats/nowhere"] and anchors_of("## A `b/c_d`, e\n") == {"a-bc_d-e"}


def main():
    root = os.path.abspath(sys.argv[1])
    files = tracked(root)
    if not self_test(root, files):
        print("this test does not work")
        return 1
    pages = ["README.md", "CONTRIBUTING.md"] + [name for name in files if re.fullmatch(r"docs/(decisions/)?[^/]+\.md", name)]
    problems = [problem for page in pages for problem in check_page(root, files, page)]
    size = os.path.getsize(os.path.join(root, "README.md"))
    if size > README_BYTES:
        problems.append(f"README.md has {size} bytes, more than {README_BYTES}: details belong to docs")
    decisions = [name for name in pages if name.startswith("docs/decisions/") and not name.endswith("/README.md")]
    if len(decisions) > DECISIONS:
        problems.append(f"{len(decisions)} decisions: what has no measured alternative is a comment in the file that it explains")
    listed = open(os.path.join(root, "docs/decisions/README.md"), encoding="utf-8").read()
    for name in decisions:
        if "## Alternatives" not in open(os.path.join(root, name), encoding="utf-8").read():
            problems.append(f"{name}: names no alternatives")
        if f"({os.path.basename(name)})" not in listed:
            problems.append(f"{name} is not listed in docs/decisions/README.md")
    print("\n".join(problems + [f"{len(pages)} pages, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""No path of one person's machine, no unfinished-work mark, no broken link in the documents, no words of this project
alone in what users read; the README starts with the two commands.

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
# Words of this project alone, where the field has terms. Users read them in literals of src/, pages and documents;
# identifiers, comments and JSON keys (literals without a space) are free.
PRIVATE_WORDS = [re.compile(pattern, re.I) for pattern in (
    r"(?<![\w-])ways?\b(?! between)",  # path, method, link, algorithm; "both directions"
    r"carr(y|ies) what|should carry",  # reach the expected bandwidth
    r"in the open\b",  # exposed
    r"\bloses [\d{]",  # takes 2.17x as long
    r"\bmend(s|ed)?\b",  # fix
    r"nothing found of",  # passed
    r"not looked at",  # skipped
    r"\b(pays?|paying) from\b|\bstarts? to pay\b",  # faster at batch >= N, break-even
    r"\bsurest\b",  # best speedup (lower end of its interval)
    r"hold-back|\bheld[ -]back\b|\bholds? back\b",  # --limit-sms, SM-limited
    r"for the money\b",  # per dollar
    r"needs another\b",  # needs at least 2 devices
    r"\bunlike (ones|devices|gpus|speed|runs|steps)|\b(alike|like) devices",  # heterogeneous, homogeneous
    r"\bsecond row\b|\bdealt\b|\bcrowded\b|\bhalves of words\b",  # overflow, scattered, overfull, packed counters
    r"\bfates?\b|\btrouble\b",  # drop and NaN counters, error
    r"\bhand(s|ed|ing)? out\b",  # scatter
    r"\b(row|line|number) an? (row|sample|finding|record|device|batch|test)\b",  # one row per sample
    r"\b(bytes|calls|copies|devices|features|items|launches|points|rows|runs|samples|targets|times|values|voxels) an? "
    r"(axis|batch|call|cell|copy|cuda graph|device|direction|graph|launch|pair|point|process|row|run|sample|second|side|"
    r"size|step|thread|trajectory|voxel|way)\b",  # per
)]
# Names that the code no longer uses, also in comments. A quoted "held_back." is the name of a stored fact.
RETIRED_NAMES = re.compile(r'(?<!")(held|hold)_?back|held_sms|crowded|\bfates?\b|\bdealt?\b|count_?beyond|halves::|\btrouble\b'
                           r"|\bunlike (ones|devices|gpus|kinds)|\balike devices|second_row", re.I)
PROSE = re.compile(r"^(README\.md|CONTRIBUTING\.md|docs/[^/]*\.md|src/report/page/.*)$")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
PASTED = re.compile(r"[a-z]\*\*[A-Z]")  # a paragraph that begins inside a word
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


def literals(text):
    """(line, literal) of C++ source; literals that follow each other are one."""
    text = re.sub(r"(?m)^\s*(//|#include).*$|(?<=[;{}),]) // .*$", "", text)
    text = re.sub(r'(?<!\\)"(\s*\n\s*)"', lambda gap: "\0" * gap.group(1).count("\n"), text)
    for match in LITERAL.finditer(text):
        before = text[:match.start()]
        yield 1 + before.count("\n") + before.count("\0"), match.group(1).replace("\0", "")


def check_words(name, text):
    if PROSE.match(name):
        lines = text.splitlines()
        # A phrase may be broken over two lines; the second is then looked at with the end of the first.
        parts = [(number, line, lines[number].split(" ")[:3] if number < len(lines) else [])
                 for number, line in enumerate(lines, 1)]
        parts = [(number, line, line + " " + " ".join(following)) for number, line, following in parts]
    elif name.startswith("src/") and name.endswith((".cpp", ".h", ".cu", ".cuh")):
        parts = [(number, literal, literal) for number, literal in literals(text)
                 if " " in literal or literal[:1].isupper()]  # one word in lower case can be a key
    else:
        return []
    found = []
    for number, own, whole in parts:
        for pattern in PRIVATE_WORDS:
            word = pattern.search(whole)
            if word and word.start() < len(own):
                found.append(f"{name}:{number}: '{word.group(0)}' is not a term of the field: {own.strip()[:100]}")
                break
    return found


def check_names(name, text):
    if not name.startswith(("src/", "include/", "tests/")) or not name.endswith((".cpp", ".h", ".cu", ".cuh")):
        return []
    found = [(0, RETIRED_NAMES.search(name))] + [(n, RETIRED_NAMES.search(line)) for n, line in enumerate(text.splitlines(), 1)]
    return [f"{name}:{number}: '{word.group(0)}' is a retired name" for number, word in found if word]


def check_prose(name, text):
    return [f"{name}:{number}: a paragraph begins inside a word: {line.strip()[:100]}"
            for number, line in enumerate(text.splitlines(), 1) if PASTED.search(line)]


def check_links(root, name, text):
    prose = re.sub(r"```.*?```", "", text, flags=re.S)
    return [f"{name}: link to {target}, which is not there" for target, _ in LINK.findall(prose)
            if not os.path.exists(os.path.join(root, os.path.dirname(name), target))]


def self_test():
    bad = ["see /wo" + "rk/main", "cd /ho" + "me/ann/x", "'/ro" + "ot'", "// TO" + "DO: later", "FIX" + "ME"]
    good = ["framework/main", "a/ho" + "me/x", "$x/ro" + "ot/y", "the to-do list", "/usr/local/cuda", "/ho" + "mepage"]
    wrong = [text for text in bad if not check_text("x", text)] + [text for text in good if check_text("x", text)]
    wrong += [text for text in ("ends its sweep; t**The arena** compares",) if not check_prose("x", text)]
    for words in ("All 12 ways carry what they should", "communication in the open", "loses {:.1f} %", "fix: mend it now",
                  "nothing found of: x", "not looked at: x", "4 GPUs pay from 8", "the surest speedup", "5 items a call on",
                  "use --hold-back now", "most for the money", "1 rank: a collective needs another", "Samples a cell",
                  "Timed calls a size", "a row a sample", "devices of unlike speed"):
        wrong += [words for name, text in (("src/a/b.cpp", f'  print("{words}");'), ("docs/a.md", f"x\n{words}\n"))
                  if not check_words(name, text)]
    wrong += [text for text in ("class HeldBackDevice;", "// crowded bins", "int fates;") if not check_names("src/a.cu", text)]
    wrong += [text for text in ('facts["held_back.1"]', "int overfull;") if check_names("src/a.cu", text)]
    wrong += ["Way"] if not check_words("src/a/b.cpp", '{"way", "Way"}') else []
    breaks = f'print("4 GPUs pay "\n      "from 8");'
    wrong += [breaks] if [line.split(":")[1] for line in check_words("src/a/b.cpp", breaks)] != ["1"] else []
    wrong += [text for text in ('x["way"] = hold_back;  // mend it', 'int ways = 2; // "one way"') if check_words("src/a/b.cpp", text)]
    return wrong + [text for text in ("**Limit.** Where", "its **Limit**") if check_prose("x", text)]


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
        problems += check_text(name, text) + check_words(name, text) + check_names(name, text)
        if name.endswith(".md"):
            problems += check_links(root, name, text) + check_prose(name, text)
    readme = open(os.path.join(root, "README.md"), encoding="utf-8").read()
    for command in ("make demo", "make test"):
        if command not in readme:
            problems.append(f"README.md does not show `{command}`")
    print("\n".join(problems + [f"{num_files} files, {len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

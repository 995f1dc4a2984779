"""Tables as they are printed: their cells as numbers, and the width of what a command prints on a terminal."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

import harness
from harness import AMDAHL, ENVIRONMENT

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")
WIDTHS = (80, 120)


def number(text):
    found = NUMBER.search(text)
    assert found, f"no number in '{text}'"
    value = float(found.group().replace(",", ""))
    unit = text[found.end():found.end() + 1]
    return value * {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(unit, 1)


def microseconds(text):
    value, unit = text.split()
    return float(value) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def near(a, b, tolerance=0.006):
    """Three digits are printed."""
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def tables(text):
    """The aligned tables of a text that is not broken into lines: (heads, rows) with cells by their heads. A table is lines of
    as many columns, at least three, which two blanks or more separate."""
    found, common = [], {}
    block = []
    for line in text.splitlines() + [""]:
        if line.startswith("common: "):
            common = dict(part.split(": ", 1) for part in line[8:].split("; ") if ": " in part)
            continue
        cells = re.split(r" {2,}", line.strip())
        if len(cells) >= 3 and (not block or len(cells) == len(block[0])):
            block.append(cells)
            continue
        if len(block) > 1:
            found.append((block[0], [{**common, **dict(zip(block[0], row))} for row in block[1:]]))
        if block:
            common = {}
        block = [cells] if len(cells) >= 3 else []
    return found


def rows_with(text, *heads):
    """Rows of the tables with these heads, each the beginning of one; by these beginnings."""
    rows = []
    for _, lines in tables(text):
        for line in lines:
            values = [line.get(head, next((v for name, v in line.items() if name.startswith(head)), None)) for head in heads]
            if all(value is not None for value in values):
                rows.append(dict(zip(heads, values)))
    assert rows, f"no table with {heads} in:\n{text}"
    return rows


def check_one_verdict(text):
    """Of a row: one verdict, one count of further runs, and none that says the opposite of another."""
    for heads, lines in tables(text):
        for line in lines:
            words = " | ".join(line.values())
            counts = re.findall(r"~[\d,]+ more", words)
            assert len(counts) <= 1, f"{len(counts)} counts of further runs in a row: {words}"
            verdicts = [v for v in line.values()
                        if re.match(r"(FASTER|SLOWER|SAME|UNCLEAR|unclear|marginal|too few|.*(beneficial|preferred))", v)]
            assert len(verdicts) <= 1, f"two verdicts in a row: {verdicts}"


def at_width(case, columns, *words):
    """What a command prints on a terminal of so many columns."""
    main, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen([AMDAHL, *map(str, words)], cwd=case.folder, stdout=other, stderr=subprocess.PIPE,
                               stdin=subprocess.DEVNULL, env={**ENVIRONMENT, "NO_COLOR": "1", "TERM": "xterm"})
    os.close(other)
    text = harness.read_terminal(main)
    errors = process.communicate(timeout=120)[1].decode()
    assert process.returncode == 0, f"{words}: {errors}"
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r", "")


def check_fits(case, *words):
    for columns in WIDTHS:
        text = at_width(case, columns, *words)
        long = [line for line in text.splitlines() if len(line) > columns]
        assert not long, f"amdahl {' '.join(map(str, words))}: {len(long)} lines wider than {columns}:\n" + "\n".join(long)

"""Names and texts of any content never control a terminal: escape sequences, and characters that turn text around or hide it,
are shown escaped in tables, messages, progress, and in data that is printed to a terminal. Data for other programs stay as
they are. Progress comes every few seconds, and what is printed takes its place."""
import json
import os
import pty
import re
import signal
import subprocess
import time

import harness
from harness import AMDAHL, ENVIRONMENT, TINY

EVIL = "m\x1b[31mred\x9b2J\u202egnp.exe\u2066\u200b\u2028x"
FORBIDDEN = ["\x1b[31m", "\x9b", "\u202e", "\u2066", "\u200b", "\u2028", "\x7f"]


def on_terminal(case, *words):
    """What the program prints to a terminal, standard output and standard error."""
    leader, follower = pty.openpty()
    process = subprocess.Popen([AMDAHL, *map(str, words)], cwd=case.folder, stdin=follower, stdout=follower, stderr=follower,
                               env={**ENVIRONMENT, "TERM": "xterm", "NO_COLOR": "1"})
    os.close(follower)
    shown = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    process.wait(timeout=60)
    os.close(leader)
    return shown.decode()


def check_nothing_controls_the_terminal(case):
    model = {"version": 1, "name": EVIL, "input_width": 8, "layers": [{"units": 4}, {"units": 2, "activation": "none"}]}
    case.write("model.json", json.dumps(model))
    folder = "run" + EVIL.replace("/", "")
    study = ("study", *TINY, "--runs", 2, "--model", "model.json", "-o", folder)
    shown = on_terminal(case, *study)
    printed = [shown, on_terminal(case, "report", folder), on_terminal(case, "report", folder, "--json"),
               on_terminal(case, "compare", folder, folder), on_terminal(case, "compare", folder, folder, "--json"),
               on_terminal(case, "report", folder, "--csv", "-"), on_terminal(case, "report", folder, "--jsonl", "-"),
               on_terminal(case, "plan", "--list", "--model", "model.json"), on_terminal(case, "report", "absent" + EVIL),
               on_terminal(case, "train", "--model", "model.json", "--backend", "cpu", "--epochs", 1, "-o", "train" + EVIL)]
    for number, text in enumerate(printed):
        assert "gnp.exe" in text, f"output {number} does not show the name: {text}"
        found = [f"U+{ord(bad[0]):04X}" for bad in FORBIDDEN if bad in text]
        assert not found, f"output {number} has {found}: {text!r}"
    data = case.run("report", folder, "--csv", "-").stdout
    assert EVIL in data, "data for other programs are changed"


LONG = ("collectives", "--backend", "cpu", "--devices", 2, "-b", "256M", "-e", "256M", "-n", 40, "--overwrite", "-o", "long")


def check_progress_comes_between_pieces_of_work(case):
    process = subprocess.Popen([AMDAHL, *map(str, LONG)], cwd=case.folder, env=ENVIRONMENT, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    start = last = time.monotonic()
    gaps = []
    for line in process.stderr:
        now = time.monotonic()
        gaps.append(now - last)
        last = now
        if len(gaps) == 3:
            process.send_signal(signal.SIGINT)
            break
    process.communicate(timeout=60)
    assert len(gaps) == 3 and max(gaps) < 4, f"lines of progress came after {gaps} s, of {time.monotonic() - start:.0f} s"


def check_results_take_the_place_of_progress(case):
    shown = on_terminal(case, "collectives", "--backend", "cpu", "-b", "1K", "-e", "4K", "-n", 5, "-o", "sweep")
    assert re.search(r"\[\d+/\d+\] ", shown), f"no progress: {shown!r}"
    for piece in re.split(r"\r\x1b\[K", shown):
        at = piece.find("ETA ")
        assert at < 0 or "\n" not in piece[at:], f"something follows the progress: {piece!r}"


harness.main(globals())

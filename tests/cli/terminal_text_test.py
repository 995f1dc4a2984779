"""Names and texts of any content never control a terminal: escape sequences, and characters that turn text around or hide it,
are shown escaped in tables, messages, progress, and in data that is printed to a terminal. Data for other programs stay as
they are."""
import json
import os
import pty
import subprocess

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


harness.main(globals())

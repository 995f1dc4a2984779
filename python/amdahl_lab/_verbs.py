"""Runs commands of the program amdahl."""
import json
import os
import subprocess


class Result:
    """The JSON that the program printed."""

    def __init__(self, content):
        self.json = content


def _call(command, positional, options):
    """The result of `amdahl COMMAND --options --json POSITIONAL...`; its stderr is shown as it comes."""
    words = [command]
    for name, value in options.items():
        if value is not None:
            text = ",".join(str(item) for item in value) if isinstance(value, (list, tuple)) else str(value)
            words.append(f"--{name.replace('_', '-')}={text}")
    program = os.environ.get("AMDAHL_LAB_PROGRAM", "amdahl")
    done = subprocess.run([program, *words, "--json", *positional], stdout=subprocess.PIPE, check=True, text=True)
    return Result(json.loads(done.stdout))

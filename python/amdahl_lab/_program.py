"""Runs the program amdahl."""
import json
import os
import subprocess


class Result:
    """The JSON that the program printed."""

    def __init__(self, content):
        self.json = content


def run_program(arguments, environment=None):
    """The result of `amdahl ARGUMENTS...`; its stderr is shown as it comes."""
    program = os.environ.get("AMDAHL_LAB_PROGRAM", "amdahl")
    done = subprocess.run([program, *arguments], env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, check=True,
                          text=True)
    return Result(json.loads(done.stdout))

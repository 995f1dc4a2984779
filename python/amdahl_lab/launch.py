"""Runs a script or module as a rank of `amdahl run`: python -m amdahl_lab.launch SCRIPT ARGS... | -m MODULE ARGS...

The script sees sys.argv, sys.path and __name__ as under python itself. Its steps are marked by `with amdahl_lab.step():`
in it, or without an edit by its first optimizer of PyTorch: a step is then from the end of one optimizer step to the next.
"""
import os
import runpy
import sys

from ._rank import _hooks, _job, _session

USAGE = ("usage: python -m amdahl_lab.launch SCRIPT ARGS...  or  python -m amdahl_lab.launch -m MODULE ARGS...\n"
         "`amdahl run SCRIPT ARGS...` starts it for every rank.")


def main(arguments):
    """Runs what the arguments name and ends with an error if it made too few steps."""
    is_module = arguments[:1] == ["-m"]
    words = arguments[1:] if is_module else arguments
    if not words:
        sys.exit(USAGE)
    name = words[0]
    if not is_module and not os.path.exists(name):
        _job.fail(f"there is no script {name}", "the path of a Python script, or -m and a module")
    session = None
    if _job.active():
        session = _session.current()
        _hooks.install(session.mark)
    run(name, words, is_module)
    if session is not None:
        session.script_ended()


def run(name, words, is_module):
    """The script as __main__; returns when it ends without an error."""
    sys.argv = list(words)
    if not getattr(sys.flags, "safe_path", False):
        folder = os.path.dirname(os.path.realpath(name))
        sys.path[0] = os.getcwd() if is_module else folder
    try:
        if is_module:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(name, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise


if __name__ == "__main__":
    main(sys.argv[1:])

"""Finds the program `amdahl` and runs one of its commands in a process.

A process, not a call of the library: what is measured must not share threads, allocator and CUDA context with the
caller. An interpreter that has imported torch has thread pools that take processors from the measured threads, cached
GPU memory that the program cannot use, and a CUDA context that keeps the GPU from being set up anew.
"""
from __future__ import annotations

import glob
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import IO, Any, Optional

from ._error import Error, parse_error_line

Output = tuple[int, str, list[str], Optional[Error]]  # exit code, stdout, lines of stderr, the error line

# Options that the program takes several times, since a value can contain commas; other lists are joined with commas.
REPEATED = frozenset(("plan", "pair", "nccl", "validate", "single", "multi", "hetero"))
_END_SECONDS = 20  # the program ends within 8 s of SIGINT


def find_program() -> str:
    """Path of the program: AMDAHL_LAB_PROGRAM, else the one of this package, else `amdahl` in PATH. Error of cause
    environment-missing without one."""
    chosen = os.environ.get("AMDAHL_LAB_PROGRAM")
    if chosen:
        if os.path.isfile(chosen) and os.access(chosen, os.X_OK):
            return chosen
        raise Error("environment-missing", f"AMDAHL_LAB_PROGRAM is {chosen}, which is no program",
                    "the path of the program amdahl, or no AMDAHL_LAB_PROGRAM", 3)
    bundled = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "amdahl")
    if os.access(bundled, os.X_OK):
        return bundled
    # The console script of this package is called amdahl too, and would start this function again.
    scripts = os.path.dirname(sys.executable)
    folders = [f for f in os.environ.get("PATH", "").split(os.pathsep) if f and not _holds_console_script(f, scripts)]
    found = shutil.which("amdahl", path=os.pathsep.join(folders))
    if found:
        return found
    raise Error("environment-missing", "the program amdahl is neither in this package nor in PATH",
                "a wheel of amdahl-lab (make wheel), or AMDAHL_LAB_PROGRAM=build/release/bin/amdahl", 3)


def _holds_console_script(folder: str, scripts: str) -> bool:
    path = os.path.join(folder, "amdahl")
    if os.path.abspath(folder) != os.path.abspath(scripts) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def option_words(options: Mapping[str, Any]) -> list[str]:
    """Words of the command line: batch_sizes=[16, 64] is --batch-sizes=16,64; True a flag; None and False nothing."""
    words: list[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        if len(name) == 1:
            words += [f"-{name}"] if value is True else [f"-{name}", _text(name, value)]
            continue
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is True:
            words.append(option)
        elif name in REPEATED and _is_list(value):
            words += [f"{option}={_text(name, one)}" for one in value]
        else:
            words.append(f"{option}={_text(name, value)}")
    return words


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))


def _text(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_text(name, one)}" for key, one in value.items())
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, bytes):
        raise Error("usage", f"{name} is bytes", "text, a path or a number", 2)
    if _is_list(value):
        return ",".join(_text(name, one) for one in value)
    return str(value)


def run_program(words: Sequence[str], echo: bool = True, variables: Optional[Mapping[str, str]] = None) -> Output:
    """Runs the program with these words, and with `variables` in its environment. With `echo`, the lines that it prints
    to stderr go to sys.stderr as they come, but for its error line. KeyboardInterrupt interrupts the program, waits for
    its end and is raised again."""
    command = [find_program(), *words]
    environment = dict(os.environ, **(variables or {}))
    environment["AMDAHL_LAB_CALL"] = str(os.getpid())  # the program ends when this process does
    if folders := nvidia_folders():
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [os.environ.get("LD_LIBRARY_PATH"), *folders]))
    try:
        # A session of its own: a terminal, or a notebook's server, would otherwise interrupt it too, and the second
        # signal ends it at once.
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=environment, start_new_session=True)
    except OSError as error:
        raise Error("environment-missing", f"{command[0]} cannot be started: {error.strerror}",
                    "a program for this machine", 3) from error
    assert child.stdout is not None and child.stderr is not None  # pipes, as asked for
    stdout, stderr = child.stdout, child.stderr
    printed: list[bytes] = []
    reader = threading.Thread(target=lambda: printed.append(stdout.read()), daemon=True)
    lines: list[str] = []
    try:
        reader.start()
        last = _pass_on(stderr, lines, echo)
        code = child.wait()
    except BaseException:
        _end(child, stderr, lines, echo)
        raise
    finally:
        if reader.ident is not None:
            reader.join(_END_SECONDS)
        stdout.close()
        stderr.close()
    return code, b"".join(printed).decode("utf-8", "replace"), lines, _error_of(code, last, lines)


def nvidia_folders() -> list[str]:
    """Where the packages nvidia-* of this interpreter, which torch brings along, have NCCL, cuDNN and cuBLAS."""
    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return []
    places = list(spec.submodule_search_locations or []) if spec else []
    return sorted(folder for place in places for folder in glob.glob(os.path.join(glob.escape(place), "*", "lib")))


def _pass_on(stderr: IO[bytes], lines: list[str], echo: bool) -> Optional[str]:
    """Reads stderr to its end; returns the last error line."""
    last = None
    for raw in stderr:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        lines.append(line)
        if parse_error_line(line):
            last = line
        elif echo:
            print(line, file=sys.stderr, flush=True)
    return last


def _end(child: subprocess.Popen[bytes], stderr: IO[bytes], lines: list[str], echo: bool) -> None:
    """Interrupts the program and waits; kills it, and what it started, when it does not end or a second Ctrl-C
    comes."""
    try:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
        timer = threading.Timer(_END_SECONDS, lambda: _kill_session(child))
        timer.start()
        try:
            _pass_on(stderr, lines, echo)
            child.wait()
        finally:
            timer.cancel()
    except BaseException:
        _kill_session(child)
        raise
    finally:
        _kill_session(child)
        child.wait()


def _kill_session(child: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def _error_of(code: int, line: Optional[str], lines: Sequence[str]) -> Optional[Error]:
    if code == 0:
        return None
    parsed = parse_error_line(line) if line else None
    if parsed:
        return Error(*parsed, code)
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        remedy = "free memory: the kernel kills what takes too much" if name == "SIGKILL" else "the same command again"
        return Error("rank-died", f"the program was ended by {name}", remedy, 128 - code)
    said = next((text for text in reversed(lines) if text.strip()), "nothing on stderr")
    return Error("check-failed" if code == 1 else "internal",
                 f"the program ended with exit code {code}: {said.strip()}", "", code)

"""The commands of the program as functions.

Each runs `amdahl COMMAND --json` in a process of its own (see _program.py for why) and returns a Result. Positional
arguments are the command's; keyword arguments are its options with underscores, values in the program's own units:

    study(model="medium", batch_sizes=[16, 64], output_dir="run")    amdahl study --model=medium --batch-sizes=16,64
    --output-dir=run collectives(b="1K", e="1M", arena=True)                          amdahl collectives -b 1K -e 1M
    --arena

True is a flag, None and False are left out, a list is joined with commas (of plan, pair and other options whose values
can contain commas: given several times). `program_help("study")` returns the options. What the program says while it
works goes to sys.stderr; `quiet=True` stops that. An error of the program is raised as amdahl_lab.Error.
"""
from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from typing import Any, Optional, Union

from ._error import Error
from ._program import option_words, run_program
from ._result import Result

Run = Union[str, "os.PathLike[str]", Result]

# Options with which a command prints text, or writes files, and refuses --json.
_TEXT_OPTIONS = {"report": ("html", "md", "open", "csv", "jsonl", "metrics"), "study": ("dry_run",),
                 "links": ("list", "l")}
_PLACE = re.compile(r"^(?:run: (.+)|report: (.+)/report\.md)$")


def _call(command: str, positional: tuple[Any, ...], options: dict[str, Any], echo: bool = True,
          variables: Optional[Mapping[str, str]] = None) -> Result:
    with tempfile.TemporaryDirectory() as scratch:
        words = [_word_of(one, scratch, index) for index, one in enumerate(positional)]
        is_text = any(options.get(name) not in (None, False) for name in _TEXT_OPTIONS.get(command, ()))
        words = [command, *option_words(options), *([] if is_text else ["--json"]), *words]
        code, printed, lines, error = run_program(words, echo, variables)
    result = _result_of(command, printed, is_text, _run_dir(lines, options), words)
    found_faults = command == "doctor" and result is not None and error is not None and error.cause == "check-failed"
    if error is not None and not found_faults:
        if code == 1 and result is not None and not error.remedy:  # a verdict, which the program prints as its result
            error = Error("check-failed", result.verdict or "a check failed", "what was measured: its .result", 1)
        error.result = result
        raise error
    if result is None:
        raise Error("internal", f"amdahl {command} printed {'no JSON' if printed.strip() else 'no result'}",
                    "the same command in a shell", 1)
    return result


def _result_of(command: str, printed: str, is_text: bool, run_dir: Optional[str], words: list[str]) -> Optional[Result]:
    """None without the JSON that was asked for."""
    if is_text:
        return Result(command, {}, printed, run_dir, words)
    try:
        return Result(command, json.loads(printed), printed, run_dir, words)
    except ValueError:
        return None


def _word_of(value: Any, scratch: str, index: int) -> str:
    """A run's folder; of a result without one, a file of its JSON."""
    if not isinstance(value, Result):
        return os.fspath(value)
    if value.run_dir:
        return value.run_dir
    path = os.path.join(scratch, f"{value.command}-{index}.json")
    value.save(path)
    return path


def _run_dir(lines: list[str], options: dict[str, Any]) -> Optional[str]:
    for name in ("output_dir", "o"):
        if options.get(name):
            return os.path.abspath(options[name])
    for line in reversed(lines):
        found = _PLACE.match(line)
        if found:
            return os.path.abspath(found[1] or found[2])
    return None


def info(**options: Any) -> Result:
    """Version, devices and their links, optional backends; measures nothing. `amdahl info`."""
    return _call("info", (), options)


def doctor(**options: Any) -> Result:
    """What is wrong with this machine, and the command that fixes it. `amdahl doctor`.

    `.json`: "healthy", "findings" (name, what, where and remedy of each), "records" of what was measured. A machine
    with faults is a result, not an Error.
    """
    return _call("doctor", (), options)


def links(**options: Any) -> Result:
    """Bandwidth (GB/s), latency (us) and integrity between the memories of this machine. `amdahl links`."""
    return _call("links", (), options)


def collectives(**options: Any) -> Result:
    """Collectives over a sweep of sizes, every element verified. `amdahl collectives`.

    Series of a record: time (us per call, from trains of calls), call_time (us), algbw and busbw (GB/s), wrong
    (elements).
    """
    return _call("collectives", (), options)


def study(**options: Any) -> Result:
    """One device against several, with a verdict per batch size. `amdahl study`.

    Trains model on each of devices at each of batch_sizes (global batches). Without output_dir the run folder is
    results/local/study-TIME of the current folder. Series of a record: step_time (us) and the parts of a step.
    """
    return _call("study", (), options)


def train(**options: Any) -> Result:
    """Trains a model of this engine to an end. `amdahl train`. `.json` is the record of the last epoch."""
    return _call("train", (), options)


def plan(**options: Any) -> Result:
    """Predicts and ranks plans of parallelism for model and batch_size; verify=True runs them. `amdahl plan`."""
    return _call("plan", (), options)


def compare(baseline: Run, *others: Run, **options: Any) -> Result:
    """Runs or cells ("RUN@devices=2") against a baseline, verdict by statistics. `amdahl compare`.

    Runs are folders, files or Results. With fail_on_regression=3 a run that is slower by more than 3 % raises Error of
    cause check-failed, whose `result` has the comparison.
    """
    return _call("compare", (baseline, *others), options)


def cost(*runs: Run, prices: Optional[Union[str, "os.PathLike[str]"]] = None, **options: Any) -> Result:
    """What the work of runs costs, and break-even sizes of several devices. `amdahl report RUN --prices FILE`.

    prices: a TOML file like data/prices.toml of the repository. None: the table of this package, which has examples to
    edit, not prices.
    """
    return _call("report", runs, {"prices": prices or example_prices(), **options})


def report(*runs: Run, **options: Any) -> Result:
    """The summary of a run from its records. `amdahl report`; html="page.html" writes a page about all runs."""
    result = _call("report", runs, options)
    if len(runs) == 1 and result.run_dir is None:
        one = runs[0]
        folder = one.run_dir if isinstance(one, Result) else os.path.abspath(one)
        result.run_dir = folder if folder and os.path.isdir(folder) else None
    return result


def bench(*commands: str, **options: Any) -> Result:
    """Shell commands against the first, in fresh processes and in turns, with a verdict. `amdahl bench`.

    Series of a record: time (us) and what else was measured of a process.
    """
    return _call("bench", commands, options)


def run(*script: str, variables: Optional[Mapping[str, str]] = None, **options: Any) -> Result:
    """A training script on one device and on several, with a verdict: run("train.py", "--lr", "0.1", devices=[1, 2]), or
    run("-m", "my.training"). `amdahl run`; variables: more of the environment that the script sees.

    Fresh processes for each run, in turns; the script's step is `with amdahl_lab.step():`, or from one step of its optimizer
    to the next. Series of a record as of study().
    """
    options.setdefault("python", sys.executable)
    return _call("run", script, options, variables=variables)


def calibrate(*runs: Run, **options: Any) -> Result:
    """Measures this machine for predictions and writes the file `machine`, which plan() reads. `amdahl calibrate`.

    With runs of five processes or more: how far fresh processes lie apart, which compare() uses.
    """
    return _call("calibrate", runs, options)


def program_help(command: str = "", every: bool = True) -> str:
    """The program's help: of a command, all options with `every`; without a command, the list of commands."""
    code, printed, _, error = run_program([command, "--help-all" if every else "--help"] if command else ["--help"])
    if error is not None:
        raise error
    return printed


def example_prices() -> str:
    """Path of the price table of this package."""
    here = os.path.dirname(os.path.abspath(__file__))
    for path in (os.path.join(here, "share", "prices.toml"), os.path.join(here, "..", "..", "data", "prices.toml")):
        if os.path.exists(path):
            return os.path.normpath(path)
    raise Error("environment-missing", "this installation has no price table", "prices=FILE.toml", 3)

"""The exception of this package, and the error line of the program that it is made from."""
from __future__ import annotations

import re
from typing import Any, Optional

_LINE = re.compile(r"^error\[([a-z-]+)\]: (.*?)(?:; try: (.*))?$")


class Error(RuntimeError):
    """What happened and where, and what to do about it; `str` is one line.

    cause: a name that never changes meaning, such as "usage", "environment-missing", "out-of-memory" or "interrupted"
    (all of them: enum Cause of include/amdahl/error.h, with hyphens). message; remedy: "" without one. exit_code: of
    the program, or the one that it would have had. result: the Result, when the program printed one although it failed,
    for example under `fail_on_regression`; else None.
    """

    def __init__(self, cause: str, message: str, remedy: str = "", exit_code: int = 1, result: Any = None):
        super().__init__(cause, message, remedy, exit_code)
        self.cause = cause
        self.message = message
        self.remedy = remedy
        self.exit_code = exit_code
        self.result = result

    def __str__(self) -> str:
        line = f"{self.cause}: {self.message}" + (f"; try: {self.remedy}" if self.remedy else "")
        return " ".join(line.split())


def parse_error_line(line: str) -> Optional[tuple[str, str, str]]:
    """(cause, message, remedy) of a line "error[cause]: message; try: remedy"; None of any other line."""
    found = _LINE.match(line.strip())
    return (found[1], found[2], found[3] or "") if found else None

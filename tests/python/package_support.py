"""The package in python/ with the program of the build, and the harness of tests/cli, for the scripts in this
folder."""
import os
import pathlib
import sys

SOURCE = pathlib.Path(sys.argv[1]).resolve()
sys.path[:0] = [str(SOURCE / "python"), str(SOURCE / "tests/cli")]
sys.dont_write_bytecode = True

import harness  # noqa: E402

os.environ.update({name: value for name, value in harness.ENVIRONMENT.items()})
for name in set(os.environ) - set(harness.ENVIRONMENT):
    del os.environ[name]
os.environ["AMDAHL_LAB_PROGRAM"] = str(harness.AMDAHL)

import amdahl_lab as lab  # noqa: E402

TINY = {"backend": "cpu", "batch_sizes": 16, "devices": [1, 2], "warmup": 1, "steps": 2}


def refused(cause, call, *positional, says=(), code=None, **options):
    """Expects Error with the cause, one line, a remedy and every text of `says`."""
    try:
        returned = call(*positional, **options)
    except lab.Error as error:
        assert error.cause == cause, f"{error.cause}, not {cause}: {error}"
        assert "\n" not in str(error) and error.remedy and error.remedy in str(error), repr(error)
        assert code is None or error.exit_code == code, f"exit code {error.exit_code}, not {code}: {error}"
        for text in says:
            assert text in str(error), f"'{text}' is not in: {error}"
        return error
    raise AssertionError(f"not refused: {returned!r}")

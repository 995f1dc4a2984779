"""`amdahl`, and `python -m amdahl_lab`: becomes the program of this package."""
import os
import sys

from ._error import Error
from ._program import find_program


def main() -> int:
    try:
        program = find_program()
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        print(f"error[environment-missing]: {program} cannot be started: {error.strerror}; try: a program for this "
              "machine", file=sys.stderr)
        return 3
    except Error as error:
        print(f"error[{error.cause}]: {error.message}; try: {error.remedy}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())

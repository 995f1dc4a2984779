"""`amdahl`, and `python -m amdahl_lab`: becomes the program of this package."""
import os
import sys

from ._error import Error
from ._program import find_program


def main() -> int:
    try:
        program = find_program()
        os.execv(program, [program, *sys.argv[1:]])
    except Error as error:
        print(f"error[{error.cause}]: {error.message}; try: {error.remedy}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())

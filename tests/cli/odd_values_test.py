"""Odd values for every option of every command, also of those that are added later: accepted, or refused in one line that
names the option or the value; and environments and sizes at their limits."""
import random
import re
import shlex
import subprocess

import harness
from harness import AMDAHL, ENVIRONMENT

# With these, an accepted value starts little or no work. The other commands read or refuse at once.
BASE = {
    ("study",): ("--dry-run",),
    ("train",): ("--backend", "cpu", "--epochs", "1", "--batch-size", "64"),
    ("collectives",): ("--backend", "cpu", "--devices", "2", "-e", "64", "-n", "1", "-w", "0"),
    ("links",): ("--backend", "cpu", "-t", "device_to_device_memcpy_read_ce", "-i", "1", "-b", "4k"),
    ("sensor", "bench"): ("--backend", "cpu", "--op", "voxelize", "--points", "100", "--samples", "2"),
}
# Their accepted values take seconds to minutes or write many files.
LEFT_OUT = {("all",), ("calibrate",), ("doctor",), ("info",)}
ODD = ("", " ", "-1", "nan", "inf", "1e999", "0x10", "99999999999999999999", "-9223372036854775808", "9223372036854775807",
       "1..9223372036854775807", "2..8x9223372036854775807", "1,,2", ",", "é", "\x1b[31m", "a\nb", "/", "/dev/full/x", "%s%n",
       "x" * 5000, "`devices`", "--help")
CAUSES = {1: ("check-failed", "non-finite"), 2: ("usage", "data-corrupt", "launcher-mismatch"),
          3: ("environment-missing", "out-of-memory"), 4: ("device-error", "rank-died"), 5: ("store-corrupt", "version-refused"),
          6: ("rank-hung",), 7: ("disk-full",)}
# What the seed chooses; all of them take minutes.
CHOSEN = 120


def value_options(case, words):
    """Options of a command that take a value, from its help."""
    text = case.run(*words, "--help-all").stdout
    found = re.findall(r"^ +(?:-\w, )?(--[a-z][a-z0-9-]*)(?:, --[a-z0-9-]+)*(?:\[=[A-Z]+\]| [A-Z]+)", text, re.MULTILINE)
    return [option for option in found if option not in ("--output-dir", "--output")]


def commands(case):
    case.run("--write-shell-files", "pages")
    return [tuple(page.stem.split("-")[1:]) for page in sorted(case.path("pages/man/man1").iterdir())]


def ends_well(case, words, value):
    """Runs the command; returns what is wrong with its end, or nothing."""
    shown = "amdahl " + " ".join(shlex.quote(word[:60]) for word in words)
    try:
        result = subprocess.run([AMDAHL, *words], cwd=case.folder, env=ENVIRONMENT, capture_output=True, timeout=30,
                                stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"{shown}: not within 30 s"
    except ValueError:  # a NUL byte, which no command line has
        return None
    err = result.stderr.decode(errors="replace")
    if result.returncode == 0:
        return f"{shown}: an error on success: {err}" if "error[" in err else None
    if result.returncode not in CAUSES:
        return f"{shown}: exit code {result.returncode}: {err[-500:]}"
    lines = harness.ERROR_LINE.findall(err)
    if len(lines) != 1 or "; try: " not in lines[0] or "\x1b" in err.replace("\x1b[K", ""):
        return f"{shown}: {len(lines)} error lines: {err[-500:]}"
    cause = re.match(r"error\[([a-z-]+)\]", lines[0])[1]
    if cause not in CAUSES[result.returncode]:
        return f"{shown}: {cause} with exit code {result.returncode}"
    if len(lines[0]) > 1300:
        return f"{shown}: a line of {len(lines[0])} characters"
    return None


def check_every_option_takes_odd_values_or_refuses_them(case):
    everything = []
    for words in commands(case):
        if not words or words in LEFT_OUT:
            continue
        for option in value_options(case, words):
            base = [word for word in BASE.get(words, ())]
            if option in base:  # the odd value takes the place of the small one
                at = base.index(option)
                del base[at:at + 2]
            everything += [([*words, *base, f"{option}={value}"], value) for value in ODD]
    assert len(everything) > 2000, len(everything)
    wrong = [problem for words, value in random.Random(171).sample(everything, CHOSEN)
             if (problem := ends_well(case, words, value))]
    assert not wrong, "\n".join(wrong)


def check_a_refused_value_is_named(case):
    for words, option, value in ((("study",), "--devices", "2..8x9223372036854775807,nine"), (("study",), "--batch-sizes", "nan"),
                                 (("collectives", "--backend", "cpu"), "-b", "nan"), (("collectives", "--backend", "cpu"), "-e", "1e30"),
                                 (("links", "--backend", "cpu"), "-b", "NaN"), (("plan", "--advise"), "--params", "nan")):
        case.refused(2, "usage", *words, option, value, says=[value.split(",")[-1]])


def check_ranges_end_at_the_largest_number(case):
    study = ("study", "--backend", "cpu", "--batch-sizes", "16", "--dry-run", "--devices")
    for value in ("9223372036854775806..9223372036854775807", "-9223372036854775808..0", "-1..9223372036854775807"):
        case.refused(2, "usage", *study, value, timeout=20)
    case.run(*study, "1,2..8x9223372036854775807", timeout=20)


def check_a_host_without_ranks(case):
    for variables, says in (({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "0"}, "LOCAL_WORLD_SIZE=0"),
                            ({"AMDAHL_RANK": "0", "AMDAHL_WORLD_SIZE": "2", "AMDAHL_LOCAL_WORLD_SIZE": "0"}, "AMDAHL_LOCAL_WORLD_SIZE=0"),
                            ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "2147483647", "TORCHELASTIC_USE_AGENT_STORE": "True"},
                             "2147483648")):
        case.refused(2, "launcher-mismatch", "study", *harness.TINY, "--runs", "1", "-o", "r", env=variables, says=[says])


def check_averages_of_bytes_on_many_ranks(case):
    """Sums of u8 above 255 wrap: the expected averages must not need them."""
    case.run("collectives", "--backend", "cpu", "--devices", "20", "--collective", "all_reduce", "-d", "u8", "--op", "avg,prod,sum", "-b", "4k",
             "-e", "4k", "-n", "1", "-w", "0", "-q")


harness.main(globals())

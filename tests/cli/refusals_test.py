"""Input that reads as something else than it says: refused, not guessed at."""
import json

import harness
from harness import TINY

FRACTIONS = {
    ("study",): ("--timeout", "-T", "--rel-ci", "--learning-rate"),
    ("train",): ("--timeout", "-T", "--lr", "--validation"),
    ("collectives",): ("--timeout", "-T", "--transport-timeout"),
    ("links",): ("--timeout", "-T", "--min-gbps"),
    ("doctor",): ("--timeout", "-T", "--min-gbps"),
    ("all",): ("--timeout",),
    ("sensor", "bench"): ("--timeout", "-T", "--voxel-size"),
    ("sensor", "voxelize", "a.bin"): ("--voxel-size",),
    ("sensor", "resample", "a.csv"): ("--rate", "--begin", "--end"),
}


def check_fractions_in_decimal(case):
    for words, options in FRACTIONS.items():
        for option in options:
            for value in ("0x10", "5x", "1e999", "1,5", "five"):
                case.refused(2, "usage", *words, option, value, says=[f"'{value}' is no "])
    case.refused(2, "usage", "sensor", "bench", "--mode", "hetero", "--device-speeds", "1,0x1", says=["0x1"])
    for option in ("-g", "-c"):
        case.refused(2, "usage", "collectives", option, "0x1", says=["0x1"])
    for value in ("+5", "5.", ".5", "5e0"):
        case.run("study", *TINY, "--runs", "1", "-q", "--timeout", value, "--dry-run")


def check_timeout_has_one_letter_everywhere(case):
    for words in (("study",), ("train",), ("collectives", "--backend", "cpu"), ("links", "--backend", "cpu"),
                  ("doctor", "--backend", "cpu"), ("sensor", "bench", "--backend", "cpu")):
        case.refused(2, "usage", *words, "-T", "0", says=["--timeout is 0"])


def model(**fields):
    return json.dumps({"version": 1, "name": "m", "input_width": 4, "layers": [{"units": 3}], **fields})


def check_keys_that_stand_twice(case):
    """Which value counts is not defined: parsers differ."""
    case.write("m.json", model()[:-1] + ', "input_width": 8}')
    words = ("train", "--backend", "cpu", "-q", "--epochs", "1", "--model")
    case.refused(2, "usage", *words, "m.json", "-o", "t", says=["m.json", "'input_width' stands twice"])
    case.write("m.json", model(layers=[]).replace("[]", '[{"units": 3, "bias": true, "units": 5}]'))
    case.refused(2, "usage", *words, "m.json", "-o", "t", says=["'units' stands twice"])
    case.write("m.json", model(layers=[{"units": 3}, {"units": 3}]))  # of two objects
    case.run(*words, "m.json", "-o", "t")
    case.run("study", *TINY, "--runs", "2", "-q", "-o", "r")
    lines = [json.dumps(line) for line in harness.lines_of(case.path("r"))]
    lines[3] = lines[3][:-1] + ',"kind":"study-run"}'
    case.write("r/records.jsonl", "\n".join(lines) + "\n")
    case.refused(5, "store-corrupt", "report", "r", says=["records.jsonl:4", "'kind' stands twice"])
    summary = case.path("r/summary.json").read_text()
    case.write("s.json", summary.rstrip()[:-1] + ', "version": 1}')
    case.refused(2, "usage", "compare", "s.json", "s.json", says=["s.json", "'version' stands twice"])


def check_names_that_no_table_holds(case):
    words = ("train", "--backend", "cpu", "-q", "--epochs", "1", "-o", "t", "--model")
    case.write("m.json", model(name=""))
    case.refused(2, "usage", *words, "m.json", says=["field 'name' is empty"])
    case.write("m.json", model(name="n" * 100_000))
    error = case.refused(2, "usage", *words, "m.json", says=["field 'name' has 100000 bytes"]).stderr
    assert len(error) < 1000
    case.run("study", *TINY, "--runs", "2", "-q", "-o", "r")
    prices = '[[device]]\nmatch = "CPU"\nhourly_price = 1\nnote = "{}"\n'
    case.write("p.toml", prices.format("n" * 100_000))
    case.refused(2, "usage", "report", "r", "--prices", "p.toml", says=["p.toml:4", "note has 100000 bytes"])
    assert not case.path("t").exists()


harness.main(globals())

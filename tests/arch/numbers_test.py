"""The tables of results in README, docs/planner.md and results/h100/models say what the Records in results/ say, rounded
as shown.

usage: numbers_test.py SOURCE_DIR [BINARY_DIR]
"""
import gzip
import json
import os
import re
import statistics
import sys

NUMBER = re.compile(r"(?<![\w.])-?\+?\d[\d,]*(?:\.\d+)?")


def lines_of(path):
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="utf-8")
    with opened as file:
        return [json.loads(line) for line in file if line.startswith("{")]


class Study:
    """Medians over the runs of the cells of a study."""

    def __init__(self, path):
        self.cells = {}
        for line in lines_of(path):
            if line.get("type") == "record" and line["status"]["kind"] == "ok":
                axes = line["axes"]
                runs = self.cells.setdefault((axes["global_batch"], axes["devices"], axes["strategy"]), {})
                for series in line["series"]:
                    runs.setdefault(series["name"], []).append(statistics.median(series["samples"]))

    def get(self, batch, devices, strategy="single", series="step_time"):
        return statistics.median(self.cells[(batch, devices, strategy)][series])


def table_under(text, header):
    """Rows of cells of the table whose header line begins so."""
    begin = text.index(header)
    rows = []
    for line in text[begin:].splitlines()[2:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
    return rows


def numbers(cells):
    """(value, half a unit of the last digit) of each number that these cells show."""
    for cell in cells:
        for word in NUMBER.findall(re.sub(r"FSDP2", "", cell)):
            digits = word.replace(",", "")
            decimals = len(digits.split(".")[1]) if "." in digits else 0
            yield float(digits), 0.5 * 10 ** -decimals


def differences(where, cells, expected):
    shown = list(numbers(cells))
    if len(shown) != len(expected):
        return [f"{where}: {len(shown)} numbers, {len(expected)} expected: {cells}"]
    return [f"{where}: {value:g} is shown, the Records say {true:.6g}" for (value, half), true in zip(shown, expected)
            if abs(value - true) > half * 1.001]


def training(root, text):
    """One, two and four H200 beside PyTorch."""
    peer = {(p["model"], p["batch"], p["devices"], p["mode"]): p["us"] for p in lines_of(f"{root}/results/h200/torch.jsonl.gz")}
    rows = table_under(text, "| model | global batch | 1 GPU |")
    problems = [] if len(rows) == 6 else [f"{len(rows)} rows of H200s"]
    for row in rows:
        model, _, strategy = row[0].partition(", ")
        batch, several = int(row[1]), strategy or "ddp"
        study = Study(f"{root}/results/h200/{model}{'-zero1' if several == 'zero1' else ''}/records.jsonl.gz")
        one = study.get(batch, 1)
        expected = [one]
        for devices in (2, 4):
            expected += [study.get(batch, devices, several), one / study.get(batch, devices, several)]
        if several == "ddp":
            expected += [peer[(model, batch, 1, "graph")], peer[(model, batch, 2, "ddp")], peer[(model, batch, 4, "ddp")]]
        problems += differences(f"H200, {row[0]}, {batch}", row[2:], expected)
    return problems


def plans(root, text):
    """GPT-2 over two and four H100 beside PyTorch."""
    folder = f"{root}/results/h100/plans"
    names = {"DDP": "ddp", "FSDP2": "fsdp2", "DTensor": "tp", "pipelining": "pp-1f1b"}
    problems = []
    for header, devices, batch, files, peers in (
            ("| plan | amdahl | against one GPU |", 2, 32, ["gpt2-two"], "torch-two.jsonl"),
            ("| plan | step, ms | against one GPU |", 4, 64, ["gpt2-four", "gpt2-four-stages"], "torch-four.jsonl")):
        studies = [Study(f"{folder}/{name}.jsonl.gz") for name in files]
        torch = {}
        for line in lines_of(f"{folder}/{peers}"):
            if line["model"] == "gpt2" and line["batch"] == batch:
                torch.setdefault(line["plan"], []).append(line["step_us"])
        rows = table_under(text, header)
        problems += [] if len(rows) in (5, 8) else [f"{len(rows)} rows of {devices} GPUs"]
        for row in rows:
            plan = row[0].removesuffix(" (ddp)")
            strategy = {f"dp{devices}": "ddp"}.get(plan, plan.removeprefix(f"dp{devices},"))
            study = next(s for s in studies if (batch, devices, strategy) in s.cells)
            step, one = study.get(batch, devices, strategy), study.get(batch, 1)
            of_step = lambda series: 100 * study.get(batch, devices, strategy, series) / step
            expected = [step / 1e3, one / step, 100 * one / step / devices, of_step("exposed_communication")]
            if devices == 4:
                expected.append(of_step("waiting"))
            if "bubble" in " ".join(row):
                expected.append(100 * study.get(batch, devices, strategy, "bubble_measured"))
            peer = next((torch[names[word]] for word in names if any(cell.startswith(word) for cell in row)), [])
            expected += [us / 1e3 for us in sorted(peer)] + [us / step for us in sorted(peer)]
            problems += differences(f"GPT-2 over {devices}, {plan}", row[1:], expected)
    return problems


def models(root, text):
    """Sequence models and images on one H100 beside PyTorch's best, in README and in the page of the results."""
    names = {"GPT-2": "gpt2", "LSTM": "lstm", "GRU": "gru", "transformer": "transformer", "ResNet-18": "resnet18"}
    best = {}
    for line in lines_of(f"{root}/results/h100/models/torch.jsonl"):
        if "world" in line:
            best[("gpt2", "bf16", line["B"])] = line["step_ms"] * 1e3
        else:
            best[(line["model"], line["math"], line["batch"])] = min(us for name, us in line.items() if name.endswith("_us"))
    page = open(f"{root}/results/h100/models/README.md", encoding="utf-8").read()
    rows = table_under(text, "| model | math | batch | amdahl |")
    problems = [] if len(rows) == 5 else [f"{len(rows)} rows of models"]
    for row in rows + table_under(page, "| model | math | batch | amdahl |"):
        model, math = names.get(re.split(r"[ ,]", row[0])[0], row[0]), row[1]
        batches = [int(batch) for batch in row[2].split(" / ")]
        with gzip.open(f"{root}/results/h100/models/{model}-{math}.json.gz", "rt") as file:
            ours = {cell["key"]["global_batch"]: cell["step_time_us"]["median"] for cell in json.load(file)["cells"]}
        peer = [best[(model, math, batch)] for batch in batches]
        ours = [ours[batch] for batch in batches]
        problems += differences(f"H100, {row[0]}, {math}, {row[2]}", row[3:], ours + peer + [a / b for a, b in zip(peer, ours)])
    return problems


def sentences(root, text):
    """Numbers of the list below the tables; `text` has one blank between words."""
    folder = f"{root}/results/h100/plans"
    weak, transformer = Study(f"{folder}/gpt2-weak-four.jsonl.gz"), Study(f"{folder}/transformer-four.jsonl.gz")
    large, symmetric = Study(f"{folder}/large-6.9m-four.jsonl.gz"), Study(f"{folder}/large-6.9m-four-symmetric.jsonl.gz")
    torch = {line["batch"]: line["step_us"] for line in lines_of(f"{folder}/torch-four.jsonl")
             if line["model"] == "large-6.9m" and line["plan"] == "ddp"}
    gain = {n: weak.get(32 * n, n, "ddp", "throughput") / weak.get(32, 1, series="throughput") for n in (2, 4)}
    tp4, one = symmetric.get(64, 4, "tp4"), symmetric.get(64, 1)
    problems = []
    for pattern, expected in (
            (r"two are ([\d.]+)x and four ([\d.]+)x as fast as one \((\d+) and (\d+) %\)",
             [gain[2], gain[4], 50 * gain[2], 25 * gain[4]]),
            (r"batch 1024 is ([\d.]+)x as fast on four", [transformer.get(1024, 1) / transformer.get(1024, 4, "zero1")]),
            (r"batch 8192 (\d+) us under ZeRO 1 \(([\d.]+)x; PyTorch's DDP ([\d,]+)\)",
             [large.get(8192, 4, "zero1"), large.get(8192, 1) / large.get(8192, 4, "zero1"), torch[8192]]),
            (r"gains: (\d+) us, one GPU (\d+) \(([\d.]+)x; PyTorch's DDP ([\d,]+)\)", [tp4, one, one / tp4, torch[64]])):
        found = re.search(pattern, text)
        problems += differences(pattern, found.groups(), expected) if found else [f"README has nothing like {pattern}"]
    return problems


def predictions(root, text, readme):
    """Errors of the plans of two and four GPUs, from the predicted and measured times beside them."""
    errors, problems, model, devices = {2: [], 4: []}, [], "", 0
    for row in table_under(text, "| model, batch | GPUs | plan | predicted |"):
        model, devices = row[0] or model, int(row[1] or devices)
        (predicted, _), (measured, half) = list(numbers(row[3:5]))
        error = 100 * (predicted / measured - 1)
        errors[devices].append(abs(float(next(numbers([row[5]]))[0])))
        if abs(next(numbers([row[5]]))[0] - error) > 0.06 + 100 * half / measured:
            problems.append(f"planner.md: {model}, {row[2]}: {row[5]} of {row[3]} and {row[4]}")
    medians = [statistics.median(errors[2] + errors[4]), statistics.median(errors[2]), statistics.median(errors[4])]
    text = " ".join(text.split())
    shown = re.search(r"Median ([\d.]+) % over the 25 \(bar 5 %\): ([\d.]+) % over the 11 of two GPUs, ([\d.]+) % over the 14",
                      text)
    problems += differences("planner.md, medians", shown.groups(), medians) if shown else ["planner.md has no such medians"]
    shown = re.search(r"25 cells of two and four GPUs .* with a median error of ([\d.]+) %", readme)
    return problems + (differences("README, median", shown.groups(), medians[:1]) if shown else ["README has no such median"])


def main():
    root = os.path.abspath(sys.argv[1])
    readme = open(f"{root}/README.md", encoding="utf-8").read()
    planner = open(f"{root}/docs/planner.md", encoding="utf-8").read()
    if not differences("x", ["1.5x"], [1.44]) or differences("x", ["1,043.3 (0.5x)"], [1043.32, 0.52]):
        print("this test does not work")
        return 1
    words = " ".join(readme.split())
    problems = training(root, readme) + plans(root, readme) + models(root, readme) + sentences(root, words)
    problems += predictions(root, planner, words)
    print("\n".join(problems + [f"{len(problems)} problems"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

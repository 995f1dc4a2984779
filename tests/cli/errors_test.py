"""Wrong input: one clear line (what, where, remedy), the documented exit code, and nothing measured is lost."""
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import time

source, binary = map(pathlib.Path, sys.argv[1:3])
AMDAHL = binary / "bin/amdahl"
DIGITS = source / "data/digits.csv"
failures = []


def with_options(arguments, **changes):
    """The arguments with some options given other values."""
    result = list(arguments)
    for name, value in changes.items():
        option = "--" + name.replace("_", "-")
        if option in result:
            result[result.index(option) + 1] = value
        else:
            result += [option, value]
    return result


def run(*arguments, cwd=None, env=None, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "SLURM_", "WORLD", "RANK"))}
    environment.update(env or {})
    return subprocess.run([str(AMDAHL), *map(str, arguments)], capture_output=True, text=True, cwd=cwd, env=environment,
                          timeout=120, **options)


def expect(name, code, words, *arguments, **options):
    """Exit code, and one line 'error[cause]: ...' that holds every word."""
    done = run(*arguments, **options)
    lines = [line for line in done.stderr.splitlines() if line.startswith("error[")]
    missing = [word for word in words if lines and word not in lines[0]]
    if done.returncode != code or len(lines) != 1 or missing:
        failures.append(f"{name}: exit {done.returncode} (want {code}), missing {missing}\n{done.stderr[-600:]}")
    return done


def csv(folder, name, text):
    path = pathlib.Path(folder, name)
    path.write_text(text)
    return path


QUICK = ["study", "-q", "--runs", "2", "--steps", "2", "--warmup", "5", "--devices", "1,2", "--batch-sizes", "16"]


def usage_errors(tmp):
    out = pathlib.Path(tmp, "never")
    has_gpu = "cuda     ok" in run("info").stdout or "cuda    ok" in run("info").stdout
    if not has_gpu:
        expect("cuda without GPU", 3, ["cuda"], *QUICK, "--backend", "cuda", "-o", out)
        expect("gpus without GPU", 3, ["cuda"], *QUICK, "--gpus", "0", "-o", out)
    cpu = [*QUICK, "--backend", "cpu", "-o", out]
    expect("unknown model", 2, ["medum", "medium"], *cpu, "--model", "medum")
    expect("unknown strategy", 2, ["dpp", "ddp"], *cpu, "--strategy", "dpp")
    expect("unknown mode", 2, ["mode"], *cpu, "--mode", "both")
    expect("unknown scaling", 2, ["--scaling", "weak"], *cpu, "--scaling", "week")
    expect("unknown optimizer", 2, ["optimizer", "adam"], *cpu, "--optimizer", "adm")
    expect("unknown option", 2, ["--batchsizes"], *cpu, "--batchsizes", "16")
    expect("unknown command", 2, ["--help"], "studdy")
    expect("graph on CPU", 2, ["graph", "eager"], *cpu, "--launch", "graph")
    expect("tf32 on CPU", 2, ["tf32", "fp32"], *cpu, "--math", "tf32")
    expect("batch below devices", 2, ["batch 2", "4"], *with_options(cpu, batch_sizes="2", devices="4"))
    for option, value in [("--runs", "0"), ("--steps", "-1"), ("--batch-sizes", "0"), ("--devices", "-2"), ("--accumulate", "0"),
                          ("--timeout", "0"), ("--bucket-mb", "0"), ("--learning-rate", "-1")]:
        expect(f"{option} {value}", 2, [option], *with_options(cpu, **{option[2:].replace("-", "_"): value}))
    expect("resume without folder", 2, ["--output-dir"], "study", "--resume")
    expect("output under a file", 2, ["amdahl"], *QUICK, "--backend", "cpu", "-o", AMDAHL / "below")
    expect("advise without subject", 2, ["--params"], "advise")
    expect("broken model file", 2, ["layers"], *cpu, "--model", csv(tmp, "m.json", '{"version":1,"name":"m","input_width":4,"layers":3}'))
    expect("newer model file", 5, ["version"], *cpu, "--model", csv(tmp, "v.json", '{"version":99,"name":"m","input_width":4,"layers":[]}'))
    if out.exists():
        failures.append("a refused study left a folder")


def data_errors(tmp):
    base = [*QUICK, "--backend", "cpu", "-o", pathlib.Path(tmp, "no")]

    def data(name, code, words, text, target="y"):
        expect(name, code, words, *base, "--data", csv(tmp, "d.csv", text), "--target", target)

    rows = "".join(f"{i},{i % 7},{i % 3}\n" for i in range(40))
    data("ragged", 2, ["d.csv", "42"], "a,b,y\n" + rows + "1,2\n")
    data("empty", 2, ["d.csv"], "")
    data("header only", 2, ["d.csv"], "a,b,y\n")
    data("stray word", 2, ["d.csv", "42", "b"], "a,b,y\n" + rows + "1,oops,2\n")
    data("missing value", 2, ["d.csv", "42", "--missing"], "a,b,y\n" + rows + "1,,2\n")
    data("nan", 1, ["d.csv", "42"], "a,b,y\n" + rows + "1,nan,2\n")
    data("unknown column", 2, ["'z'"], "a,b,y\n" + rows, target="z")
    expect("no such file", 2, ["none.csv"], *base, "--data", pathlib.Path(tmp, "none.csv"), "--target", "y")
    expect("no target", 2, ["--target"], *base, "--data", DIGITS)
    expect("diverging loss", 1, ["loss", "--learning-rate"], "study", "-q", "--backend", "cpu", "--runs", "1", "--devices", "1",
           "--batch-sizes", "16", "--optimizer", "sgd", "--learning-rate", "1e20", "-o", pathlib.Path(tmp, "diverged"))


def launcher_errors(tmp):
    cpu = [*QUICK, "--backend", "cpu", "-o", pathlib.Path(tmp, "launched")]
    disagree = {"RANK": "0", "WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}
    expect("launchers disagree", 2, ["torchrun"], *cpu, env=disagree)
    start = time.monotonic()
    alone = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29711"}
    expect("a rank that never comes", 4, ["rank 1"], *cpu, "--timeout", "2", env=alone)
    if time.monotonic() - start > 15:
        failures.append("waited far beyond the timeout")


def records_of(folder):
    lines = pathlib.Path(folder, "records.jsonl").read_text().splitlines()
    return [r for r in map(json.loads, lines) if r["type"] == "record"]


def run_folders(tmp):
    folder = pathlib.Path(tmp, "run")
    plan = ["study", "-q", "--backend", "cpu", "--runs", "12", "--steps", "40", "--devices", "1,2", "--batch-sizes", "64,256",
            "-o", folder]
    for number, code in [(signal.SIGINT, 130), (signal.SIGKILL, -9), (signal.SIGTERM, 143)]:
        process = subprocess.Popen([str(AMDAHL), *map(str, plan), *(["--resume"] if folder.exists() else [])],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        before = 0 if not folder.exists() else len((folder / "records.jsonl").read_text().splitlines())
        while process.poll() is None:
            if (folder / "records.jsonl").exists() and \
                    len((folder / "records.jsonl").read_text().splitlines()) >= before + 5:
                break
            time.sleep(0.01)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        if process.returncode != code:
            failures.append(f"signal {number}: exit {process.returncode} (want {code})\n{errors[-400:]}")
    expect("another configuration", 2, ["steps"], *[a if a != "40" else "41" for a in plan], "--resume")
    done = run(*plan, "--resume")
    keys = [(r["axes"]["global_batch"], r["axes"]["devices"], r["axes"]["run"]) for r in records_of(folder)]
    if done.returncode or len(keys) != 48 or len(set(keys)) != 48:
        failures.append(f"resume: exit {done.returncode}, {len(keys)} records, {len(set(keys))} distinct\n{done.stderr[-400:]}")
    expect("a folder that holds a run", 2, ["--resume"], *plan)

    first = {name: (folder / name).read_bytes() for name in ("report.md", "summary.json")}
    run("report", folder)
    if any((folder / name).read_bytes() != content for name, content in first.items()):
        failures.append("report: rebuilding changed the files")
    records = folder / "records.jsonl"
    whole = records.read_text()
    records.write_text(whole + '{"type":"rec')
    if run("report", folder).returncode != 0:
        failures.append("report: a truncated last line must be tolerated")
    lines = whole.splitlines(keepends=True)
    records.write_text("".join(lines[:10] + ["garbage\n"] + lines[10:]))
    expect("corrupt record", 5, ["records.jsonl", "11"], "report", folder)
    expect("corrupt record in compare", 5, ["records.jsonl"], "compare", folder, folder)
    records.write_text(whole.replace('"version":1', '"version":99', 1))
    expect("newer schema", 5, ["99"], "report", folder)
    records.write_text(lines[0])
    expect("nothing measured", 5, ["measured"], "report", folder)
    expect("no run there", 2, ["amdahl-none"], "report", pathlib.Path(tmp, "amdahl-none"))


def full_disk(tmp):
    folder = pathlib.Path(tmp, "full")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    expect("full disk", 7, ["records.jsonl"], "study", "-q", "--backend", "cpu", "--runs", "30", "--steps", "2", "--devices", "1",
           "--batch-sizes", "16", "-o", folder, preexec_fn=limit)
    if not records_of(folder):
        failures.append("full disk: the records before it are gone")


with tempfile.TemporaryDirectory() as scratch:
    for part in (usage_errors, data_errors, launcher_errors, run_folders, full_disk):
        part(scratch)
print("\n".join(failures) or "errors: ok")
sys.exit(1 if failures else 0)

"""Every wrong input ends with one line that says what, where and what to do, the right exit code, and no loss of data."""
import json
import time

import harness
from harness import DIGITS, TINY, Skip, lines_of, records_of


def without_gpu(case):
    backends = json.loads(case.run("info", "--json").stdout)["backends"]
    if next(backend for backend in backends if backend["name"] == "cuda")["ok"]:
        raise Skip("this machine has a GPU")


def check_gpu_asked_for_without_one(case):
    without_gpu(case)
    case.refused(3, "environment-missing", "study", "--backend", "cuda", says=["cuda"])
    case.refused(3, "environment-missing", "study", "--gpus", "0", says=["cuda"])
    case.refused(3, "environment-missing", "train", "--gpus", "0,1", says=["cuda"])
    case.refused(2, "usage", "study", "--backend", "cpu", "--gpus", "0", says=["--gpus"])
    assert not case.path("results").exists(), "a refused study leaves a folder"


def check_more_devices_than_rows(case):
    case.refused(2, "usage", "study", "--batch-sizes", "2", "--devices", "1,4", "-o", "r", says=["batch 2", "4 devices"])
    case.refused(2, "usage", "train", "--batch-size", "2", "--devices", "4", "-o", "r", says=["batch 2", "4 devices"])
    case.refused(2, "usage", "study", "--batch-sizes", "4", "--devices", "2", "--plan", "m4", "-o", "r",
                 says=["4 micro-batches"])
    assert not case.path("r").exists(), "a refused study leaves a folder"


def check_unknown_names(case):
    wrong = [
        (("study", "--model", "mediun"), ["'mediun'", "--model medium, or"]),
        (("study", "--model", "missing.json"), ["missing.json"]),
        (("study", "--plan", "zer1"), ["'zer1'", "--plan zero1, or"]),
        (("study", "--mode", "mult"), ["'mult'", "--mode multi,"]),
        (("study", "--scaling", "wek"), ["'wek'", "--scaling weak,"]),
        (("study", "--optimizer", "adm"), ["'adm'", "--optimizer adam,"]),
        (("study", "--launch", "grph"), ["'grph'", "--launch graph,"]),
        (("study", "--math", "tf23"), ["'tf23'", "--math tf32,"]),
        (("study", "--backend", "cudda"), ["'cudda'", "--backend cuda,"]),
        (("study", "--batchsizes", "16"), ["'--batchsizes'", "--batch-sizes"]),
        (("study", "--run=5"), ["'--run'", "--runs"]),
        (("train", "--epoch", "3"), ["'--epoch'", "--epochs"]),
        (("train", "--plan", "zer1"), ["'zer1'", "--plan zero1, or"]),
        (("train", "--optimizer", "sgdd"), ["'sgdd'", "sgd"]),
        (("studdy",), ["'studdy'", "study"]),
        (("--vershon",), ["'--vershon'", "--version"]),
        (("info", "b"), ["'b'", "amdahl info --help"]),
        (("plan", "--params", "1M", "--advise=studi"), ["'studi'", "study"]),
        (("plan", "--advise"), ["--params"]),
        (("compare", "a"), ["b"]),
    ]
    for words, says in wrong:
        case.refused(2, "usage", *words, says=says)
    assert not case.path("results").exists(), "a refused command leaves a folder"


def check_unknown_columns(case):
    case.refused(2, "usage", "train", "--data", DIGITS, "--target", "lable", says=["'lable'", "'label'?", "digits.csv"])
    case.refused(2, "usage", "train", "--data", DIGITS, says=["target", "digits.csv"])
    case.refused(2, "usage", "train", "--target", "label", says=["--data"])
    case.refused(2, "usage", "train", "--data", "none.csv", "--target", "y", says=["none.csv"])
    case.refused(2, "usage", "train", "--data", DIGITS, "--target", "label", "--data-options", "missing=dropp", says=["missing=drop"])


def check_bad_csv(case):
    rows = "".join(f"{i},{i * 2},{i % 2}\n" for i in range(30))
    bad = [
        ("ragged.csv", "a,b,y\n1,2,0\n1,2\n" + rows, 2, "data-corrupt", ["line 3", "2 fields"]),
        ("long.csv", "a,b,y\n1,2,0\n1,2,3,4\n" + rows, 2, "data-corrupt", ["line 3", "4 fields"]),
        ("empty.csv", "", 2, "data-corrupt", ["empty"]),
        ("header.csv", "a,b,y\n", 2, "data-corrupt", []),
        ("word.csv", "a,b,y\n" + rows + "7,oops,1\n", 2, "data-corrupt", ["line 32", "'b'", "oops"]),
        ("hole.csv", "a,b,y\n" + rows + "7,,1\n", 2, "data-corrupt", ["line 32", "'b'", "missing"]),
        ("nan.csv", "a,b,y\n" + rows + "7,nan,1\n", 2, "data-corrupt", ["line 32", "'b'", "nan", "--data-options missing"]),
        ("inf.csv", "a,b,y\n" + rows + "7,1e99,1\n", 1, "non-finite", ["line 32", "'b'", "1e99"]),
        ("binary.csv", "a,b,y\n1,\0,3\n", 2, "data-corrupt", ["line 2"]),
        ("quote.csv", 'a,b,y\n1,"2,3\n' + rows, 2, "data-corrupt", ["line 2"]),
        ("twice.csv", "a,a,y\n" + rows, 2, "data-corrupt", ["'a'"]),
    ]
    for name, text, code, cause, says in bad:
        case.write(name, text)
        for verb in ("train", "study"):
            case.refused(code, cause, verb, "--data", name, "--target", "y", "-o", "r", says=[name, *says])
    assert not case.path("r").exists(), "refused data leaves a folder"
    case.write("short.csv", "a,b,y\n" + rows)
    case.refused(2, "usage", "train", "--data", "short.csv", "--target", "y", "--batch-size", "100", "-o", "r",
                 says=["batch 100", "rows"])
    assert not case.path("r").exists(), "a batch larger than the data leaves a folder"


def check_timeouts(case):
    for timeout in ("0", "-1", "nan", "inf", "1e7"):
        case.refused(2, "usage", "study", *TINY, "--timeout", timeout, "-o", "r", says=["--timeout"])
        case.refused(2, "usage", "train", "--timeout", timeout, "-o", "r", says=["--timeout"])
    assert not case.path("r").exists(), "a refused study leaves a folder"
    # Far too short: ends as a hang, and touches no memory that is gone.
    for timeout in ("1e-9", "0.0001", "0.001"):
        result = case.run("study", "--backend", "cpu", "--model", "large", "--devices", "1,2", "--batch-sizes", "512", "-q",
                          "--warmup", "1", "--steps", "1", "--runs", "1", "--timeout", timeout, "-o", "t" + timeout, code=6)
        harness.check_error(result.stderr, "rank-hung")
    study = ("study", *TINY, "--runs", "1", "-q", "-o", "long")
    case.run(*study, "--timeout", "1e6")


def check_regression_limits(case):
    for limit in ("-1", "nan", "inf", "101"):
        case.refused(2, "usage", "compare", "a", "b", "--fail-on-regression", limit, says=["--fail-on-regression"])


def check_huge_models(case):
    def model(width, units, layers=1):
        return json.dumps({"version": 1, "name": "m", "input_width": width,
                           "layers": [{"units": units}] * layers + [{"units": 3}]})
    for text, says in ((model(1 << 40, 8), "input_width"), (model(8, 1 << 60), "units"), (model(8, 8, 5000), "layers")):
        case.write("m.json", text)
        case.refused(2, "usage", "study", "--backend", "cpu", "--model", "m.json", "-o", "r", says=[says, "at most"])


def check_nothing_fits(case):
    case.write("m.json", json.dumps({"version": 1, "name": "m", "input_width": 1 << 22,
                                     "layers": [{"units": 1 << 22}, {"units": 1}]}))
    result = case.run("study", "--backend", "cpu", "--model", "m.json", "--devices", "1", "--batch-sizes", "1", "--runs", "1",
                      "-q", "-o", "r", code=3)
    harness.check_error(result.stderr, "out-of-memory")


def check_a_model_that_does_not_fit_is_refused_with_its_parts(case):
    """Before anything is allocated: the message says what needs the memory, and what would need less."""
    result = case.run("train", "--backend", "cpu", "--model", "gpt2", "--devices", "2", "--batch-size", "6144", "--epochs",
                      "1", "-q", "-o", "r", code=3)
    harness.check_error(result.stderr, "out-of-memory",
                        ["gpt2", "3072 rows per device", "parameters 497.9 MB", "gradients 497.9 MB", "optimizer 995.8 MB",
                         "activations", "workspace", "data", "free for 2 devices", "a smaller batch", "--plan mN",
                         "--plan recompute=block", "--plan zero1"])
    result = case.run("train", "--backend", "cpu", "--model", "gpt2", "--batch-size", "6144", "--plan", "recompute=block",
                      "--epochs", "1", "-q", "-o", "s", code=3)
    assert "recompute" not in result.stderr and "zero1" not in result.stderr, result.stderr


def check_layers_that_do_not_chain(case):
    def model(*layers, shape=(8, 3)):
        width = 1
        for extent in shape:
            width *= extent
        return json.dumps({"version": 1, "name": "m", "input_width": width, "input_shape": list(shape), "layers": list(layers)})
    last = {"units": 2}
    lstm = {"kind": "lstm", "units": 8, "last_step_only": True}
    for text, says in ((model(lstm, {"kind": "pool"}, last), ["layer 1 (pool)", "[8]"]),
                       (model({"kind": "conv", "units": 4}, last), ["layer 0 (conv)", "[8, 3]"]),
                       (model({"kind": "projection", "units": 9}, {"kind": "transformer_block", "units": 9, "heads": 2}, last),
                        ["layer 1 (transformer_block)", "2 heads"]),
                       (model(last, lstm), ["layer 1 (lstm)", "[2]"])):
        case.write("m.json", text)
        for verb in ("train", "study"):
            case.refused(2, "usage", verb, "--backend", "cpu", "--model", "m.json", "-o", "r", says=["m.json", *says])


def check_ignored_columns(case):
    rows = "".join(f"row{i},{i % 7},{(i * 5) % 11},{i % 2}\n" for i in range(200))
    case.write("d.csv", "id,a,b,y\n" + rows)
    words = ("--backend", "cpu", "--data", "d.csv", "--target", "y", "--epochs", "1", "-q")
    case.run("train", *words, "--data-options", "ignore=id", "-o", "r")
    case.refused(2, "usage", "train", *words, "--data-options", "ignore=ib", "-o", "s", says=["'ib'", "'id'?"])
    case.refused(2, "usage", "train", *words, "--data-options", "ignore=y", "-o", "s", says=["'y'", "twice"])
    case.refused(2, "usage", "train", "--data-options", "ignore=id", "-o", "s", says=["--data-options ignore", "--data"])


def check_diverging_validation(case):
    # The last step of the only epoch overflows: the loss of the epoch was finite, that of the validation is not.
    rows = "".join(f"{i % 3},{i % 5},{(i % 4) * 1e18}\n" for i in range(100))
    case.write("d.csv", "a,b,y\n" + rows)
    case.refused(1, "non-finite", "train", "--backend", "cpu", "--data", "d.csv", "--target", "y", "--optimizer", "sgd", "--lr",
                 "1000", "--epochs", "1", "--batch-size", "40", "--validation", "0.5", "-q", "-o", "r", says=["epoch 1"])


def check_damaged_records(case):
    case.run("study", *TINY, "--runs", "3", "-q", "-o", "good")
    lines = harness.unchained((case.path("good") / "records.jsonl").read_text()).splitlines()
    number = next(i for i, line in enumerate(lines) if '"type":"record"' in line)
    record = json.loads(lines[number])

    def damaged(change):
        changed = json.loads(lines[number])
        change(changed)
        return json.dumps(changed, separators=(",", ":"))

    bad = {
        "1e999": lines[number].replace(f'"run":{record["axes"]["run"]}', '"run":1e999'),
        "text": damaged(lambda r: r["series"][0].update(samples=["12"])),
        "escape": lines[number][:40] + "\x1b[31m" + lines[number][41:],
        "no axis": damaged(lambda r: r["axes"].pop("devices")),
        "axis of another type": damaged(lambda r: r["axes"].update(global_batch="16")),
        "huge count": damaged(lambda r: r["axes"].update(devices=2**63 - 1)),
        "huge sample": damaged(lambda r: r["series"][0].update(samples=[1e308])),
        "negative time": damaged(lambda r: r["series"][0].update(samples=[-1])),
        "long text": damaged(lambda r: r.update(origin="x" * 100_000)),
        "text of escapes": damaged(lambda r: r.update(origin="\x1b[31m")),
        "twice": lines[number] + "\n" + lines[number],
        "no series": damaged(lambda r: r.update(series=[])),
    }
    for name, line in bad.items():
        assert line != lines[number], name
        folder = case.path("bad " + name)
        folder.mkdir()
        (folder / "records.jsonl").write_text("\n".join([*lines[:number], line, *lines[number + 1:]]) + "\n")
        for words in (("report", folder.name), ("report", folder.name, "--advise", "--model", "medium"),
                      ("compare", folder.name, "good")):
            if words[0] == "compare" and name == "no series":
                assert "bad no series: 1 record without a result" in case.run(*words).stdout
                continue
            result = case.run(*words, code=5)
            harness.check_error(result.stderr, "store-corrupt", [f"bad {name}/records.jsonl:{number + 1 + (name == 'twice')}: "])
            assert "\x1b" not in result.stderr, "raw bytes on the terminal"
        case.refused(5, "store-corrupt", "study", *TINY, "--runs", "4", "-q", "-o", folder.name, "--resume") \
            if name != "no series" else None


def check_training_runs(case):
    case.run("train", "--backend", "cpu", "--epochs", "2", "-q", "-o", "t")
    report = case.path("t/report.md").read_text()
    assert all(f"\n| {epoch} | " in report for epoch in (1, 2)) and "CPU virtual device" in report, report
    case.path("t/report.md").unlink()
    assert "Training loss" in case.run("report", "t", "--write").stdout
    assert case.path("t/report.md").read_text() == report
    assert json.loads(case.run("report", "t", "--json").stdout)["kind"] == "train-epoch"
    case.refused(2, "usage", "report", "t", "--advise", "--model", "medium", says=["train run"])


def check_diverging_loss(case):
    words = ["train", "--backend", "cpu", "--optimizer", "sgd", "--epochs", "50", "--batch-size", "256", "-q", "-o", "r"]
    case.refused(1, "non-finite", *words, "--learning-rate", "1.2", says=["loss", "epoch", "--learning-rate"])
    for record in records_of(case.path("r")):
        assert record["kind"] == "train-epoch", record
    case.refused(1, "non-finite", "study", *TINY, "--runs", "2", "--optimizer", "sgd", "--learning-rate", "1e20", "-q",
                 "-o", "s", says=["loss", "batch 16", "--learning-rate"])
    assert lines_of(case.path("s"))[0]["type"] == "run"


def check_spaced_lists(case):
    spaced = [
        (("study", "--batch-sizes", "32", "64"), "--batch-sizes 32,64"),
        (("study", "--batch-sizes", "32,", "64,", "128", "--devices", "1"), "--batch-sizes 32,64,128"),
        (("study", "--devices", "1", "2", "-q"), "--devices 1,2"),
        (("train", "--gpus", "0", "1"), "--gpus 0,1"),
        (("train", "--target", "a", "b"), "--target a,b"),
        (("collectives", "--collective", "all_reduce", "broadcast"), "--collective all_reduce,broadcast"),
        (("collectives", "-d", "f32", "bf16"), "-d f32,bf16"),
        (("doctor", "--gpus", "0", "1"), "--gpus 0,1"),
        (("sensor", "bench", "--points", "1000", "2000"), "--points 1000,2000"),
        (("plan", "--assume-devices", "2", "4"), "--assume-devices 2,4"),
    ]
    for words, remedy in spaced:
        case.refused(2, "usage", *words, says=["joined with commas", f"{remedy}"])
    case.refused(2, "usage", "train", "--batch-size", "32", "64", says=["'64'"])  # no list
    assert not case.path("results").exists(), "a refused command leaves a folder"


def check_sizes_in_lower_case(case):
    sweep = ("collectives", "--backend", "cpu", "--devices", "2", "-n", "2", "-w", "1", "-q", "--json")
    upper, lower = (json.loads(case.run(*sweep, "-b", low, "-e", high, "-f", "4").stdout)["records"]
                    for low, high in (("1K", "16KiB"), ("1k", "16kib")))
    assert [r["axes"]["bytes"] for r in upper] == [r["axes"]["bytes"] for r in lower] == [1024, 1024, 4096, 4096, 16384, 16384]
    case.run("links", "--backend", "cpu", "-q", "-t", "device_to_device_memcpy_read_ce", "-i", "1", "-b", "64k")
    case.refused(2, "usage", *sweep, "-b", "1x", says=["--min-bytes", "1x"])


def check_counts_of_zero_and_less(case):
    study = [("--runs", "0"), ("--runs", "-1"), ("--steps", "0"), ("--warmup", "-3"),
             ("--devices", "0"), ("--devices", "1,-2"), ("--batch-sizes", "0"), ("--batch-sizes", "16,-16"),
             ("--batch-sizes", "16,,32"), ("--devices", "two"), 
             ("--learning-rate", "0"), ("--learning-rate", "-0.1"), ("--learning-rate", "nan"), ("--timeout", "0"),
             ("--timeout", "-1"), ("--rel-ci", "-0.1"), ("--runs", "many"), ("--seed", "-1"), ("--gpus", "-1")]
    train = [("--epochs", "0"), ("--epochs", "-1"), ("--devices", "0"), ("--devices", "-2"), ("--batch-size", "0"),
             ("--batch-size", "-8"),              ("--learning-rate", "0"), ("--validation", "1"), ("--validation", "-0.5"), ("--validation", "nan"),
             ("--timeout", "0")]
    for part, says in (("m0", "accumulate is '0'"), ("m-1", "accumulate is '-1'"), ("bucket-mb=0", "bucket-mb is '0'"),
                       ("bucket-mb=-1", "bucket-mb is '-1'"), ("m010", "'m010'"), ("m1.5", "'m1.5'"), ("m0x10", "'m0x10'")):
        for verb in ("study", "train"):
            case.refused(2, "usage", verb, "--plan", part, "-o", "r", says=[says])
    for verb, wrong in (("study", study), ("train", train)):
        for option, value in wrong:
            case.refused(2, "usage", verb, option, value, "-o", "r", says=[option])
    huge = [("--devices", "1,3000000000"), ("--devices", "1,5000"), ("--batch-sizes", "9000000000000000000"),
            ("--runs", "3000000000"), ("--batch-sizes", "99999999999999999999")]
    for option, value in huge:
        rest = ("--batch-sizes", "10000") if option == "--devices" else ()
        case.refused(2, "usage", "study", "--backend", "cpu", option, value, *rest, "-o", "r", says=[option])
    case.refused(2, "usage", "plan", "--advise", "--params", "0", says=["--params"])
    case.refused(2, "usage", "plan", "--advise", "--params", "-5", says=["--params"])
    case.refused(2, "usage", "plan", "--advise", "--params", "1M", "--batch-size", "0", says=["--batch-size"])
    assert not case.path("r").exists(), "a refused command leaves a folder"


def check_modes_that_need_a_gpu(case):
    cpu = ("--backend", "cpu", "-o", "r")
    for verb in ("study", "train"):
        case.refused(2, "usage", verb, *cpu, "--launch", "graph", says=["graph", "--launch eager"])
        case.refused(2, "usage", verb, *cpu, "--math", "tf32", says=["tf32", "--math fp32"])
    case.refused(2, "usage", "study", *cpu, "--math", "bf16", "--dry-run", says=["bf16"])
    assert not case.path("r").exists(), "a refused command leaves a folder"


def check_launchers_that_disagree(case):
    torch = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "29517"}
    study = ("study", *TINY, "--runs", "1", "--timeout", "2", "-o", "r")
    case.refused(2, "launcher-mismatch", *study, env={**torch, "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
                 says=["RANK=0", "OMPI_COMM_WORLD_RANK=1"])
    case.refused(2, "launcher-mismatch", *study, env={**torch, "SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_STEP_ID": "0"},
                 says=["WORLD_SIZE=2", "SLURM_NTASKS=4"])
    case.refused(2, "launcher-mismatch", *study, env={"WORLD_SIZE": "4"}, says=["WORLD_SIZE=4", "RANK"])
    case.refused(2, "launcher-mismatch", *study, env={"RANK": "x", "WORLD_SIZE": "4"}, says=["RANK=x"])
    case.refused(2, "launcher-mismatch", *study, env={"RANK": "4", "WORLD_SIZE": "4"}, says=["RANK=4"])
    case.refused(2, "usage", "study", "--devices", "1,4", "--batch-sizes", "16", "-o", "r", env=torch, timeout=20,
                 says=["4 devices", "2 processes"])
    assert not case.path("r").exists(), "a refused command leaves a folder"


def check_rank_that_never_comes(case):
    start = time.monotonic()
    case.refused(4, "peer-unreachable", "study", *TINY, "--runs", "1", "--timeout", "2", "-o", "r",
                 env={"WORLD_SIZE": "2", "RANK": "0", "MASTER_PORT": "29519"}, says=["rank 1"])
    took = time.monotonic() - start
    assert took < 5, f"{took:.1f} s with a timeout of 2 s"


def check_options_that_would_do_nothing(case):
    tiny = ("study", *TINY, "--runs", "1", "-q", "-o", "r")
    for option in ("--model", "--data", "--target", "--gpus", "--from", "--data-options"):
        case.refused(2, "usage", *tiny, option, "", says=[option, "empty"])
    case.refused(2, "usage", "train", "-o", "", says=["--output-dir", "empty"])
    for words in (("report", ""), ("compare", "", "r"), ("plan", "--advise", "--params", "")):
        case.refused(2, "usage", *words, says=["empty"])
    for words in (("--data-options", "missing=mean"), ("--data-options", "delimiter=;"), ("--data-options", "regression"), ("--data-options", "ignore=id"), ("--target", "y")):
        case.refused(2, "usage", *tiny, *words, says=[words[0], "--data"])
    case.refused(2, "usage", *tiny, "--from", "r", says=["--from", "--mode auto"])
    case.refused(2, "usage", "report", "r", "--params", "1M", "--advise=study", says=["records with --advise study"])
    case.refused(2, "usage", *tiny, "--dry-run", "--json", says=["--dry-run", "--json"])
    assert not case.path("r").exists(), "a refused command leaves a folder"


def check_numbers_that_read_as_others(case):
    whole = {"study": ("--runs", "--steps", "--warmup", "--seed"),
             "train": ("--epochs", "--batch-size", "--devices", "--seed"), "plan": ("--batch-size",)}
    for verb, options in whole.items():
        for option in options:
            for value in ("010", "0x10", "99999999999999999999", "1.5"):
                case.refused(2, "usage", verb, option, value, says=[option, value])
    for value in ("nan", "1e300"):
        case.refused(2, "usage", "train", "--plan", f"bucket-mb={value}", says=[f"bucket-mb is '{value}'"])
    for value in ("1e-60", "1e60"):  # none and infinity in 32 bits
        case.refused(2, "usage", "train", "--learning-rate", value, says=["--learning-rate"])


def check_errors_are_one_safe_line(case):
    rows = "".join(f"{i},{i % 7},{i % 2}\n" for i in range(100))
    case.write("d.csv", "a,\x1b[31mb,y\n" + rows + "1," + "z" * 1_000_000 + ",1\n")
    error = case.refused(2, "data-corrupt", "train", "--data", "d.csv", "--target", "y", says=["\\x1b[31mb", "100 of 101"]).stderr
    assert "\x1b" not in error and len(error) < 1500, error[:2000]
    error = case.refused(2, "usage", "report", "no\nsuch\x07run", says=["no\\x0asuch\\x07run"]).stderr
    assert error.count("\n") == 1, error


def check_column_with_a_comma(case):
    case.write("d.csv", 'id,"price, net",b,y\n' + "".join(f"row{i},{i % 7},{i % 3},{i % 2}\n" for i in range(100)))
    words = ("train", "--backend", "cpu", "--data", "d.csv", "--epochs", "1", "--target", "y", "-q")
    case.run(*words, "--data-options", 'ignore="price, net",ignore=id', "-o", "r")
    case.refused(2, "usage", *words, "--data-options", "ignore=price, net", "-o", "s", says=["' net'"])
    constant = "a,y\n" + "".join(f"{i},5\n" for i in range(100))
    case.write("c.csv", constant)
    case.refused(2, "data-corrupt", "train", "--data", "c.csv", "--target", "y", says=["same class '5'", "or --data-options regression"])
    case.run("train", "--backend", "cpu", "--data", "c.csv", "--target", "y", "--data-options", "regression", "--epochs", "1", "-q", "-o", "c")


harness.main(globals())

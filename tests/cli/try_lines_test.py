"""Values that errors propose: for each wrong input the first proposal behind "try:" is put into the command, which must
then be accepted. Inputs are made from the options of every command, and listed where users were seen to err."""
import concurrent.futures
import re
import shlex

import harness

STUDY = ("study", "--backend", "cpu", "--dry-run", "-q", "--steps", "2", "--warmup", "1", "--runs", "2")
TRAIN = ("train", "--backend", "cpu", "-q", "--epochs", "1", "--batch-size", "1024", "-o", "t", "--overwrite")
PLAN = ("plan", "--model", "medium", "--batch-size", "512")
ASSUMED = (*PLAN, "--what-if", "gpus=8,gpu=h200")
SENSOR = ("sensor", "bench", "--backend", "cpu", "-q", "--samples", "2", "--calls", "1", "--op", "voxelize",
          "--points", "1000", "--grid", "8")
SCAN = str(harness.SOURCE / "data" / "vlp16.ply")
ONESIDED = ("collectives", "--backend", "cpu", "-q", "--onesided=gemm", "--samples", "2", "--least-sample-us", "1")
SWEEP = ("collectives", "--backend", "cpu", "-q", "--max-bytes", "1K", "-n", "2", "-w", "1")
LINKS = ("links", "--backend", "cpu", "-q", "--buffer-size", "64K", "-i", "2")

# Command, option and wrong values of it.
WRONG = [
    (STUDY, "--timeout", ("5x", "5 m", "1,5", "0x10", "five")),
    (STUDY, "--rel-ci", ("1%%", "0.01x", "0,01", "1pct", "1")),
    (STUDY, "--devices", ("1-2", "1,2,x", "2devices", "1,,2", "0")),
    (STUDY, "--batch-sizes", ("64;128", "x", "1.5")),
    (STUDY, "--runs", ("4runs", "2.5", "010", "many")),
    (STUDY, "--steps", ("3x", "0x4")),
    (STUDY, "--device-speeds", ("1,0.5x", "1,half")),
    (STUDY, "--plan", ("dp2tp2", "dp2,tp2", "dp2,zer1", "ddp,m2x")),
    (STUDY, "--model", ("medum", "MEDIUMM", "nothing")),
    (STUDY, "--math", ("fp31", "FP32")),
    (STUDY, "--launch", ("egaer", "Eager")),
    (STUDY, "--scaling", ("strng", "Weak")),
    (STUDY, "--mode", ("mult", "both")),
    (STUDY, "--variants", ("al", "none!")),
    (STUDY, "--optimizer", ("adan", "Adam")),
    (STUDY, "--backend", ("cpuu", "gpu")),
    (STUDY, "--comm", ("symetric", "AUTO")),
    (STUDY, "--color", ("alwys", "yes")),
    (TRAIN, "--epochs", ("1x", "2epochs")),
    (TRAIN, "--lr", ("1e-3x", "0,001")),
    (TRAIN, "--validation", ("20%%", "0.2x")),
    (TRAIN, "--lr-schedule", ("cosin", "step")),
    (TRAIN, "--batch-size", ("640 rows", "1e2.5")),
    (ASSUMED, "--what-if", ("gpus=8,gpu=h20", "8xh200", "8 H100", "gpus=8,gpu=H100x", "gpus=8,gpu=h200,link=230GB/s",
                            "gpus=8,gpu=h200,link=net10", "gpu=h200,gpuss=8", "gpus=x,gpu=h200",
                            "gpus=9999,gpu=h200", "gpu=h200,memory-gb=none")),
    (ASSUMED, "--math", ("bf61", "fp8")),
    (ASSUMED, "--batch-size", ("512 rows", "5e")),
    (ASSUMED, "--plan", ("dp4tp2", "dp4,tp2")),
    (("plan", "--advise=study", "--batch-size", "64"), "--params", ("6.9Mx", "6,9Mx")),
    (SENSOR, "--points", ("1Mx", "1,2x", "many")),
    (SENSOR, "--op", ("voxelise", "fus")),
    (SENSOR, "--mode", ("singel", "multi")),
    (SENSOR, "--dtype", ("f33", "float")),
    (SENSOR, "--layout", ("xzy", "XYZ")),
    (SENSOR, "--voxel-modes", ("count,maen", "average")),
    (SENSOR, "--distribution", ("unifrom", "normal")),
    (SENSOR, "--cache", ("warm", "HOT")),
    (SENSOR, "--grid", ("128^3", "8x8", "0", "8x8qx8")),
    (SENSOR, "--shape", ("30", "30x512,100x64q", "30x0", "30x512x4")),
    (("sensor", "voxelize", SCAN, "--voxel-size", "1", "--backend", "cpu"), "--min", ("1,2", "-10,0q,2", "a,b,c")),
    (ONESIDED, "--shapes", ("8x16x", "8x16", "8x16x32q")),
    (STUDY, "--trace", ("steps=1", "steps=1:2q", "steps=2:1", "batch=16q", "devices=0", "step=1:2")),
    ((*TRAIN, "--data", str(harness.DIGITS), "--target", "label"), "--data-options", ("window=9q", "window=", "windw=9")),
    (SENSOR, "--voxel-size", ("0,1", "0.1m")),
    (SWEEP, "--max-bytes", ("1XB", "2K B", "1,024", "big")),
    (SWEEP, "--datatype", ("f23", "f8")),
    (SWEEP, "--collective", ("allreduce", "all_redcue")),
    (SWEEP, "--op", ("summ", "mean")),
    (SWEEP, "--format", ("nccl", "tables")),
    (SWEEP, "--step-factor", ("2x", "4.5")),
    (SWEEP, "--devices", ("2x",)),
    (LINKS, "--test", ("pair", "lateny")),
    (LINKS, "--min-gbps", ("0.001Gb", "0,001")),
    (LINKS, "--buffer-size", ("64 KB", "64Q")),
    (("doctor", "--backend", "cpu"), "--timeout", ("5mm", "1..5")),
]

# Whole command lines.
LINES = [
    "studdy", "hlep", "sensor bnech", "sensor",
    "study --plans dp2,tp2 --backend cpu --dry-run", "study --machien machine.json", "study --dry-rum --backend cpu",
    "study --batch-sizes 16 32 --backend cpu --dry-run", "study --models small,medium --backend cpu --dry-run",
    "train --models=large,medium --epochs 1", "study --modell medum --dry-run", "study --devices 1,2 --no-overlap --dry-run",
    "study --no-overlap --devices 1,2 --dry-run", "study --recompute=block --dry-run", "train --epoch 3", "plan --batch-sizes 512",
    "collectives --size 1M", "doctor --nothing", "report", "compare", "plan",
]
TAKEN = ["study --help-all", "help", "help study", "help sensor bench", "version", "-V", "--version", "sensor --help"]


def proposal(stderr):
    """The first command behind "try:"."""
    text = harness.ERROR_LINE.search(stderr).group().split("; try: ", 1)[1]
    first = re.split(r", (?:or|for|and)\b|: |, then| \(", text)[0]
    words = shlex.split(first)
    assert words[0] == "amdahl", f"no command: try: {text}"
    return words[1:]


def without(words, option, names):
    kept, skip = [], False
    for word in words:
        if skip:
            skip = False
        elif word in names:
            skip = True
        else:
            kept.append(word)
    return kept


def accepted(case, words):
    """The command is not refused; what measures for longer is interrupted."""
    stderr = harness.run_briefly(case.folder, [str(word) for word in words], seconds=1)[1]
    assert "error[usage]" not in stderr, f"{shlex.join(map(str, words))}: {stderr}"


SHORT = {"--lr": "--learning-rate"}


def proposed_for(case, command, option, value):
    """The command with the value that is proposed instead of a wrong one."""
    if option == "--plan" and "--what-if" in command:
        command = [*without(command, option, ("--what-if",)), "--what-if", "gpus=8,gpu=h200"]
    kept = without(command, option, (option,))
    words = proposal(case.refused(2, "usage", *kept, option, value).stderr)
    at = next(i for i, word in enumerate(words) if word.startswith("-"))
    assert words[at] in (option, SHORT.get(option)), f"{option} {value}: proposes {words}"
    return (*kept, *words[at:])


def in_own_folder(case, number, work, *arguments):
    """What `work` returns, or its problem; for several at a time, each in a folder."""
    folder = case.path(f"part{number}")
    folder.mkdir(exist_ok=True)
    try:
        return work(harness.Case(folder), *arguments), ""
    except (AssertionError, ValueError, StopIteration) as problem:
        return None, f"{arguments}: {str(problem).splitlines()[0] if str(problem) else problem!r}"


def check_proposed_values_are_accepted(case):
    inputs = [(command, option, value) for command, option, values in WRONG for value in values]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: in_own_folder(case, i, proposed_for, *inputs[i]), range(len(inputs))))
        lines = sorted({words for words, _ in found if words})  # several inputs lead to the same command
        found += pool.map(lambda i: in_own_folder(case, i, accepted, lines[i]), range(len(lines)))
    problems = [problem for _, problem in found if problem]
    assert not problems, f"{len(problems)} of {len(inputs)}:\n" + "\n".join(problems)


def check_proposed_commands_are_accepted(case):
    for line in LINES:
        words = shlex.split(line)
        if line == "sensor":
            case.run(*words)
            continue
        proposed = proposal(case.refused(2, "usage", *words).stderr)
        assert proposed, line
        if "--dry-run" in words:
            accepted(case, proposed)


def check_proposals_name_the_word_that_is_wrong(case):
    for words in (("--devices", "1,2", "--no-overlap"), ("--no-overlap", "--devices", "1,2")):
        error = case.refused(2, "usage", "study", *words).stderr
        assert "does not know '--no-overlap'; try: amdahl study --plan no-overlap" in error, error
    error = case.refused(2, "usage", "study", "--models", "small,medium").stderr
    assert "try: amdahl study --model medium (one value per run), or" in error, error
    for words, proposed in ((("--models", "smal"), "--model medium"), (("--modle", "medum"), "--model medium"),
                            (("--modle", "sngle"), "--mode single"), (("--modle", "net.json"), "--model net.json")):
        error = case.refused(2, "usage", "study", *words).stderr
        assert f"try: amdahl study {proposed}, or" in error, error


def check_words_that_other_programs_take(case):
    for line in TAKEN:
        assert case.run(*line.split()).stdout
    assert case.run("help", "study").stdout == case.run("study", "--help").stdout
    assert case.run("version").stdout == case.run("-V").stdout == case.run("--version").stdout


def check_units_are_taken_everywhere(case):
    for words in ((*STUDY, "--timeout", "5m"), (*STUDY, "--rel-ci", "1%"), (*STUDY, "--batch-sizes", "1k"),
                  (*SENSOR[:-4], "--points", "2k", "--grid", "8"), (*SWEEP, "--timeout", "1m"),
                  (*LINKS, "--min-gbps", "1MB/s"), (*ASSUMED[:-1], "gpus=8,gpu=H100,link=net100"),
                  (*TRAIN, "--validation", "20%"), (*STUDY, "--batch-sizes", "1k", "--trace", "steps=1:2,batch=1k"), (*STUDY, "--device-speeds", "100%,50%"),
                  (*SENSOR, "--shape", "0.1kx32"), (*SENSOR[:-1], "0.008kx8x8"), (*ONESIDED, "--shapes", "0.1kx16x32")):
        accepted(case, words)


harness.main(globals())

"""Options from a file (--config) and from the environment (AMDAHL_OPTION): which source counts, and what is refused."""
import harness

TOML = """# of every command that has it
quiet = true
seed = 7

[study]
model = "medium"
batch-sizes = [16, 32]
devices = 1
runs = 1
steps = 2
warmup = 1
variants = "none"

[sensor.bench]
points = 1000
"""


def progress_of(result):
    return [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]


def provenance(case, folder):
    return next(line for line in harness.lines_of(case.path(folder)) if line["type"] == "provenance")


def batches(case, folder):
    return sorted({record["axes"]["global_batch"] for record in harness.records_of(case.path(folder))})


def check_the_file_sets_what_the_command_line_lacks(case):
    case.write("run.toml", TOML)
    result = case.run("study", "--config", "run.toml", "--backend", "cpu", "-o", "a")
    assert not progress_of(result), result.stderr
    assert batches(case, "a") == [16, 32]
    assert provenance(case, "a")["seed"] == 7
    assert "--batch-sizes 16,32" in provenance(case, "a")["command_line"]
    case.run("study", "--config=run.toml", "--backend", "cpu", "--batch-sizes", "8", "-o", "b")
    assert batches(case, "b") == [8]


def check_command_line_then_environment_then_file(case):
    case.write("run.toml", TOML)
    variables = {"AMDAHL_CONFIG": "run.toml", "AMDAHL_BATCH_SIZES": "24", "AMDAHL_SEED": "9"}
    case.run("study", "--backend", "cpu", "--seed", "11", "-o", "a", env=variables)
    assert batches(case, "a") == [24] and provenance(case, "a")["seed"] == 11
    case.run("study", "--backend", "cpu", "-o", "b", env=variables)
    assert provenance(case, "b")["seed"] == 9
    loud = case.run("study", "--backend", "cpu", "-o", "c", env={**variables, "AMDAHL_QUIET": "false"})
    assert progress_of(loud), "AMDAHL_QUIET=false did not count before the file"
    case.run("info", env=variables)  # which has none of them but quiet


def check_lists_of_words(case):
    case.write("run.toml", "[bench]\nruns = 3\nnames = ['a', 'b']\nquiet = true\n")
    result = case.run("bench", "true", "sleep 0.01", "--config", "run.toml", "-o", "run")
    assert "b is" in result.stdout or "b against a" in result.stdout, result.stdout


def check_refusals(case):
    for text, says in (("[study]\nbach-sizes = 3\n", ("x.toml:2", "bach-sizes", "batch-sizes")),
                       ("[studdy]\nruns = 3\n", ("x.toml:2", "studdy", "study")),
                       ("nonsense = 3\n", ("x.toml:1", "nonsense")),
                       ("[study]\nruns = 2020-01-01\n", ("x.toml:2", "runs")),
                       ("[study]\nquiet = 3\n", ("x.toml:2", "--quiet")),
                       ("[study]\nruns = 'many'\n", ("many", "x.toml:2 sets --runs")),
                       ("[study\n", ("x.toml:1", "not valid TOML"))):
        case.write("x.toml", text)
        case.refused(2, "usage", "study", "--config", "x.toml", says=says)
    case.refused(2, "usage", "study", "--config", "missing.toml", says=("missing.toml",))
    case.refused(2, "usage", "study", "--config", says=("--config",))
    result = case.run("study", "-q", code=2, env={"AMDAHL_BACKEND": "gpu"})
    assert "AMDAHL_BACKEND sets --backend" in result.stderr, result.stderr


if __name__ == "__main__":
    harness.main(globals())

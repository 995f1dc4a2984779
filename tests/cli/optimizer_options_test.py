"""Optimizer options: they change what is learned, hold for a study as well, and are refused where they have no effect."""
from harness import DIGITS, TINY, main, records_of

TRAIN = ("train", "--backend", "cpu", "--data", DIGITS, "--target", "label", "--epochs", "2", "-q")


def last_loss(case, name, *words):
    case.run(*TRAIN, *words, "-o", name)
    return {s["name"]: s["samples"][0] for s in records_of(case.path(name))[-1]["series"]}["train_loss"]


def check_each_option_has_an_effect(case):
    losses = {}
    for i, words in enumerate(((), ("--optimizer", "adamw", "--weight-decay", "0"), ("--optimizer", "adamw"),
                               ("--optimizer", "adamw", "--weight-decay", "5"), ("--clip-norm", "0.01"),
                               ("--lr-schedule", "linear"), ("--lr-schedule", "cosine"), ("--lr-warmup-steps", "50"))):
        losses[words] = last_loss(case, f"t{i}", *words)
    values = list(losses.values())
    assert values[1] == values[0], "adamw without decay is adam"
    assert len(set(values[1:])) == len(values) - 1, losses
    assert values[3] > values[0], "a large decay keeps the weights small"


def check_devices_agree(case):
    """The norm over shards is that of the whole gradient; sums are added in another order."""
    words = ("--optimizer", "adamw", "--clip-norm", "0.5", "--lr-schedule", "cosine", "--lr-warmup-steps", "10")
    one = last_loss(case, "one", *words)
    for strategy in ("ddp", "zero1", "dp"):
        several = last_loss(case, strategy, *words, "--devices", "3", "--plan", strategy)
        assert abs(several - one) < 1e-4 * one, f"{strategy}: {several} and {one}"


def check_a_study_measures_them(case):
    for strategy in ("ddp", "zero1", "dp"):
        name = f"s-{strategy}"
        case.run("study", *TINY, "--runs", "2", "--plan", strategy, "--optimizer", "adamw", "--clip-norm", "1",
                 "--lr-schedule", "linear", "-o", name, "-q")
        records = records_of(case.path(name))
        assert records and all(r["status"]["kind"] == "ok" for r in records), records
        assert {r["axes"]["optimizer"] for r in records} == {"adamw, clipped"}


def check_mae_is_reported_for_regression_only(case):
    rows = "\n".join(f"{i % 7},{i % 5},{(i % 7) * 0.5 + 0.25}" for i in range(200))
    case.write("d.csv", "a,b,y\n" + rows + "\n")
    result = case.run("train", "--backend", "cpu", "--data", "d.csv", "--target", "y", "--epochs", "2", "-o", "r")
    assert "validation MAE" in result.stdout and "MAE" in result.stderr, result.stdout + result.stderr
    series = {s["name"]: s["samples"][0] for s in records_of(case.path("r"))[-1]["series"]}
    assert 0 < series["validation_mae"] <= series["validation_loss"] ** 0.5, series  # mean |e| <= sqrt(mean e^2)
    assert "Validation MAE" in case.path("r/report.md").read_text()
    case.run(*TRAIN, "-o", "c")
    assert not any(s["name"] == "validation_mae" for s in records_of(case.path("c"))[-1]["series"])


def check_bad_values_are_refused(case):
    for words, says in ((("--weight-decay", "0.1"), "--optimizer adamw"),
                        (("--optimizer", "adamw", "--weight-decay", "-1"), "--weight-decay is -1"),
                        (("--optimizer", "adamw", "--weight-decay", "nan"), "--weight-decay"),
                        (("--optimizer", "adamm"), "adamm"), (("--clip-norm", "-1"), "--clip-norm is -1"),
                        (("--clip-norm", "inf"), "--clip-norm"), (("--lr-schedule", "cosin"), " cosine"),
                        (("--lr-schedule", "cosine", "--lr-warmup-steps", "1000"), "--lr-warmup-steps is 1000")):
        case.refused(2, "usage", *TRAIN, *words, "-o", "r", says=[says])
        assert not case.path("r").exists()


main(globals())

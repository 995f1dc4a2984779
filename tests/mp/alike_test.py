"""Ranks with other options, data or commands end with launcher-mismatch (2) and the field and the ranks that differ."""
import os
import tempfile

import mp_support as mp

TRAIN = ("train", "--backend", "cpu", "--devices", "2", "--epochs", "1", "--batch-size", "500", "--timeout", "20", "-q")
STUDY = ("study", "--backend", "cpu", "--devices", "2", "--batch-sizes", "16", "--steps", "3", "--timeout", "20", "-q")
SWEEP = ("collectives", "--backend", "cpu", "-b", "1K", "-e", "1K", "--timeout", "20", "-q")
SENSOR = ("sensor", "bench", "--backend", "cpu", "--mode", "data", "--points", "1000", "--samples", "2", "--timeout", "20", "-q")


def check(folder, words, first, second, text):
    """Refused by both ranks within a time that no timeout needs, and without a run folder."""
    run = os.path.join(folder, "refused")
    with mp.Programs(2, mp.torchrun_env, folder, *words, *(() if words is SWEEP else ("-o", run)),
                     own=lambda rank: (first, second)[rank]) as world:
        took = max(world.wait_all(15).values())
        world.expect(2, "error[launcher-mismatch]: the ranks were not started alike: ")
        world.expect(2, text)
    assert not os.path.exists(run), f"{words[0]}: a refused job left {os.listdir(run)}"
    print(f"ok: {' '.join(words[:2])}: {text}, {took:.2f} s after the start")


def check_training(folder):
    for option, first, second, text in (
            ("--lr", "0.001", "0.1", "learning_rate is 0.001 on rank 0 and 0.1 on rank 1"),
            ("--seed", "1", "2", "seed is 1 on rank 0 and 2 on rank 1"),
            ("--optimizer", "adam", "sgd", "optimizer is adam on rank 0 and sgd on rank 1"),
            ("--plan", "m1", "m2", "accumulate is 1 on rank 0 and 2 on rank 1"),
            ("--epochs", "1", "3", "epochs is 1 on rank 0 and 3 on rank 1"),
            ("--plan", "ddp", "zero1", "strategy is ddp on rank 0 and zero1 on rank 1"),
            ("--model", "medium", "large", "layers is "),
            ("--check-every", "10", "20", "check_every is 10 on rank 0 and 20 on rank 1")):
        check(folder, TRAIN if option != "--epochs" else TRAIN[:5] + TRAIN[7:], (option, first), (option, second), text)
    check(folder, TRAIN, (), ("--deterministic",), "deterministic is no on rank 0 and yes on rank 1")
    check(folder, TRAIN, ("--plan", "no-overlap"), (), "overlap is no on rank 0 and yes on rank 1")
    check(folder, TRAIN, ("--lr", "0.1", "--seed", "3"), (), "learning_rate is 0.1 on rank 0 and 0.001 on rank 1; seed is 3 on rank 0")


def check_data(folder):
    """Files of one name and size whose last digit differs."""
    for rank, digit in ((0, "1"), (1, "2")):
        os.makedirs(os.path.join(folder, str(rank)))
        with open(os.path.join(folder, str(rank), "data.csv"), "w") as file:
            file.write("a,b\n" + "1,2\n" * 700 + f"1,{digit}.5\n")
    check(folder, TRAIN, ("--data", "0/data.csv", "--target", "b"), ("--data", "1/data.csv", "--target", "b"), "data_hash is ")


def check_other_commands(folder):
    check(folder, STUDY, ("--warmup", "2"), ("--warmup", "3"), "warmup is 2 on rank 0 and 3 on rank 1")
    check(folder, STUDY, ("--runs", "3"), ("--runs", "4"), "runs is 3 on rank 0 and 4 on rank 1")
    check(folder, SWEEP, ("-n", "5"), ("-n", "6"), "iterations is 5 on rank 0 and 6 on rank 1")
    check(folder, SWEEP, ("-w", "1"), ("-w", "2"), "warmup is 1 on rank 0 and 2 on rank 1")
    check(folder, SENSOR, ("--grid", "32"), ("--grid", "64"), "grid is 32x32x32 on rank 0 and 64x64x64 on rank 1")


def check_three_ranks(folder):
    with mp.Programs(3, mp.amdahl_env, folder, "train", "--backend", "cpu", "-q", "-o", "three",
                     own=lambda rank: ("--seed", "7" if rank == 1 else "5")) as world:
        world.wait_all(15)
        world.expect(2, "seed is 5 on ranks 0, 2 and 7 on rank 1")
    print("ok: of three ranks the one that differs is named")


with tempfile.TemporaryDirectory(prefix="amdahl-test-") as place:
    check_training(place)
    check_data(place)
    check_other_commands(place)
    check_three_ranks(place)

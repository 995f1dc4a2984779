"""The program over several processes: launched by mpirun and by hand as torchrun and Slurm would, and when a rank dies."""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import mp_support as mp

LIMIT = 2.0
PROGRAM = os.path.join(os.path.abspath(sys.argv[2]), "bin", "amdahl")
STUDY = ("study", "--backend", "cpu", "--batch-sizes", "16", "--warmup", "1", "--steps", "20", "--timeout", "30")


def need_program():
    mp.program()
    mp.need("mpirun")


def slurm_env(rank, world, port):
    return {"SLURM_PROCID": str(rank), "SLURM_NTASKS": str(world), "SLURM_LOCALID": str(rank), "SLURM_NNODES": "1",
            "SLURM_JOB_ID": str(port), "SLURM_STEP_ID": "0"}


def lines_of(folder):
    with open(os.path.join(folder, "records.jsonl")) as file:
        return [json.loads(line) for line in file.read().split("\n")[:-1]]


def check_records(folder, devices, runs, launcher):
    lines = lines_of(folder)
    keys = [(r["axes"]["devices"], r["axes"]["strategy"], r["axes"]["run"]) for r in lines if r["type"] == "record"]
    expected = [(n, "single" if n == 1 else "ddp", run) for n in devices for run in range(runs)]
    assert sorted(keys) == sorted(expected), keys
    assert all(r["status"]["kind"] == "ok" for r in lines if r["type"] == "record")
    facts = [line["facts"] for line in lines if line["type"] == "provenance"]
    assert facts and all(f["processes"].startswith(launcher) for f in facts), facts
    for name in ("summary.json", "report.md"):
        assert os.path.exists(os.path.join(folder, name)), f"{name} is missing"


def check_mpirun(folder, size, devices):
    result = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(size), PROGRAM, *STUDY,
                             "--devices", ",".join(map(str, devices)), "--runs", "3", "-o", f"mpi{size}"],
                            cwd=folder, env=mp.clean_environment(), capture_output=True, text=True, timeout=60)
    shown = result.stdout + result.stderr
    assert result.returncode == 0, shown
    assert shown.count("plan: ") == 1 and shown.count("report: ") == 1, f"not one speaker:\n{shown}"
    check_records(os.path.join(folder, f"mpi{size}"), devices, 3, "openmpi")
    print(f"ok: {size} ranks by mpirun, devices {devices}")


def check_by_hand(folder, name, variables, launcher):
    with mp.Programs(2, variables, folder, *STUDY, "--devices", "1,2", "--runs", "3", "-o", name) as world:
        world.wait_all(30)
        world.expect(0)
        assert "report: " in world.ranks[0].text() and "plan: " in world.ranks[0].text(), world.texts()
        assert world.ranks[1].text() == "", "rank 1 speaks:\n" + world.texts()
    check_records(os.path.join(folder, name), [1, 2], 3, launcher)
    print(f"ok: two ranks with the variables of {launcher}")


def check_training(folder):
    words = ("train", "--backend", "cpu", "--devices", "2", "--epochs", "2", "--batch-size", "500", "--json", "-q")
    with mp.Programs(2, mp.amdahl_env, folder, *words, "-o", "t") as world:
        world.wait_all(30)
        world.expect(0)
        text = world.ranks[0].text()  # the name of the report stands beside the JSON
        losses = {s["name"]: s["samples"][0] for s in json.loads(text[text.index("{"):text.rindex("}") + 1])["series"]}
        assert world.ranks[1].text() == "", world.texts()
    threads = subprocess.run([PROGRAM, *words, "-o", "u"], cwd=folder, capture_output=True, text=True, check=True, timeout=30,
                             env=mp.clean_environment())
    alone = {s["name"]: s["samples"][0] for s in json.loads(threads.stdout)["series"]}
    for name in ("train_loss", "validation_loss"):
        assert abs(losses[name] - alone[name]) <= 1e-4 * alone[name], f"{name}: {losses[name]} and {alone[name]} with threads"
    print("ok: training over two processes gives the loss of two threads")


def check_plans(folder):
    """Pipeline stages and tensor parallelism over processes give the bits that they give over threads."""
    for i, plan in enumerate(("pp2,1f1b,m4", "tp2", "dp2.pp2,m2,zero1", "dp2,zero3")):
        size = 4 if plan.startswith("dp2.") else 2
        words = ("train", "--backend", "cpu", "--epochs", "1", "--batch-size", "500", "--plan", plan, "--json", "-q")
        with mp.Programs(size, mp.amdahl_env, folder, *words, "-o", f"plan{i}", "--save", f"p{i}.safetensors") as world:
            world.wait_all(60)
            world.expect(0)
        subprocess.run([PROGRAM, *words, "-o", f"threads{i}", "--save", f"t{i}.safetensors"], cwd=folder, capture_output=True,
                       check=True, timeout=60, env=mp.clean_environment())
        saved = [open(os.path.join(folder, f"{name}{i}.safetensors"), "rb").read() for name in ("p", "t")]
        assert saved[0] == saved[1], f"{plan}: other weights than with threads"
    print("ok: plans over processes give the bits of threads")


def num_records(folder):
    try:
        with open(os.path.join(folder, "records.jsonl")) as file:
            return file.read().count('"type":"record"')
    except FileNotFoundError:
        return 0


def long_study(folder, name):
    return mp.Programs(2, mp.torchrun_env, folder, *STUDY, "--devices", "2", "--runs", "5000", "-q", "-o", name)


def wait_for_records(folder, count, world):
    end = time.monotonic() + 30
    while num_records(folder) < count:
        ended = any(rank.process.poll() is not None for rank in world.ranks)
        assert not ended and time.monotonic() < end, "no records:\n" + world.texts()
        time.sleep(0.02)


def check_kill(folder, victim):
    name = f"kill{victim}"
    run = os.path.join(folder, name)
    with long_study(folder, name) as world:
        wait_for_records(run, 4, world)
        survivor = world.ranks[1 - victim]
        world.ranks[victim].signal(signal.SIGKILL)
        took = world.wait_all(10, [survivor])[survivor.number]
        world.expect(4, f"error[rank-died]: rank {victim} died", [survivor])
        assert survivor.text().count("error[") == 1, survivor.text()
    assert took <= LIMIT, f"{took:.2f} s from kill -9 to the end of the other rank"
    kept = num_records(run)
    assert kept >= 4 and len([line for line in lines_of(run) if line["type"] == "record"]) >= 4
    report = subprocess.run([PROGRAM, "report", name], cwd=folder, env=mp.clean_environment(), capture_output=True, text=True)
    assert report.returncode == 0, report
    print(f"ok: kill -9 of rank {victim}: the other names it within {took:.3f} s, {kept} records are kept")


def check_resume_after_kill(folder):
    kept = num_records(os.path.join(folder, "kill1"))
    runs = kept // 2 + 3
    words = (*STUDY, "--devices", "2", "--runs", str(runs), "-q", "-o", "kill1", "--resume")
    with mp.Programs(2, mp.torchrun_env, folder, *words) as world:
        world.wait_all(30)
        world.expect(0)
    check_records(os.path.join(folder, "kill1"), [1, 2], runs, "torchrun")
    print(f"ok: the study goes on over two processes: {kept} records before, {2 * runs} after")


def check_hang(folder, timeout=3):
    with mp.Programs(2, mp.torchrun_env, folder, *STUDY[:-1], str(timeout), "--devices", "2", "--runs", "5000", "-q", "-o",
                  "hang") as world:
        wait_for_records(os.path.join(folder, "hang"), 4, world)
        world.ranks[1].signal(signal.SIGSTOP)
        took = world.wait_all(timeout + 5, [world.ranks[0]])[0]
        world.expect(6, "error[rank-hung]: rank 1 ", [world.ranks[0]])
    assert took <= timeout + LIMIT, f"{took:.2f} s with a timeout of {timeout} s"
    assert num_records(os.path.join(folder, "hang")) >= 4
    print(f"ok: SIGSTOP of rank 1: the other names it within {took:.2f} s, timeout {timeout} s")


def check_hang_with_automatic_timeout(folder):
    """Steps of milliseconds: the deadline comes down from 60 s to the least, 5 s."""
    words = {"study": (*STUDY[:-2], "--timeout", "auto", "--devices", "2", "--runs", "5000", "-q"),
             "train": ("train", "--backend", "cpu", "--devices", "2", "--epochs", "100000", "--batch-size", "500", "--timeout", "auto",
                       "-q")}
    for name, command in words.items():
        with mp.Programs(2, mp.torchrun_env, folder, *command, "-o", f"auto-{name}") as world:
            wait_for_records(os.path.join(folder, f"auto-{name}"), 4, world)
            world.ranks[1].signal(signal.SIGSTOP)
            took = world.wait_all(20, [world.ranks[0]])[0]
            world.expect(6, "error[rank-hung]: rank 1 ", [world.ranks[0]])
            # By a collective, or where the stopped rank had left the run's last one, by the exchange behind it.
            assert any(f"within {limit} s" in world.ranks[0].text() for limit in ("5", "7.0")), world.texts()
        assert 4 <= took <= 5 + LIMIT, f"{took:.2f} s"
        print(f"ok: --timeout auto: SIGSTOP of a rank of {name} is named within {took:.2f} s")


def check_root_refuses(folder):
    """What only rank 0 meets, an existing run or a full disk, ends the others too."""
    os.makedirs(os.path.join(folder, "there"))
    with open(os.path.join(folder, "there", "records.jsonl"), "w") as file:
        file.write('{"type":"run","version":1,"kind":"study","config":{}}\n')
    with mp.Programs(2, mp.torchrun_env, folder, *STUDY, "--devices", "2", "--runs", "3", "-q", "-o", "there") as world:
        refused = world.wait_all(15, world.ranks[:1])[0]
        took = max(world.wait_all(15).values())
        world.expect(2, "error[usage]", [world.ranks[0]])
        world.expect(4, "error[rank-died]: rank 0", [world.ranks[1]])
    assert took <= LIMIT, f"{took:.2f} s from the end of rank 0 to that of rank 1"
    print(f"ok: an existing run folder ends rank 0 in {refused:.2f} s, rank 1 {took:.2f} s later")
    if shutil.which("mpirun"):
        start = time.monotonic()
        result = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", PROGRAM, *STUDY, "--devices",
                                 "3", "--runs", "3", "-q", "-o", "there"], cwd=folder, env=mp.clean_environment(),
                                capture_output=True, text=True, timeout=60)
        took = time.monotonic() - start
        assert result.returncode != 0 and "already holds a run" in result.stderr, result.stdout + result.stderr
        assert took <= 15, f"{took:.2f} s for a refusal under mpirun"
        print(f"ok: an existing run folder ends three ranks of mpirun, {took:.2f} s")

    def limit(rank):
        if rank == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    with mp.Programs(3, mp.torchrun_env, folder, *STUDY, "--devices", "2", "--runs", "500", "-q", "-o", "full",
                  prepare=limit) as world:
        world.wait_all(30, world.ranks[:1])
        took = max(world.wait_all(15).values())
        world.expect(7, "error[disk-full]", [world.ranks[0]])
        world.expect(4, "error[rank-died]: rank 0", world.ranks[1:])
    assert took <= LIMIT, f"{took:.2f} s from the end of rank 0 to that of the others"
    assert num_records(os.path.join(folder, "full")) >= 1
    print("ok: a full disk at rank 0 ends all three ranks, and the records before it are kept")


def check_collectives(folder):
    """Every collective over three processes, and a peer that goes away in the middle."""
    words = ("collectives", "--backend", "cpu", "-q", "-n", "3", "-w", "1", "-b", "256", "-e", "256K", "-f", "32", "--collective",
             "all_reduce,all_gather,reduce_scatter,broadcast,reduce,sendrecv,all_to_all,gather,scatter", "--json")
    result = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", PROGRAM, *words], cwd=folder,
                            env=mp.clean_environment(), capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    records = json.loads(result.stdout)["records"]
    assert {record["axes"]["transport"] for record in records} == {"gloo"} and len(records) == 3 * (7 * 2 + 2), len(records)
    assert all(s["samples"] == [0] for record in records for s in record["series"] if s["name"] == "wrong")
    with mp.Programs(2, mp.torchrun_env, folder, "collectives", "--backend", "cpu", "-q", "-b", "1K", "-e", "1K", "-n", "1000000", "-T",
                  "30", "--output-dir", "c") as world:
        time.sleep(1.5)
        world.ranks[1].signal(signal.SIGKILL)
        took = world.wait_all(10, [world.ranks[0]])[0]
        world.expect(4, "error[rank-died]: rank 1 died", [world.ranks[0]])
    assert took <= LIMIT, f"{took:.2f} s"
    print(f"ok: every collective over three processes; a killed peer is named within {took:.2f} s")


def has_mpi():
    info = subprocess.run([PROGRAM, "info", "--json"], env=mp.clean_environment(), capture_output=True, text=True, timeout=60)
    return any(backend["name"] == "mpi" and backend["ok"] for backend in json.loads(info.stdout)["backends"])


def check_mpi(folder):
    """The same collectives by MPI; what MPI lacks is refused, and a killed rank ends the job in time."""
    if not has_mpi():
        print("skipped: collectives by MPI: this build has none (Debian: libopenmpi-dev)")
        return
    mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", PROGRAM, "collectives", "--backend", "cpu", "-q",
              "--comm", "mpi"]
    result = subprocess.run([*mpirun, "-n", "3", "-w", "1", "-b", "64", "-e", "256K", "-f", "64", "-d", "f32,i64,u8", "-o",
                             "sum,max", "--collective", "all", "--json"], cwd=folder, env=mp.clean_environment(),
                            capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    records = json.loads(result.stdout)["records"]
    assert {record["axes"]["transport"] for record in records} == {"mpi"}, records[0]
    assert {record["axes"]["collective"] for record in records} >= {"all_reduce", "sendrecv", "reduce_scatter", "gather"}
    wrong = [s["samples"] for record in records for s in record["series"] if s["name"] == "wrong"]
    assert len(wrong) > 100 and all(samples == [0] for samples in wrong), len(wrong)
    for words, says in ((("-d", "bf16"), "MPI has no bf16"), (("--op", "avg"), "MPI has no average")):
        refused = subprocess.run([*mpirun, "-e", "8", *words], cwd=folder, env=mp.clean_environment(), capture_output=True,
                                 text=True, timeout=60)
        assert refused.returncode == 2 and says in refused.stderr, refused.stderr
    start = time.monotonic()
    late = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", "sh", "-c",
                           'if [ "$OMPI_COMM_WORLD_RANK" = 2 ]; then (sleep 3; kill -9 $$) & fi; exec "$@"', "sh", PROGRAM,
                           "collectives", "--backend", "cpu", "-q", "--comm", "mpi", "-b", "1K", "-e", "1K", "-n", "1000000",
                           "-T", "30"], cwd=folder, env=mp.clean_environment(), capture_output=True, text=True, timeout=60)
    took = time.monotonic() - start - 3
    assert late.returncode != 0 and took < 10, (late.returncode, took, late.stderr)
    print(f"ok: collectives by MPI over three processes; the job ends {max(took, 0):.1f} s after a rank was killed")


def check_dry_run(folder):
    with mp.Programs(2, mp.torchrun_env, folder, *STUDY, "--devices", "2", "--runs", "3", "--dry-run") as world:
        world.wait_all(30)
        world.expect(0)
        assert "per device (modelled)" in world.ranks[0].text() and world.ranks[1].text() == "", world.texts()
    print("ok: one rank prints the plan")


def check_interrupt(folder):
    with long_study(folder, "interrupt") as world:
        wait_for_records(os.path.join(folder, "interrupt"), 2, world)
        for rank in world.ranks:
            rank.signal(signal.SIGINT)
        world.wait_all(10)
        world.expect(130, "error[interrupted]")
    print("ok: SIGINT to both ranks, as from a terminal, ends both with 130")


def check_interrupt_within_a_run(folder):
    """SIGTERM to one rank only, within a run of minutes: both end soon, as stopped by the user."""
    words = ("study", "--backend", "cpu", "--model", "large", "--batch-sizes", "256", "--devices", "2", "--runs", "3",
             "--warmup", "1", "--steps", "100000", "--timeout", "60", "-q", "-o", "within")
    for target, number, codes in ((1, signal.SIGTERM, (130, 143)), (0, signal.SIGINT, (130, 130))):
        with mp.Programs(2, mp.torchrun_env, folder, *words, "--mode", "multi") as world:
            end = time.monotonic() + 30
            while not os.path.exists(os.path.join(folder, "within", "records.jsonl")):
                assert time.monotonic() < end, world.texts()
                time.sleep(0.02)
            time.sleep(1)
            world.ranks[target].signal(number)
            took = max(world.wait_all(10).values())
            for rank, code in zip(world.ranks, codes):
                world.expect(code, "error[interrupted]", [rank])
        assert took <= 5, f"{took:.1f} s from the signal to the end of both ranks"
        shutil.rmtree(os.path.join(folder, "within"))
        print(f"ok: signal {number} to rank {target} within a long run ends both ranks, {took:.2f} s")


need_program()
with tempfile.TemporaryDirectory(prefix="amdahl-test-") as place:
    check_mpirun(place, 2, [1, 2])
    check_mpirun(place, 3, [1, 3])
    check_by_hand(place, "torch", mp.torchrun_env, "torchrun")
    check_by_hand(place, "slurm", slurm_env, "slurm")
    check_training(place)
    check_plans(place)
    check_dry_run(place)
    check_collectives(place)
    check_mpi(place)
    check_root_refuses(place)
    check_kill(place, 1)
    check_kill(place, 0)
    check_resume_after_kill(place)
    check_interrupt(place)
    check_interrupt_within_a_run(place)
    check_hang(place)
    check_hang_with_automatic_timeout(place)

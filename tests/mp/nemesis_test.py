"""A seeded nemesis: runs of one to three processes are killed, stopped, cut off and started late at random moments.

usage: nemesis_test.py SOURCE_DIR BINARY_DIR [--events N] [--seed N] [--only NAME]

After every event: all ranks end in time with a known exit code and one error line, no record that was on disk is lost,
the run folder can be reported, failure.json names the cause, and nothing else lies around. The seed is printed first:
the same seed repeats the same events (not their exact moments).
"""
import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import mp_support as mp

TIMEOUT = 4  # of the runs, seconds
SLACK = 8  # a busy machine
ERROR_LINE = re.compile(r"^error\[([a-z-]+)\]: ", re.MULTILINE)
SIGNALS = {"SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}
CPU = ("--backend", "cpu", "-q")
COMMANDS = {
    "study": ("study", *CPU, "--batch-sizes", "16", "--warmup", "1", "--steps", "20", "--runs", "5000"),
    "train": ("train", *CPU, "--batch-size", "500", "--epochs", "100000"),
    "collectives": ("collectives", *CPU, "-b", "64", "-e", "256K", "-i", "64", "-w", "1", "-n", "300"),
}
SHORT = {
    "study": ("study", *CPU, "--batch-sizes", "16", "--warmup", "1", "--steps", "2", "--runs", "2"),
    "train": ("train", *CPU, "--batch-size", "500", "--epochs", "2"),
    "collectives": ("collectives", *CPU, "-b", "64", "-e", "1K", "-f", "4", "-w", "1", "-n", "3"),
}
FOLDER = {"study": "-o", "train": "-o", "collectives": "--output-dir"}


def lines_of(run):
    try:
        with open(os.path.join(run, "records.jsonl")) as file:
            return file.read().split("\n")[:-1]
    except FileNotFoundError:
        return []


class Event:
    """One disturbed run in a folder of its own."""

    def __init__(self, number, chance, only):
        self.number, self.chance = number, chance
        self.name = only or chance.choice(list(EVENTS))
        self.command = chance.choice(list(COMMANDS))
        self.size = chance.choice((1, 2, 2, 3))
        self.victim = chance.randrange(self.size)
        self.delay = chance.uniform(0.0, 1.2)
        self.early = chance.random() < 0.2  # while the ranks still get to know each other
        self.base = tempfile.mkdtemp(prefix="amdahl-nemesis-")
        self.run = os.path.join(self.base, "run")

    def __str__(self):
        return (f"event {self.number}: {self.name} of rank {self.victim} of {self.size}, {self.command}, "
                f"after {self.delay:.2f} s")

    def words(self, table=COMMANDS, timeout=TIMEOUT):
        devices = ("--devices", str(max(2, self.size)))
        return (*table[self.command], *devices, "--timeout", str(timeout), FOLDER[self.command], "run")

    def start(self, *words, **options):
        variables = mp.torchrun_env if self.size > 1 else lambda *_: {}
        return mp.Programs(self.size, variables, self.base, *words, **options)

    def others(self, world):
        return [rank for rank in world.ranks if rank.number != self.victim]

    def has_begun(self):
        """Every process knows the run folder; early: the first one has made it."""
        flights = os.path.join(self.run, ".flight")
        return lines_of(self.run) and (self.early or os.path.isdir(flights) and len(os.listdir(flights)) == self.size)

    def wait_for_start(self, world):
        """Until the run has begun, then the event's own delay."""
        end = time.monotonic() + 30
        while not self.has_begun():
            assert all(rank.process.poll() is None for rank in world.ranks), "a rank ended by itself:\n" + world.texts()
            assert time.monotonic() < end, "the run does not begin:\n" + world.texts()
            time.sleep(0.01)
        if not self.early:
            time.sleep(self.delay)
        return lines_of(self.run)

    def ended(self, world, seconds, codes, causes=(), ranks=None):
        """Every rank ends in time, with one of the codes and one error line of one of the causes."""
        ranks = world.ranks if ranks is None else ranks
        world.wait_all(seconds + SLACK, ranks)
        for rank in ranks:
            code, text = rank.process.returncode, rank.text()
            assert code in codes, f"rank {rank.number} exited with {code}, not one of {codes}:\n{world.texts()}"
            found = ERROR_LINE.findall(text)
            if code > 0:
                assert len(found) == 1, f"rank {rank.number} has {len(found)} error lines:\n{world.texts()}"
                assert not causes or found[0] in causes, f"rank {rank.number}: {found[0]}, not {causes}:\n{world.texts()}"

    def check_kept(self, before):
        after = lines_of(self.run)
        assert after[:len(before)] == before, "lines that were on disk are gone or changed"

    def check_report(self):
        """The folder can be read, or says that nothing was measured."""
        result = subprocess.run([mp.program(), "report", "run"], cwd=self.base, env=mp.clean_environment(),
                                capture_output=True, text=True, timeout=60)
        assert result.returncode in (0, 5), f"report: {result}"
        if result.returncode == 5:
            assert "nothing was measured" in result.stderr, result.stderr
        return result.stdout + result.stderr

    def check_failure(self, causes, victim=None):
        """failure.json. Ranks that do not know the run folder yet, because rank 0 was lost too early, cannot write it."""
        if self.early and not os.path.exists(os.path.join(self.run, "failure.json")):
            return self.check_report() and None
        with open(os.path.join(self.run, "failure.json")) as file:
            failure = json.load(file)
        assert failure["type"] == "failure" and failure["cause"] in causes, failure
        if victim is not None:
            assert failure["rank"] == victim, failure
        assert failure["ranks"] or self.early, "no rank left its flight recorder"
        for rank in failure["ranks"]:
            numbers = [call["number"] for call in rank["calls"]]
            assert numbers == sorted(set(numbers)) and all(call["name"] for call in rank["calls"]), rank
        shown = self.check_report()
        assert "the run ended early" in shown, shown
        return failure

    def check_tidy(self):
        """Neither drafts of files nor files beside the run."""
        left = [name for name in os.listdir(self.base) if name != "run"]
        assert not left, f"left beside the run: {left}"
        if os.path.isdir(self.run):
            known = {"records.jsonl", "failure.json", ".flight", "report.md", "report.txt", "summary.json", "plan.json"}
            extra = {name for name in os.listdir(self.run) if not name.endswith(".svg")} - known
            if self.name == "kill_all":  # a rank that saw another one die may have been writing it
                extra = {name for name in extra if not name.startswith(".failure.json.")}
            assert not extra, f"left in the run: {sorted(extra)}"


def lose(event, number):
    """The signal ends one rank, of a single process or of one of several; failure.json where others could write it."""
    with event.start(*event.words()) as world:
        before = event.wait_for_start(world)
        world.ranks[event.victim].signal(number)
        event.ended(world, 3, {4}, {"rank-died"}, event.others(world))
        world.wait_all(5)
        assert world.ranks[event.victim].process.returncode == -number, world.texts()
    event.check_kept(before)
    return event.check_failure({"rank-died"}, event.victim) if event.size > 1 else None


def kill(event):
    """kill -9: of a single process nobody is left to write failure.json."""
    if lose(event, signal.SIGKILL) or event.size > 1:
        return
    assert event.early or "its processes ended without an error" in event.check_report()


def kill_all(event):
    """All at once, as a batch system or the kernel does."""
    with event.start(*event.words()) as world:
        before = event.wait_for_start(world)
        for rank in world.ranks:
            rank.signal(signal.SIGKILL)
        world.wait_all(5)
    event.check_kept(before)
    event.check_report()


def crash(event):
    """A segmentation fault: the others and failure.json can name the signal."""
    failure = lose(event, signal.SIGSEGV)
    assert failure is None or event.early or failure["signal"] == signal.SIGSEGV, failure


def interrupt(event):
    """SIGINT or SIGTERM of one rank ends all of them."""
    number = SIGNALS[event.chance.choice(list(SIGNALS))]
    with event.start(*event.words()) as world:
        before = event.wait_for_start(world)
        world.ranks[event.victim].signal(number)
        event.ended(world, 10, {128 + number}, {"interrupted"}, [world.ranks[event.victim]])
        event.ended(world, 10, {128 + number, 130, 4}, {"interrupted", "rank-died"})
    event.check_kept(before)
    event.check_report()


def stop(event):
    """SIGSTOP: the others name the rank at their deadline. A single process goes on when it is let go."""
    with event.start(*event.words()) as world:
        before = event.wait_for_start(world)
        victim = world.ranks[event.victim]
        victim.signal(signal.SIGSTOP)
        if event.size == 1:
            time.sleep(0.2)
            victim.signal(signal.SIGCONT)
            time.sleep(0.2)
            assert victim.process.poll() is None, world.texts()
            victim.signal(signal.SIGTERM)
            event.ended(world, 10, {128 + signal.SIGTERM})
        else:
            event.ended(world, TIMEOUT + 3, {4, 6}, {"rank-hung", "rank-died"}, event.others(world))
    event.check_kept(before)
    if event.size > 1:
        event.check_failure({"rank-hung", "rank-died"})


def pause(event):
    """A rank that stops for less than the deadline is no failure."""
    with event.start(*event.words(SHORT, timeout=30)) as world:
        time.sleep(event.delay / 4)
        victim = world.ranks[event.victim]
        if victim.process.poll() is None:
            victim.signal(signal.SIGSTOP)
            time.sleep(event.delay)
            victim.signal(signal.SIGCONT)
        event.ended(world, 30, {0})
    event.check_report()
    assert not os.path.exists(os.path.join(event.run, "failure.json"))


def late(event):
    """A rank that starts late is waited for."""
    if event.size == 1:
        event.size, event.victim = 2, event.chance.randrange(2)
    port = mp.free_port()
    first = [n for n in range(event.size) if n != event.victim]
    with event.start(*event.words(SHORT, timeout=30), present=first, port=port) as world:
        time.sleep(event.delay)
        with event.start(*event.words(SHORT, timeout=30), present=[event.victim], port=port) as rest:
            event.ended(rest, 30, {0})
            event.ended(world, 30, {0})
    event.check_report()
    assert not os.path.exists(os.path.join(event.run, ".flight")), "flight recorders of a run that ended well"


def absent(event):
    """A rank that never starts is named at the deadline."""
    if event.size == 1:
        event.size, event.victim = 2, event.chance.randrange(2)
    first = [n for n in range(event.size) if n != event.victim]
    with event.start(*event.words(timeout=2), present=first) as world:
        event.ended(world, 4, {3, 4, 6})
        if event.victim != 0:
            assert str(event.victim) in world.ranks[0].text(), world.texts()
    assert not lines_of(event.run), "something was measured without a rank"


def full_disk(event):
    """Files of the root cannot grow: what was written before stays readable."""
    limit = event.chance.randrange(300, 40_000)

    def prepare(rank):
        if rank == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    with event.start(*event.words(), prepare=prepare) as world:
        event.ended(world, 60, {7}, {"disk-full"}, world.ranks[:1])
        event.ended(world, 10, {4, 7}, {"rank-died", "disk-full"})
    if lines_of(event.run):
        event.check_report()


def closed_streams(event):
    """Standard streams that are closed from the start: the run measures, and its files have nothing but records."""
    closed = [n for n in range(3) if event.chance.random() < 0.5]

    def prepare(_):
        for number in closed:
            os.close(number)

    with event.start(*event.words(SHORT, timeout=30), prepare=prepare) as world:
        event.ended(world, 30, {0})
    for line in lines_of(event.run):
        assert json.loads(line)["type"], line
    assert "the run ended early" not in event.check_report()


def folder_gone(event):
    """The run folder is moved away: the run ends at its next record, and what it had is kept."""
    moved = os.path.join(event.base, "moved")
    with event.start(*event.words()) as world:
        before = event.wait_for_start(world)
        os.rename(event.run, moved)
        event.ended(world, 60, {2}, {"usage"}, world.ranks[:1])
        event.ended(world, 10, {2, 4}, {"usage", "rank-died"})
    assert not os.path.exists(event.run), "the folder was made again"
    os.rename(moved, event.run)
    event.check_kept(before)
    event.check_report()


EVENTS = {check.__name__: check for check in (kill, kill_all, crash, interrupt, stop, pause, late, absent, full_disk,
                                              closed_streams, folder_gone)}


def no_process_left(event):
    """Nothing runs on in the event's folder."""
    end = time.monotonic() + 5
    while True:
        left = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{pid}/cwd").startswith(event.base):
                    left.append(pid)
            except OSError:
                pass
        if not left:
            return
        assert time.monotonic() < end, f"processes {left} run on"
        time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("binary")
    parser.add_argument("--events", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(EVENTS))
    options = parser.parse_args()
    mp.program()
    seed = options.seed
    print(f"nemesis: seed {seed}, {options.events} events", flush=True)
    chance, counts, start = random.Random(seed), {}, time.monotonic()
    for number in range(options.events):
        event = Event(number, random.Random(chance.random()), options.only)
        try:
            EVENTS[event.name](event)
            no_process_left(event)
            event.check_tidy()
        except BaseException:
            print(f"FAILED: {event}\nseed {seed}; its folder: {event.base}", flush=True)
            raise
        shutil.rmtree(event.base, ignore_errors=True)
        counts[event.name] = counts.get(event.name, 0) + 1
    took = time.monotonic() - start
    print(f"ok: {options.events} events in {took:.0f} s: " + ", ".join(f"{n} {name}" for name, n in sorted(counts.items())))


if __name__ == "__main__":
    main()

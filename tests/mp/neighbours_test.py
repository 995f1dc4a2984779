"""Jobs and strangers around a job: survivors of a killed rank meet beside an innocent job at the next port, frames of other
jobs and of nobody are refused while it trains, and a port that is flooded with them neither takes memory nor keeps signals
off."""
import glob
import os
import re
import signal
import socket
import struct
import sys
import tempfile
import time

import mp_support as mp

DIGITS = os.path.join(os.path.abspath(sys.argv[1]), "data", "digits.csv")
TRAIN = ("train", "--backend", "cpu", "--data", DIGITS, "--target", "label", "--batch-size", "64", "--timeout", "30")
MAGIC = 0x414d4433
HELLO, SET, GET, EXCHANGE, MISSING, LEAVE, FAILURE, BEAT = range(8)


def frame(kind, a=0, b=0, key=b"", value=b"", job=0, sizes=None):
    key_bytes, value_bytes = sizes or (len(key), len(value))
    return struct.pack("<IIQQiiII", MAGIC, kind, job, 1, a, b, key_bytes, value_bytes) + key + value


def strange_frames():
    """Without a hello, of another job, with lengths that no message has."""
    huge = 2**31 - 1
    for kind in (SET, GET, EXCHANGE, MISSING, LEAVE, FAILURE, BEAT, HELLO):
        yield frame(kind, 0, huge, b"join", b"\0\0\0\0\0\0\0\0")
        yield frame(kind, 1, 2, sizes=(huge, huge))
    for rank in (0, 1, 2, -1):
        yield frame(HELLO, rank, 2, value=b"process 1 on nowhere", job=77)
    yield b"GET / HTTP/1.1\r\n\r\n"
    yield os.urandom(400)
    yield b"A"


def send(port, data):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as peer:
        peer.sendall(data)
        peer.settimeout(0.02)
        try:
            while peer.recv(4096):
                pass
        except OSError:
            pass


def two_free_ports():
    while True:
        port = mp.free_port()
        with socket.socket() as second:
            try:
                second.bind(("127.0.0.1", port + 1))
                return port
            except OSError:
                continue


def wait_for(pattern, world, seconds=30):
    end = time.monotonic() + seconds
    while not glob.glob(pattern):
        assert time.monotonic() < end, f"no {pattern}:\n" + world.texts()
        time.sleep(0.005)


def still_trains(world, place, name):
    """Epochs go on, and a signal ends the job as any other."""
    records = os.path.join(place, name, "records.jsonl")
    before, end = os.path.getsize(records), time.monotonic() + 20
    while os.path.getsize(records) == before:
        assert time.monotonic() < end, world.texts()
        time.sleep(0.01)
    for rank in world.ranks:
        rank.signal(signal.SIGTERM)
    world.wait_all(10)
    world.expect(128 + signal.SIGTERM, "whose checkpoint is written")


def check_a_job_at_the_next_port(place):
    port = two_free_ports()
    words = ("--epochs", "30", "--checkpoint-every", "20")
    with mp.Programs(2, mp.amdahl_env, place, *TRAIN, *words, "-o", "innocent", port=port + 1) as innocent, \
            mp.Programs(3, mp.amdahl_env, place, *TRAIN, *words, "-o", "shrinks", "--on-failure", "shrink", port=port) as world:
        wait_for(os.path.join(place, "innocent", "checkpoints", "step-*.safetensors"), innocent)
        wait_for(os.path.join(place, "shrinks", "checkpoints", "step-*.safetensors"), world)
        world.ranks[0].signal(signal.SIGKILL)
        left = world.ranks[1:]
        world.wait_all(60, left)
        innocent.wait_all(60)
        world.expect(0, ranks=left)
        innocent.expect(0)
        assert re.search(r"rank 0 died after step \d+: plan dp2 in place of dp3", world.ranks[1].text()), world.texts()
        assert "epoch  30/30" in innocent.ranks[0].text() and "epoch  30/30" in world.ranks[1].text(), world.texts()
    print("ok: survivors meet beside an innocent job at the next port")


def check_strange_frames_while_it_trains(place):
    port = mp.free_port()
    with mp.Programs(2, mp.amdahl_env, place, *TRAIN, "--epochs", "100000", "-q", "--checkpoint-every", "20", "-o", "hit", port=port) as world:
        wait_for(os.path.join(place, "hit", "checkpoints", "step-*.safetensors"), world)
        count = 0
        for data in strange_frames():
            send(port, data)
            count += 1
        idle = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(100)]
        still_trains(world, place, "hit")
        for each in idle:
            each.close()
    print(f"ok: {count} strange frames and 100 silent connections do no harm")


def check_frames_before_the_others_are_there(place):
    """Rank 0 waits for rank 1: strangers take no memory, rank 1 still comes in, and a signal ends the wait."""
    port = mp.free_port()
    words = (*TRAIN, "--epochs", "1", "-q")
    with mp.Programs(2, mp.amdahl_env, place, *words, "-o", "waits", present=[0], port=port) as world:
        end = time.monotonic() + 20
        for data in strange_frames():
            while time.monotonic() < end:
                try:
                    send(port, data)
                    break
                except ConnectionRefusedError:
                    time.sleep(0.02)
        with open(f"/proc/{world.ranks[0].process.pid}/status") as status:
            peak = int(re.search(r"VmHWM:\s+(\d+) kB", status.read())[1])
        assert peak < 400_000, f"{peak} kB"
        with mp.Programs(2, mp.amdahl_env, place, *words, "-o", "waits", present=[1], port=port) as rest:
            rest.wait_all(30)
            world.wait_all(30)
            rest.expect(0)
            world.expect(0)
    port = mp.free_port()
    for present in ([0], [1]):
        with mp.Programs(2, mp.amdahl_env, place, *words, "-o", "signalled", present=present, port=port) as world:
            time.sleep(0.6)
            world.ranks[0].signal(signal.SIGTERM)
            world.wait_all(3)
            world.expect(128 + signal.SIGTERM, "error[interrupted]")
    print(f"ok: strangers before the ranks have met take no memory ({peak >> 10} MiB); SIGTERM ends the wait")


def check_a_rank_started_again(place):
    """The second one is told, and the job goes on."""
    port = mp.free_port()
    with mp.Programs(2, mp.amdahl_env, place, *TRAIN, "--epochs", "100000", "-q", "--checkpoint-every", "20", "-o", "once", port=port) as world:
        wait_for(os.path.join(place, "once", "checkpoints", "step-*.safetensors"), world)
        for rank in (0, 1):
            with mp.Programs(2, mp.amdahl_env, place, *TRAIN, "--epochs", "1", "-o", "again", present=[rank], port=port) as again:
                again.wait_all(10)
                again.expect(2, f"error[launcher-mismatch]: rank {rank}: a second process says that it is rank {rank} (process ")
        still_trains(world, place, "once")
    print("ok: a rank that is started a second time ends with launcher-mismatch, and the job goes on")


mp.program()
with tempfile.TemporaryDirectory(prefix="amdahl-test-") as folder:
    check_a_job_at_the_next_port(folder)
    check_strange_frames_while_it_trains(folder)
    check_frames_before_the_others_are_there(folder)
    check_a_rank_started_again(folder)

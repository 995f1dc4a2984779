"""`amdahl collectives` over two hosts of two ranks each: two network namespaces with host names of their own, joined by a
veth pair. Every collective verified; a host that dies, falls off the network or never comes is named by the others."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import mp_support as mp

PROGRAM = os.path.join(os.path.abspath(sys.argv[2]), "bin", "amdahl")
PER_HOST = 2
HOSTS = ("amdahl-a", "amdahl-b")
ADDRESSES = ("10.77.0.1", "10.77.0.2")
LINKS = ("veth-a", "veth-b")
ALL = "all_reduce,all_gather,reduce_scatter,broadcast,reduce,sendrecv,all_to_all,gather,scatter"
LIMIT = 2.0  # seconds beyond what must pass
SWEEP = ("--collective", ALL, "-b", "1K", "-e", "256K", "-f", "16", "-n", "3", "-w", "1")
SHORT = ("--collective", "all_reduce", "-b", "1K", "-e", "4K", "-n", "3", "-w", "1")
ENDLESS = ("--collective", "all_reduce", "-b", "1M", "-e", "1M", "-n", "1000000", "-w", "0")


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(77)


def need_hosts():
    """What it takes to make hosts, or a skip. Root of a user namespace does as well as root; a process that is neither cannot make hosts."""
    for tool, package in (("ip", "iproute2"), ("unshare", "util-linux"), ("nsenter", "util-linux"), ("hostname", "hostname")):
        if not shutil.which(tool):
            skip(f"{tool} is not installed (Debian: {package})")
    if not os.path.exists(PROGRAM):
        skip(f"{PROGRAM} is not built")
    backends = json.loads(subprocess.run([PROGRAM, "info", "--json"], capture_output=True, text=True, check=True,
                                         env=mp.clean_environment()).stdout)["backends"]
    gloo = next(backend for backend in backends if backend["name"] == "gloo")
    if not gloo["ok"]:
        skip(f"gloo: {gloo['reason']}")
    tried = subprocess.run(["unshare", "--net", "--uts", "true"], capture_output=True, text=True)
    if tried.returncode == 0:
        return
    mapped = ["unshare", "--user", "--map-root-user"]
    if os.environ.get("AMDAHL_TEST_MAPPED") or subprocess.run([*mapped, "unshare", "--net", "--uts", "true"],
                                                             capture_output=True).returncode != 0:
        skip(f"no network namespace for this user: {tried.stderr.strip()}")
    os.environ["AMDAHL_TEST_MAPPED"] = "1"
    os.execvp(mapped[0], [*mapped, sys.executable, *sys.argv])


class Hosts:
    """Two namespaces, each alive as long as the process that holds it, so that nothing stays behind."""

    def __enter__(self):
        self.holders = [subprocess.Popen(["unshare", "--net", "--uts", "sh", "-c", f"hostname {name} && echo up && exec sleep 250"],
                                         stdout=subprocess.PIPE, text=True) for name in HOSTS]
        try:
            for holder in self.holders:
                assert holder.stdout.readline() == "up\n", "a namespace did not come up"
            self.connect()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for holder in self.holders:
            holder.kill()
            holder.wait()

    def inside(self, host):
        return ["nsenter", "--target", str(self.holders[host].pid), "--net", "--uts", "--"]

    def ip(self, host, *words):
        done = subprocess.run([*self.inside(host), "ip", *words], capture_output=True, text=True)
        assert done.returncode == 0, f"ip {' '.join(words)} on {HOSTS[host]}: {done.stderr}"
        return done.stdout

    def connect(self):
        made = subprocess.run([*self.inside(0), "ip", "link", "add", LINKS[0], "type", "veth", "peer", "name", LINKS[1],
                               "netns", str(self.holders[1].pid)], capture_output=True, text=True)
        if made.returncode != 0:
            skip(f"no veth pair on this kernel: {made.stderr.strip()}")
        for host in range(len(HOSTS)):
            self.ip(host, "address", "add", f"{ADDRESSES[host]}/24", "dev", LINKS[host])
            for link in ("lo", LINKS[host]):
                self.ip(host, "link", "set", link, "up")

    def received_bytes(self, host):
        return json.loads(self.ip(host, "-json", "-statistics", "link", "show", LINKS[host]))[0]["stats64"]["rx"]["bytes"]

    def wait_for_traffic(self, size):
        end = time.monotonic() + 30
        start = self.received_bytes(1)
        while self.received_bytes(1) < start + size:
            assert time.monotonic() < end, "no traffic between the hosts"
            time.sleep(0.05)


def torchrun_variables(host, local, number):
    return {"RANK": number, "WORLD_SIZE": PER_HOST * len(HOSTS), "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": PER_HOST,
            "MASTER_ADDR": ADDRESSES[0], "MASTER_PORT": 29500}


def srun_variables(host, local, number):
    return {"SLURM_JOB_ID": 4711, "SLURM_STEP_ID": 0, "SLURM_PROCID": number, "SLURM_NTASKS": PER_HOST * len(HOSTS),
            "SLURM_LOCALID": local, "SLURM_NNODES": len(HOSTS), "AMDAHL_MASTER_ADDR": ADDRESSES[0]}


def mpirun_variables(host, local, number):
    return {"OMPI_COMM_WORLD_RANK": number, "OMPI_COMM_WORLD_SIZE": PER_HOST * len(HOSTS),
            "OMPI_COMM_WORLD_LOCAL_RANK": local, "OMPI_COMM_WORLD_LOCAL_SIZE": PER_HOST,
            "PMIX_NAMESPACE": "prterun-amdahl-a-4711@1", "PMIX_RANK": number, "AMDAHL_MASTER_ADDR": ADDRESSES[0]}


def plain_variables(host, local, number):
    return {"AMDAHL_RANK": number, "AMDAHL_WORLD_SIZE": PER_HOST * len(HOSTS), "AMDAHL_LOCAL_RANK": local,
            "AMDAHL_LOCAL_WORLD_SIZE": PER_HOST, "AMDAHL_MASTER_ADDR": ADDRESSES[0], "AMDAHL_MASTER_PORT": 29600}


class Program(mp.World):
    """Two ranks of `amdahl collectives` on each of `present` hosts, with the variables of a launcher."""

    def __init__(self, hosts, *words, timeout=20, present=(0, 1), launcher=torchrun_variables):
        self.ranks = []
        for number in range(PER_HOST * len(HOSTS)):
            host, local = divmod(number, PER_HOST)
            if host not in present:
                continue
            variables = launcher(host, local, number)
            rank = object.__new__(mp.Rank)
            rank.number = number
            rank.output = tempfile.TemporaryFile(mode="w+")
            rank.process = subprocess.Popen(
                [*hosts.inside(host), PROGRAM, "collectives", "--backend", "cpu", "--timeout", str(timeout), "-q", *words],
                env={**mp.clean_environment(), **{k: str(v) for k, v in variables.items()}}, stdout=rank.output,
                stderr=subprocess.STDOUT)
            self.ranks.append(rank)

    def on(self, host):
        return [rank for rank in self.ranks if rank.number // PER_HOST == host]


def cells_of(records):
    return sorted(json.dumps({k: v for k, v in r["axes"].items() if k != "transport"}, sort_keys=True) for r in records)


def check_results(hosts):
    before = hosts.received_bytes(1)
    with Program(hosts, *SWEEP, "--json") as world:
        world.wait_all(90)
        world.expect(0)
    assert not any(rank.text() for rank in world.ranks[1:]), "more than one speaker:\n" + world.texts()
    records = json.loads(world.ranks[0].text())["records"]
    for record in records:
        wrong = [s["samples"] for s in record["series"] if s["name"] == "wrong"]
        assert record["status"]["kind"] == "ok" and wrong == [[0]] and record["axes"]["transport"] == "gloo", record
        assert record["provenance"]["host"] == HOSTS[0], record["provenance"]
    one_host = subprocess.run([PROGRAM, "collectives", "--backend", "cpu", "--devices", "4", "-q", *SWEEP, "--json"],
                              env=mp.clean_environment(), capture_output=True, text=True, check=True)
    assert cells_of(records) == cells_of(json.loads(one_host.stdout)["records"]), "not the cells of four ranks on one host"
    crossed = hosts.received_bytes(1) - before
    assert crossed > 2**20, f"only {crossed} bytes went from {HOSTS[0]} to {HOSTS[1]}"
    print(f"ok: {len(records)} records of {len(ALL.split(','))} collectives, every element right, {crossed:,} bytes crossed")


def check_launchers(hosts):
    """The variables of docs/multi-node.md's table, as each launcher sets them on two hosts."""
    for launcher in (srun_variables, mpirun_variables, plain_variables):
        with Program(hosts, *SHORT, "--json", launcher=launcher) as world:
            world.wait_all(30)
            world.expect(0)
        records = json.loads(world.ranks[0].text())["records"]
        assert records and all(record["axes"]["devices"] == 4 for record in records), records
        print(f"ok: {launcher.__name__.split('_')[0]}: four ranks on two hosts")


def check_no_address(hosts):
    def without(host, local, number):
        return {k: v for k, v in srun_variables(host, local, number).items() if k != "AMDAHL_MASTER_ADDR"}
    with Program(hosts, *SHORT, launcher=without) as world:
        world.wait_all(20)
        world.expect(2, "no address of rank 0")
    print("ok: srun without AMDAHL_MASTER_ADDR is refused with the variable to set")


def check_host_dies(hosts, victim):
    with Program(hosts, *ENDLESS) as world:
        hosts.wait_for_traffic(2**23)
        for rank in world.on(victim):
            rank.signal(signal.SIGKILL)
        survivors = world.on(1 - victim)
        worst = max(world.wait_all(10, survivors).values())
        world.expect(4, "died", survivors)
        for rank in survivors:
            assert any(f"rank {dead.number} " in rank.text() for dead in world.on(victim)), world.texts()
    assert worst <= LIMIT, f"{worst:.2f} s"
    print(f"ok: kill -9 of both ranks of {HOSTS[victim]}: the other host names one of them within {worst:.2f} s")


def check_host_falls_off(hosts, timeout=3):
    """No end of file comes: only silence tells, and each side names a rank of the other."""
    with Program(hosts, *ENDLESS, timeout=timeout) as world:
        hosts.wait_for_traffic(2**23)
        hosts.ip(1, "link", "set", LINKS[1], "down")
        worst = max(world.wait_all(timeout + 10).values())
        for rank in world.ranks:
            others = world.on(1 - rank.number // PER_HOST)
            assert rank.process.returncode == 6, world.texts()
            assert any(f"rank {other.number}" in rank.text() for other in others), world.texts()
    hosts.ip(1, "link", "set", LINKS[1], "up")
    assert worst <= timeout + 2 * LIMIT, f"{worst:.2f} s with a timeout of {timeout} s"
    print(f"ok: {HOSTS[1]} off the network: both sides name the other within {worst:.2f} s, timeout {timeout} s")


def check_host_never_comes(hosts, timeout=3):
    with Program(hosts, *ENDLESS, timeout=timeout, present=(0,)) as world:
        worst = max(world.wait_all(timeout + 10).values())
        for rank in world.ranks:
            assert rank.process.returncode == 4 and "ranks 2, 3 did not reach" in rank.text(), world.texts()
    assert worst <= timeout + 2 * LIMIT, f"{worst:.2f} s with a timeout of {timeout} s"
    print(f"ok: {HOSTS[1]} never comes: ranks 2 and 3 are named {worst:.2f} s after the start, timeout {timeout} s")


need_hosts()
with Hosts() as two:
    check_results(two)
    check_launchers(two)
    check_no_address(two)
    check_host_dies(two, 1)
    check_host_dies(two, 0)
    check_host_falls_off(two)
    check_host_never_comes(two)

"""Files that a command is told to write: links, devices and pipes stay what they are, and nothing else is replaced."""
import json
import os
import pathlib
import socket
import stat
import subprocess
import threading

import harness
from harness import TINY

SCAN = harness.SOURCE / "data" / "vlp16.ply"
CPU = ("--backend", "cpu")


def prepare(case):
    case.run("study", *TINY, "--runs", "2", "-q", "-o", "r")


def outputs():
    """Every command with an option that names a file, last in its words, and the ending that the file needs."""
    collectives = ("collectives", *CPU, "-q", "-n", "1", "-w", "1", "-b", "1K", "-e", "1K", "--devices", "2")
    links = ("links", *CPU, "-q", "-b", "64K", "-i", "1", "-t", "device_to_device_memcpy_write_ce")
    return [
        (("info", "--topology", "-o"), ""),
        (("report", "r", "--csv"), ".csv"),
        (("report", "r", "--jsonl"), ".jsonl"),
        (("report", "r", "-q", "--html"), ".html"),
        (("report", "r", "-q", "--md"), ".md"),
        (("compare", "r", "r", "--html"), ".html"),
        (("report", "r", "--metrics"), ".prom"),
        ((*collectives, "--arena=threads", "--env-file"), ".sh"),
        ((*links, "--machine"), ".json"),
        (("sensor", "voxelize", SCAN, *CPU, "-q", "--voxel-size", "1", "-o"), ".npy"),
        (("study", *TINY, "--runs", "1", "-q", "--resume", "-o", "r", "--trace"), ".json"),
    ]


def node(case, name, kind, major, minor):
    """A device of the case; skipped where none can be made, or a character device not opened."""
    path = case.path(name)
    try:
        os.mknod(path, 0o666 | kind, os.makedev(major, minor))
        if kind == stat.S_IFCHR:
            os.close(os.open(path, os.O_WRONLY))
    except OSError as problem:
        raise harness.Skip(f"no device can be made here: {problem}")
    return path


def check_character_devices_stay(case):
    prepare(case)
    null = node(case, "null", stat.S_IFCHR, 1, 3)
    for words, _ in outputs():
        case.run(*words, "null")
        assert stat.S_ISCHR(null.stat().st_mode), f"{words} made a file of the device"
        case.run(*words, "/dev/null")  # after the other: a faulty program would replace this one too
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert not list(case.folder.glob("*.tmp*")) and not list(case.folder.glob("*_charts")), "something beside the device"
    assert not os.path.exists("/dev/null_charts")


def check_links_lead_to_the_file(case):
    prepare(case)
    case.path("far").mkdir()
    for number, (words, ending) in enumerate(outputs()):
        link, target = case.path(f"link{number}{ending}"), case.path(f"far/target{number}{ending}")
        middle = case.path(f"far/middle{number}{ending}")
        link.symlink_to(f"far/{middle.name}")
        middle.symlink_to(target.name)
        case.run(*words, link.name)  # to a file that is not there yet
        assert link.is_symlink() and middle.is_symlink() and target.is_file() and not target.is_symlink(), words
        first = target.stat()
        assert first.st_size > 0, words
        target.chmod(0o640)
        case.run(*words, link.name)
        assert link.is_symlink() and target.stat().st_ino != first.st_ino, f"{words} left the old file"
        assert stat.S_IMODE(target.stat().st_mode) == 0o640, f"{words} changed the permissions"
    assert not [name for name in os.listdir(case.path("far")) if ".tmp" in name]
    case.path("round").symlink_to("round")
    case.refused(2, "usage", "info", "--topology", "-o", "round", says=["round", "symbolic links"])


def check_pipes_get_the_bytes(case):
    prepare(case)
    for number, (words, ending) in enumerate(outputs()):
        fifo = case.path(f"fifo{number}{ending}")
        os.mkfifo(fifo)
        got = []
        reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()), daemon=True)
        reader.start()
        case.run(*words, fifo.name)
        reader.join(20)
        assert stat.S_ISFIFO(fifo.stat().st_mode), f"{words} made a file of the pipe"
        assert got and got[0], f"{words} wrote nothing into the pipe"
    csv = case.run("report", "r", "--csv", "-").stdout
    case.path("standard").symlink_to("/proc/self/fd/1")  # before /dev/stdout, which a faulty program would replace
    assert case.run("report", "r", "--csv", "standard").stdout == csv and case.path("standard").is_symlink()
    assert case.run("report", "r", "--csv", "/dev/stdout").stdout == csv
    assert case.run("report", "r", "--csv", "/dev/fd/1").stdout == csv
    assert case.run("report", "r", "--csv", "/dev/stderr").stderr == csv
    json.loads(case.run("info", "--topology", "--json", "-o", "/dev/stdout").stdout)  # the file's name is not among it
    with open(case.path("all.txt"), "w") as out:  # what stdout is redirected to keeps what is in it
        out.write("before\n")
        out.flush()
        subprocess.run([harness.AMDAHL, "report", "r", "--csv", "/dev/stdout"], cwd=case.folder, env=harness.ENVIRONMENT,
                       stdout=out, check=True)
    assert case.path("all.txt").read_bytes().decode() == "before\n" + csv.replace("\n", "\r\n")
    assert pathlib.Path("/dev/stdout").is_symlink()


def check_what_is_no_file_is_refused(case):
    prepare(case)
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.bind(str(case.path("socket")))
        except OSError:  # a path too long for a socket
            pass
        names = ["socket"] if case.path("socket").exists() else []
        try:
            node(case, "block", stat.S_IFBLK, 7, 255)
            names.append("block")
        except harness.Skip as reason:
            print(f"   without a block device: {reason}")
        for words, ending in outputs():
            case.path(f"folder{ending}").mkdir(exist_ok=True)
            case.refused(2, "usage", *words, f"folder{ending}", says=[f"folder{ending}", "this is a folder"])
            for name in names:
                if ending:
                    case.path(f"{name}{ending}").symlink_to(name)
                says = {"socket": "this is a socket", "block": "this is a block device"}[name]
                case.refused(2, "usage", *words, f"{name}{ending}", says=[f"{name}{ending}", says])
                if ending:
                    os.unlink(case.path(f"{name}{ending}"))
        if "block" in names:
            assert stat.S_ISBLK(case.path("block").stat().st_mode)


def check_full_devices(case):
    prepare(case)
    full = node(case, "full", stat.S_IFCHR, 1, 7)
    for words in (("report", "r", "--csv"), ("info", "--topology", "-o"), ("report", "r", "--html")):
        case.refused(7, "disk-full", *words, "full", says=["full: cannot write", "free some space"])
        assert stat.S_ISCHR(full.stat().st_mode), words


def check_arrays_into_pipes(case):
    """A container of arrays is made whole before a byte of it is written."""
    words = ("sensor", "voxelize", SCAN, *CPU, "-q", "--voxel-size", "1", "-o")
    libzip = next(b for b in json.loads(case.run("info", "--json").stdout)["backends"] if b["name"] == "libzip")
    if not libzip["ok"]:
        raise harness.Skip("built without libzip")
    case.run(*words, "file.npz")
    os.mkfifo(case.path("fifo.npz"))
    got = []
    reader = threading.Thread(target=lambda: got.append(case.path("fifo.npz").read_bytes()), daemon=True)
    reader.start()
    case.run(*words, "fifo.npz")
    reader.join(20)
    whole = case.path("file.npz").read_bytes()
    assert got and len(got[0]) == len(whole) and got[0][:4] == b"PK\x03\x04" and b"PK\x05\x06" in got[0][-30:]
    case.path("link.npz").symlink_to("target.npz")
    case.run(*words, "link.npz")
    assert case.path("link.npz").is_symlink() and case.path("target.npz").stat().st_size == len(whole)


harness.main(globals())

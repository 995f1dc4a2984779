"""In a control group of half a processor, `info` counts one core and names the limit, and a study that was stopped for it says so.
Needs a control group that this user may make (version 1 or 2)."""
import os
import pathlib
import subprocess

import harness
from harness import AMDAHL, ENVIRONMENT

MOUNTS = (("/sys/fs/cgroup/cpu", {"cpu.cfs_quota_us": "50000"}), ("/sys/fs/cgroup", {"cpu.max": "50000 100000"}))


def half_a_processor():
    """The folder of a new group."""
    for mount, limits in MOUNTS:
        folder = pathlib.Path(mount) / f"amdahl-test-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            for name, value in limits.items():
                (folder / name).write_text(value)
            return folder
        except OSError:
            folder.rmdir()
    raise harness.Skip("no control group with a limit of processors can be made here")


def check_half_a_processor(case):
    group = half_a_processor()
    script = f'echo $$ > {group}/cgroup.procs && "$0" "$@"'

    def inside(*words):
        result = subprocess.run(["bash", "-c", script, AMDAHL, *words], cwd=case.folder, env=ENVIRONMENT, capture_output=True,
                                text=True, timeout=100)
        if "write error" in result.stderr or "Permission denied" in result.stderr:
            raise harness.Skip(f"a process cannot enter the group: {result.stderr}")
        assert result.returncode == 0, result
        return result.stdout + result.stderr

    try:
        assert ", 1 core (limited to 0.5 by the control group)" in inside("info")
        inside("study", "--backend", "cpu", "--devices", "1,2", "--batch-sizes", "64", "--runs", "4", "--steps", "500", "-o", "run")
        text = case.path("run/report.md").read_text()
        assert "the job was throttled: its control group's limit of processors" in text, text
    finally:
        group.rmdir()


harness.main(globals())

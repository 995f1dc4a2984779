"""The image of Containerfile builds, and amdahl runs in it. Skipped where no builder works."""
import pathlib
import shutil
import subprocess
import sys

source = pathlib.Path(sys.argv[1])
SKIPPED, NAME = 77, "amdahl-test-image"


def builder():
    """The first program that can build images here, or the reasons why there is none."""
    reasons = []
    for program in ("podman", "docker"):
        if not shutil.which(program):
            reasons.append(f"no {program}")
            continue
        works = subprocess.run([program, "pull", "-q", "debian:12-slim"], capture_output=True, text=True, timeout=120)
        if works.returncode == 0:
            return program
        reasons.append(f"{program}: {(works.stderr.strip().splitlines() or ['failed'])[-1]}")
    print("SKIP:", "; ".join(reasons))
    sys.exit(SKIPPED)


program = builder()
subprocess.run([program, "build", "-f", source / "Containerfile", "-t", NAME, source], check=True, timeout=1500)
try:
    done = subprocess.run([program, "run", "--rm", NAME, "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.startswith("amdahl "), done.stdout
finally:
    subprocess.run([program, "rmi", "-f", NAME], capture_output=True, timeout=60)

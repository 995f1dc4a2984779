"""A build for GPUs before compute capability 9.0 links: the stubs define every function that others call of the kernels
that need 9.0.

usage: older_gpus_test.py SOURCE_DIR BINARY_DIR
"""
import glob
import os
import subprocess
import sys

binary = sys.argv[2]


def symbols(folder, flag):
    """Defined or undefined symbols of the objects in a target's folder."""
    objects = glob.glob(os.path.join(binary, "src", "**", folder + ".dir", "**", "*.o"), recursive=True)
    if not objects:
        return None
    listing = subprocess.run(["nm", "--format=posix", flag, *objects], capture_output=True, text=True, check=True).stdout
    return {line.split()[0] for line in listing.splitlines() if line.split()[1:2] and line.split()[1] in "TBDRU"}


needs_hopper = symbols("amdahl_small_kernels", "--defined-only")
older = symbols("amdahl_older_kernels", "--defined-only")
if not needs_hopper or not older:
    print("skipped: the CUDA backend's target amdahl_older_kernels is not built here")
    sys.exit(77)
called = symbols("amdahl_ops", "--undefined-only")
missing = sorted(name for name in needs_hopper & called if name not in older)
print(f"{len(needs_hopper & called)} functions of kernels that need 9.0 are called, {len(missing)} have no stub")
if missing:
    sys.exit("no stub for: " + ", ".join(missing))
if not needs_hopper & called:
    sys.exit("no function of these kernels is called: the names of the targets changed")

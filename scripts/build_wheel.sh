#!/usr/bin/env bash
# Builds the wheel of the Python package amdahl-lab from this checkout: build/wheels/amdahl_lab-*.whl.
#
#   [PYTHON=python3.12] [JOBS=N] scripts/build_wheel.sh FOLDER PREFIX
#
# PREFIX: an installed amdahl, built without MPI, whose library and program the wheel takes (make wheel makes one).
# From Python 3.12 on the wheel is for that and every later Python (abi3), before for that Python alone. Libraries of the
# system are copied into the wheel, those of CUDA never. The platform tag is the oldest glibc that the wheel runs with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PYTHON=${PYTHON:-python3}
[ $# -eq 2 ] || { sed -n '2,8p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
FOLDER=$(realpath -m "$1")
PREFIX=$(realpath -m "$2")
MOST_BYTES=$((40 * 1000 * 1000))

say() { echo "build_wheel: $*" >&2; }
[ -x "$PREFIX/bin/amdahl" ] || { say "$PREFIX has no bin/amdahl: cmake --install build/release --prefix $2"; exit 2; }
version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || { say "PYTHON=$PYTHON does not start"; exit 3; }
tools=$PWD/.deps/wheel-$version/bin
if ! "$tools/python" -c 'import scikit_build_core, nanobind, cmake, auditwheel, abi3audit' 2>/dev/null; then
  say "the tools for Python $version are not there: PYTHON=$PYTHON scripts/install_deps.sh wheel"
  exit 3
fi
export PATH=$tools:$PATH

raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
log=build/wheel-$version.log
mkdir -p build "$FOLDER"
[ -n "${JOBS:-}" ] && export CMAKE_BUILD_PARALLEL_LEVEL=$JOBS
if ! python -m pip wheel --verbose --disable-pip-version-check --no-deps --no-build-isolation -w "$raw" \
     --config-settings "build-dir=$PWD/build/wheel-module/{wheel_tag}" \
     --config-settings "cmake.define.AMDAHL_PREBUILT=$PREFIX" ./python >"$log" 2>&1; then
  grep -iE 'error|FAILED' "$log" | head -n 20 >&2
  say "the build failed, $log has all of it"
  exit 1
fi

excluded=()
for name in libcuda libcudart libcublas libcublasLt libcudnn libnccl libnvrtc libnvshmem libmpi; do
  excluded+=(--exclude "$name.so*" --exclude "${name}[-_]*.so*")  # patterns, since names end with a version
done
auditwheel repair --strip "${excluded[@]}" -w "$raw/repaired" "$raw"/amdahl_lab-*.whl >>"$log" 2>&1 || { tail -n 5 "$log" >&2; exit 1; }
wheel=$(echo "$raw"/repaired/amdahl_lab-*.whl)
case $wheel in
  *-abi3-*) abi3audit --strict "$wheel" >>"$log" 2>&1 || { tail -n 20 "$log" >&2; say "the wheel is not abi3"; exit 1; } ;;
esac
bytes=$(stat -c %s "$wheel")
if [ "$bytes" -gt $MOST_BYTES ]; then
  say "$(basename "$wheel") has $bytes bytes, more than $MOST_BYTES"
  exit 1
fi
mv "$wheel" "$FOLDER/"
echo "$FOLDER/$(basename "$wheel")"

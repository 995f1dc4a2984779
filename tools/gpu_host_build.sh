#!/usr/bin/env bash
# Builds amdahl with CUDA on a GPU host that cannot install packages: unpacks the Debian packages found in .deps/ into a
# prefix, takes NCCL from the Python environment when there is one, and uses all cores.
# Usage: tools/gpu_host_build.sh [build-dir] [cmake options]; then source the printed env file.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/cuda}
shift || true
prefix=$PWD/build/prefix
mkdir -p "$prefix" "$build"
for package in .deps/*.deb; do [ -e "$package" ] && dpkg -x "$package" "$prefix"; done
python=$(command -v python3)
nccl=$("$python" - <<'PY' || true
import importlib.util, os
spec = importlib.util.find_spec("nvidia.nccl")
print(os.path.join(list(spec.submodule_search_locations)[0]) if spec else "")
PY
)
arguments=(-G Ninja -S . -B "$build" -DAMDAHL_CUDA=ON -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=$prefix/usr" "$@")
libraries=$prefix/usr/lib/x86_64-linux-gnu
if [ -n "$nccl" ]; then
  arguments+=("-DAMDAHL_NCCL_INCLUDE=$nccl/include")
  libraries=$nccl/lib:$libraries
fi
cmake "${arguments[@]}" > "$build/configure.log" 2>&1 || { tail -30 "$build/configure.log"; exit 1; }
ninja -C "$build" > "$build/build.log" 2>&1 || { grep -E 'error|FAILED|undefined' "$build/build.log" | head -40; exit 1; }
echo "export LD_LIBRARY_PATH=$libraries:\${LD_LIBRARY_PATH:-}" > "$build/env.sh"
echo "built $build; source $build/env.sh"

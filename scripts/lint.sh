#!/usr/bin/env bash
# clang-tidy over the sources of a configured build folder; findings are errors.
#
#   scripts/lint.sh BUILD_FOLDER [--all]
#
# Checks the sources that a change touches, then those that include a header that it touches, nearest first, until
# LINT_SECONDS (default 240) are over; --all: every source, without a limit. It prints how many files it covered.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:?usage: scripts/lint.sh BUILD_FOLDER [--all]}
which=${2:-changed}
tidy=${CLANG_TIDY:-clang-tidy-14}
jobs=${JOBS:-$(nproc)}
cap_seconds=${LINT_SECONDS:-240}
[ -f "$folder/compile_commands.json" ] || { echo "lint: $folder is not configured (make lint does it)" >&2; exit 3; }

# The change: since the branch left its upstream; where that is at the same commit (a clone), of the day before HEAD.
base=$(git merge-base HEAD '@{upstream}' 2>/dev/null || true)
if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
  base=$(git rev-list -1 --before="$(($(git show -s --format=%ct HEAD) - 86400))" HEAD)
fi
order=$(mktemp) status=$(mktemp -d)
trap 'rm -rf "$order" "$status"' EXIT
git diff --name-only "${base:-HEAD~1}" -- src include | python3 scripts/lint_order.py "$folder/compile_commands.json" "$which" >"$order"
total=$(wc -l <"$order")
if [ "$total" -eq 0 ]; then
  echo "lint: no source of src/ changed since ${base:0:12}"
  exit 0
fi

end=$((SECONDS + cap_seconds))
export tidy folder status
run_one() {
  local out="$status/$(echo "$1" | tr / _)"
  if ! "$tidy" --quiet --extra-arg=-Wno-unknown-warning-option -p "$folder" "$1" >"$out.log" 2>/dev/null; then touch "$out.failed"; fi
  touch "$out.done"
}
export -f run_one
while read -r file; do
  [ "$which" = --all ] || [ "$SECONDS" -lt "$end" ] || break
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
  run_one "$file" &
done <"$order"
wait

covered=$(find "$status" -name '*.done' | wc -l)
failed=$(find "$status" -name '*.failed' | wc -l)
for log in "$status"/*.failed; do [ -e "$log" ] && cat "${log%.failed}.log"; done
echo "lint: $covered of $total files checked, $failed with findings"
[ "$failed" -eq 0 ]

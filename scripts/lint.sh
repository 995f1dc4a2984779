#!/usr/bin/env bash
# clang-tidy over the sources of a configured build folder; findings are errors.
#
#   scripts/lint.sh BUILD_FOLDER
#
# Changed files come first, then the others in an order that differs from commit to commit, until LINT_SECONDS (default
# 300) are over: every run is bounded and every file gets its turn. It prints how many files it covered.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:?usage: scripts/lint.sh BUILD_FOLDER}
tidy=${CLANG_TIDY:-clang-tidy-14}
jobs=${JOBS:-$(nproc)}
cap_seconds=${LINT_SECONDS:-300}
[ -f "$folder/compile_commands.json" ] || { echo "lint: $folder is not configured (make lint does it)" >&2; exit 3; }

mapfile -t compiled < <(python3 - "$folder/compile_commands.json" <<'PY'
import json, os, sys
print("\n".join(sorted({os.path.relpath(e["file"]) for e in json.load(open(sys.argv[1]))})))
PY
)
base=$(git merge-base HEAD '@{upstream}' 2>/dev/null || git rev-parse HEAD~1 2>/dev/null || git rev-parse HEAD)
order=$(mktemp) status=$(mktemp -d)
trap 'rm -rf "$order" "$status"' EXIT
{
  git diff --name-only "$base" -- src
  git ls-files 'src/*.cpp' 'src/**/*.cpp' | shuf --random-source=<(yes "$(git rev-parse HEAD)")
} | awk '!seen[$0]++' | grep -Fx -f <(printf '%s\n' "${compiled[@]}") >"$order" || true
total=$(wc -l <"$order")
[ "$total" -gt 0 ] || { echo "lint: no source of src/ is in $folder/compile_commands.json" >&2; exit 1; }

end=$((SECONDS + cap_seconds))
export tidy folder status
run_one() {
  local out="$status/$(echo "$1" | tr / _)"
  if ! "$tidy" --quiet --extra-arg=-Wno-unknown-warning-option -p "$folder" "$1" >"$out.log" 2>/dev/null; then touch "$out.failed"; fi
  touch "$out.done"
}
export -f run_one
while read -r file; do
  [ "$SECONDS" -ge "$end" ] && break
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
  run_one "$file" &
done <"$order"
wait

covered=$(find "$status" -name '*.done' | wc -l)
failed=$(find "$status" -name '*.failed' | wc -l)
for log in "$status"/*.failed; do [ -e "$log" ] && cat "${log%.failed}.log"; done
echo "lint: $covered of $total files checked, $failed with findings"
[ "$failed" -eq 0 ]

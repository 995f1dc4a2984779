#!/usr/bin/env bash
# Says after a run of ctest how many cases the test programs ran and which were skipped, with the reason.
#
#   scripts/test_summary.sh BUILD_FOLDER
set -euo pipefail
log=$1/Testing/Temporary/LastTest.log
[ -f "$log" ] || { echo "test_summary: $log is missing" >&2; exit 3; }
awk '
  /^\[==========\] [0-9]+ tests? from .* ran\./ { cases += $2 }
  /: Skipped$/                                 { getline reason; print "skipped: " reason }
  /^skipped: /                                 { print }
  END { printf "%d cases ran in the test programs\n", cases }
' "$log"

#!/usr/bin/env bash
# Does an installed program read the data that were installed with it, or those that TRAINYARD_DATA names?
#
#   tests/tools/installed_data_test.sh BUILD_DIRECTORY SCENARIO
set -euo pipefail
build=$(realpath "$1")
scenario=$(realpath "$2")
source=$(realpath "$(dirname "$0")/../..")
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cmake --install "$build" --prefix "$tree" >/dev/null
program=$tree/bin/trainyard
data=$tree/share/trainyard
failures=0

fail() {
  printf '%s\n' "$*" >&2
  failures=$((failures + 1))
}

# runs STATUS NAME=VALUE...: what a run ends with in that environment.
runs() {
  local status=0 wanted=$1
  shift
  env "$@" "$program" run "$scenario" >"$tree/said" 2>&1 || status=$?
  [ "$status" -eq "$wanted" ] || fail "expected exit code $wanted with $*, not $status: $(tail -1 "$tree/said")"
}

# Every folder that the sources ask data_file and data_names for.
folders=$(grep -rhoE '"(models|topologies|kernels|sim|tools)/[a-z_/]+"' --include='*.cpp' \
  "$source"/{models,topologies,kernels,sim,scenarios,tools} | tr -d '"' | sort -u)
for folder in $folders; do
  ls "$source/$folder"/*.json >/dev/null 2>&1 || continue
  ls "$data/$folder"/*.json >/dev/null 2>&1 || fail "$folder is not installed"
done
[ "$(wc -w <<<"$folders")" -ge 12 ] || fail "only these folders were found: $folders"

runs 0
mv "$data" "$tree/elsewhere"
runs 0 TRAINYARD_DATA="$tree/elsewhere"
mv "$tree/elsewhere/sim" "$tree/sim"
runs 2 TRAINYARD_DATA="$tree/elsewhere"
mv "$tree/elsewhere" "$data"
runs 2
exit "$failures"

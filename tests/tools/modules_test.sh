#!/usr/bin/env bash
# Are modules found where they are installed, and is one that does not fit or is missing named?
#
#   tests/tools/modules_test.sh BUILD_DIRECTORY SCENARIO
set -euo pipefail
build=$(realpath "$1")
scenario=$(realpath "$2")
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
cmake --install "$build" --prefix "$tree" >/dev/null
program=$tree/bin/trainyard
module=$(find "$tree" -path '*/trainyard/trainyard-simgrid.so')
[ -n "$module" ] || { echo "the module is not installed" >&2 && exit 1; }
failures=0

# expect STATUS PATTERN COMMAND...: what it ends with and says.
expect() {
  local status=0 said wanted=$1 pattern=$2
  shift 2
  said=$("$@" 2>&1) || status=$?
  if [ "$status" -ne "$wanted" ] || ! grep -q "$pattern" <<<"$said"; then
    printf 'expected exit code %s and "%s" of: %s\n  exit code %s, said:\n%s\n' \
      "$wanted" "$pattern" "$*" "$status" "$said" >&2
    failures=$((failures + 1))
  fi
}

expect 0 'one step takes' "$program" run "$scenario"
# What the installed program loads is what is installed, not what it was built from.
cp "$module" "$tree/kept.so"
echo 'no shared object' >"$module"
expect 2 "^trainyard: $module: SimGrid cannot be loaded: " "$program" run "$scenario"
expect 0 'trainyard' "$program" --version
expect 0 'one step takes' "$program" run "$scenario" --engine ideal
# One beside the program comes first. libz stands for a module of another interface.
cp "$(ldd "$program" | awk '/libz\.so/ { print $3 }')" "$tree/bin/trainyard-simgrid.so"
expect 2 "^trainyard: $tree/bin/trainyard-simgrid.so: belongs to another build of trainyard" \
  "$program" run "$scenario"
cp "$tree/kept.so" "$tree/bin/trainyard-simgrid.so"
expect 0 'one step takes' "$program" run "$scenario"
# Only the live page needs the module of its server.
server=$(find "$tree" -path '*/trainyard/trainyard-http.so')
rm "$server"
expect 0 'one step takes' "$program" run "$scenario"
expect 2 "^trainyard: $tree/lib.*/trainyard-http.so: the module that holds the HTTP server is not there" "$program" serve
exit "$failures"

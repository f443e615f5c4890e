#!/usr/bin/env bash
# Does an installed tree work after it was moved, without the sources, with the data that were installed or that the user has?
#
#   tests/tools/installed_tree_test.sh BUILD_DIRECTORY
#
# Where the library is built too (TRAINYARD_LIBRARY), its example is compiled against the moved tree.
set -euo pipefail
build=$(realpath "$1")
source=$(realpath "$(dirname "$0")/../..")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HOME=$scratch/home
unset TRAINYARD_DATA XDG_DATA_HOME XDG_CONFIG_HOME
mkdir "$HOME" "$scratch/elsewhere"
cmake --install "$build" --prefix "$scratch/installed" >/dev/null
mv "$scratch/installed" "$scratch/elsewhere/moved"
tree=$scratch/elsewhere/moved
program=$tree/bin/trainyard
data=$tree/share/trainyard
failures=0

fail() {
  printf '%s\n' "$*" >&2
  failures=$((failures + 1))
}

# Runs a command where the folder of the sources, and of the build in it, is empty.
how=()
for options in --mount "--user --map-root-user --mount"; do
  # shellcheck disable=SC2086  # these are words
  if unshare $options mount -t tmpfs none "$source" 2>/dev/null; then
    read -ra how <<<"unshare $options"
    break
  fi
done
[ ${#how[@]} -gt 0 ] || echo "THE SOURCES ARE NOT HIDDEN: this system lets nobody mount; the tree is run with them there" >&2
without_sources() {
  if [ ${#how[@]} -eq 0 ]; then
    (cd "$scratch" && "$@")
  else
    # shellcheck disable=SC2016  # the inner shell expands these
    "${how[@]}" bash -c 'mount -t tmpfs none "$1" && cd "$2" && shift 2 && exec "$@"' hide "$source" "$scratch" "$@"
  fi
}

# runs STATUS NAME=VALUE...: what a run ends with in that environment.
runs() {
  local status=0 wanted=$1
  shift
  without_sources env "$@" "$program" run scenarios/what_if/tensor.json >"$scratch/said" 2>&1 || status=$?
  [ "$status" -eq "$wanted" ] || fail "expected exit code $wanted with $*, not $status: $(tail -1 "$scratch/said")"
}

# Every folder that the sources ask data_file and data_names for.
folders=$(grep -rhoE '"(models|topologies|kernels|sim|tools)/[a-z_/]+"' --include='*.cpp' \
  "$source"/{models,topologies,kernels,sim,scenarios,tools} | tr -d '"' | sort -u)
for folder in $folders; do
  ls "$source/$folder"/*.json >/dev/null 2>&1 || continue
  ls "$data/$folder"/*.json >/dev/null 2>&1 || fail "$folder is not installed"
done
[ "$(wc -w <<<"$folders")" -ge 12 ] || fail "only these folders were found: $folders"
empty=$(find "$tree" -type d -empty)
[ -z "$empty" ] || fail "empty folders are installed: $empty"

# Pages, completions, licence and examples.
for file in share/man/man1/trainyard.1 share/man/man1/trainyard-show-topology.1 share/bash-completion/completions/trainyard \
  share/fish/vendor_completions.d/trainyard.fish share/doc/trainyard/LICENSE \
  share/doc/trainyard/README.md share/trainyard/scenarios/first/two_gpus.json; do
  [ -s "$tree/$file" ] || fail "$file is not installed"
done
find "$tree/share/zsh" -name _trainyard | grep -q . || fail "zsh's completion is not installed"

# The path of the sources is in no file of a release.
if grep -q '^CMAKE_BUILD_TYPE:STRING=Release$' "$build/CMakeCache.txt"; then
  # "/trainyard" is also in "share/trainyard", and a path relative to the build may end in it ("../trainyard/sim/base/").
  found=$(grep -rlaE "(^|[^.])$source/(sim/base|tools/cli|build)/" "$tree" || true)
  [ -z "$found" ] || fail "the path of the sources is in $found"
else
  echo "Whether the path of the sources is in the program is tested in builds for release only"
fi

# The moved tree gives what the program that was built gives.
runs 0
"$build/trainyard" run "$source/scenarios/what_if/tensor.json" >"$scratch/built"
cmp -s "$scratch/said" "$scratch/built" || fail "the moved tree gives another result: $(diff "$scratch/said" "$scratch/built")"

# The user's own files come first, are listed, and are named in the result.
own=$HOME/.local/share/trainyard
mkdir -p "$own/topologies/data" "$own/kernels/profiles" "$scratch/chosen/topologies/data"
sed 's/"gpu": *"[a-z0-9_]*"/"gpu": "own_gpu"/' "$data/topologies/data/dgx_h100.json" >"$own/topologies/data/own_node.json"
cp "$data/kernels/profiles/h100.json" "$own/kernels/profiles/own_gpu.json"
without_sources "$program" list nodes | grep -qx "  own_node  .*($own/topologies/data/own_node.json)" || fail "own_node is not listed"
scenario=scenarios/llama3/llama3_8b_8xh100.json
without_sources "$program" run "$scenario" --set cluster.node=own_node --json "$scratch/own.json" >"$scratch/said"
for line in "- node own_node: $own/topologies/data/own_node.json" "- GPU profile own_gpu: $own/kernels/profiles/own_gpu.json"; do
  tr -s '\n ' ' ' <"$scratch/said" | grep -qF -- "$line" || fail "the report does not say \"$line\""
done
[ "$(grep -c '"replaces_shipped": false' "$scratch/own.json")" -eq 2 ] || fail "the result does not name two files"
cp "$data/topologies/data/dgx_h100.json" "$scratch/chosen/topologies/data/own_node.json"
TRAINYARD_DATA=$scratch/chosen without_sources "$program" run "$scenario" --set cluster.node=own_node >"$scratch/said"
tr -s '\n ' ' ' <"$scratch/said" | grep -qF -- "- node own_node: $scratch/chosen/topologies/data/own_node.json" ||
  fail "TRAINYARD_DATA does not come first"
without_sources "$program" run "$scenario" | grep -q "not shipped" && fail "a run of shipped files names others"

# Settings give options their defaults.
mkdir -p "$HOME/.config/trainyard"
echo '{"node": "own_node"}' >"$HOME/.config/trainyard/settings.json"
without_sources "$program" collective --help | tr -s '\n ' ' ' | grep -q 'own_node' || fail "the setting \"node\" has no effect"
echo '{"nodes": "own_node"}' >"$HOME/.config/trainyard/settings.json"
status=0
without_sources "$program" list nodes >"$scratch/said" 2>&1 || status=$?
grep -q 'settings.json: /nodes: .*did you mean "node"' "$scratch/said" || status=0
[ "$status" -eq 2 ] || fail "a wrong setting is not refused: $(cat "$scratch/said")"
rm -r "$HOME/.config"

# A program of the user, with the library.
if [ -d "$tree/include" ]; then
  example=$(dirname "$(find "$tree" -name step_time.cpp)")
  if without_sources bash -c "cmake -S '$example' -B '$scratch/program' -DCMAKE_PREFIX_PATH='$tree' &&
      cmake --build '$scratch/program'" >"$scratch/said" 2>&1; then
    without_sources "$scratch/program/step_time" >"$scratch/said" 2>&1 || true
    grep -q '^micro_batch_size 1: one step takes [0-9.]* s$' "$scratch/said" || fail "the example fails: $(cat "$scratch/said")"
  else
    fail "the example does not build: $(cat "$scratch/said")"
  fi
elif grep -q '^TRAINYARD_LIBRARY:BOOL=ON$' "$build/CMakeCache.txt"; then
  fail "the library is built and not installed"
fi

# Without the data that were installed: with others, with a part of them, with none.
mv "$data" "$scratch/others"
runs 0 TRAINYARD_DATA="$scratch/others"
mv "$scratch/others/sim" "$scratch/sim"
runs 2 TRAINYARD_DATA="$scratch/others"
runs 2
grep -q 'data files of trainyard are not found' "$scratch/said" || fail "missing data are not named: $(cat "$scratch/said")"
exit "$failures"

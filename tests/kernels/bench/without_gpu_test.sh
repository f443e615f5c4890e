#!/usr/bin/env bash
# Does the profiler say plainly what is wrong, with the exit code of it, where there is no GPU?
#
#   without_gpu_test.sh PROGRAM
set -euo pipefail
program=$1
export CUDA_VISIBLE_DEVICES=   # hides a GPU where there is one
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# expect CODE TEXT ARGUMENTS...
expect() {
  local code=0 wanted=$1 text=$2 output
  shift 2
  output=$("$program" "$@" 2>&1) || code=$?
  [ "$code" = "$wanted" ] || { echo "$program $*: exit code $code, not $wanted: $output" >&2; exit 1; }
  grep -qF -- "$text" <<<"$output" || { echo "$program $*: does not say \"$text\": $output" >&2; exit 1; }
}

expect 0 "trainyard-profile " --version
expect 1 "no CUDA device: " --output "$folder/profile.json"
[ -z "$(ls -A "$folder")" ] || { echo "a profile was written without a GPU" >&2; exit 1; }
expect 2 "--output is required"
expect 2 "nosuchgroup" --output "$folder/profile.json" --only nosuchgroup
expect 2 "has no n with a number" --output "$folder/profile.json" --shape "gemm m8 k8"
expect 0 "gemm m8 n16 k32 batch2 fp16 dgrad" --list --shape "gemm m8 n16 k32 batch2 fp16 dgrad"
expect 0 "launch graph count100" --list --grid small --only launch

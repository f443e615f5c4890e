#!/usr/bin/env bash
# Does the NCCL profiler say plainly what is wrong where there is no GPU?
#
#   nccl_without_gpu_test.sh PROGRAM
set -euo pipefail
program=$1
export CUDA_VISIBLE_DEVICES=   # hides a GPU where there is one
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

expect() {   # expect CODE TEXT ARGUMENTS...
  local code=0 wanted=$1 text=$2 output
  shift 2
  output=$("$program" "$@" 2>&1) || code=$?
  [ "$code" = "$wanted" ] || { echo "$program $*: exit code $code, not $wanted: $output" >&2; exit 1; }
  grep -qF -- "$text" <<<"$output" || { echo "$program $*: does not say \"$text\": $output" >&2; exit 1; }
}

expect 1 "no CUDA device" --output "$folder/nccl.json" --op all_reduce --max 1KiB
[ -z "$(ls -A "$folder")" ] || { echo "a profile was written without a GPU" >&2; exit 1; }
expect 2 "--output is required"
expect 2 "all_together" --output "$folder/nccl.json" --op all_together
expect 2 "no number of bytes" --output "$folder/nccl.json" --max 8GB
expect 1 "tree" --output "$folder/nccl.json" --algorithms ring,tree

#!/bin/bash
# The page of `trainyard serve` in headless Chromium: page.mjs, with a server of its own.
#
#   tests/serve/page_test.sh BUILD
#
# Exit code 77: skipped, because Chromium, node or Playwright's core is out of reach.
set -euo pipefail

tree=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
build=$(realpath "$1")

skip() {
  {
    echo "***********************************************************************"
    echo "* SKIPPED: the page of serve was NOT opened in a browser."
    echo "* Why: $1"
    echo "***********************************************************************"
  } >&2
  exit 77
}

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[[ -n $browser ]] || skip "Chromium is not installed (apt install chromium)"
command -v node >/dev/null || skip "node is not installed (apt install nodejs npm)"
entry=$("$tree/tools/web/playwright/fetch" "${TRAINYARD_WEB_CACHE:-$tree/build/web}/playwright" 2>&1) || skip "$entry"

work=$(mktemp -d)
"$build/trainyard" serve --processes 1 >"$work/said" 2>"$work/errors" &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 100); do
  grep -q token "$work/said" && break
  sleep 0.1
done
address=$(grep -oE 'http://[^ ]+' "$work/said")
screenshots=$build/screenshots
mkdir -p "$screenshots"
TRAINYARD_CONFIG_JSON=$tree/tests/scenarios/import/hf/llama3_8b.json \
  timeout 240 node "$tree/tests/serve/page.mjs" "$entry" "$browser" "$address" "$screenshots"

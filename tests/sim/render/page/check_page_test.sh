#!/bin/bash
# Does tools/web/check_page notice each kind of fault? Breaks a page that it accepts, one fault at a time.
#
#   check_page_test.sh CHECK_PAGE PAGE.html
set -euo pipefail
check=$1 page=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

failures=0
expect() {   # expect WORDS SED_COMMAND
  sed "$2" "$page" >"$folder/bad.html"
  if cmp -s "$page" "$folder/bad.html"; then
    echo "the page has nothing to break for \"$1\"" >&2
    failures=$((failures + 1))
    return
  fi
  local status=0
  said=$("$check" "$folder/bad.html" figures 2>&1) || status=$?
  [[ $status -ne 77 ]] || { echo "$said" >&2; exit 77; }
  if [[ $status -ne 1 || $said != *"$1"* ]]; then
    echo "not noticed: $1" >&2
    failures=$((failures + 1))
  fi
}

expect "the script failed" 's|^const page = |throw new Error("broken"); &|'
expect "at 400 pixels the page is 20" 's|<main>|&<div style="width:2000px">wide</div>|'
expect 'texts overlap in "bad"' 's|<main>|&<svg data-chart><title>bad</title><text y="9">one</text><text y="9">two</text></svg>|'
expect "charts have no title" 's|<main>|&<svg data-chart></svg>|'
expect "the theme switch changes no colour" 's|root.dataset.theme = theme;||'
expect "no read-out for the keyboard" 's|tip.hidden = false;||'
expect "a mark has no read-out under the pointer" "s|chart.addEventListener('pointermove', point);||"
expect "a table does not sort" "s|head.setAttribute('aria-sort'|head.setAttribute('data-sort'|"
expect "it asks for something from elsewhere" 's|<main>|&<img src="http://example.org/a.png" alt="">|'
expect "a section is missing" 's|<section id="figures">|<section id="figure">|'
exit $((failures > 0))

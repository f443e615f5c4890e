#!/bin/bash
# Does tools/web/check_page notice each kind of fault? Breaks a page that it accepts, one fault at a time.
#
#   check_page_test.sh CHECK_PAGE PAGE.html
set -euo pipefail
check=$1 page=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

failures=0
faults=()
words=()
add() {   # add WORDS SED_COMMAND: a fault, and what must be said of it
  words+=("$1")
  faults+=("$2")
  sed "$2" "$page" >"$folder/bad.html"
  if cmp -s "$page" "$folder/bad.html"; then
    echo "the page has nothing to break for \"$1\"" >&2
    failures=$((failures + 1))
  fi
}

# Looks at a page with all faults since the last look, none of which hides another one.
look() {
  local expressions=() status=0 said fault word
  for fault in "${faults[@]}"; do expressions+=(-e "$fault"); done
  sed "${expressions[@]}" "$page" >"$folder/bad.html"
  said=$("$check" "$folder/bad.html:figures" 2>&1) || status=$?
  [[ $status -ne 77 ]] || { echo "$said" >&2; exit 77; }
  for word in "${words[@]}"; do
    [[ $status -eq 1 && $said == *"$word"* ]] && continue
    echo "not noticed: $word" >&2
    failures=$((failures + 1))
  done
  faults=()
  words=()
}

add "at 400 pixels the page is 20" 's|<main>|&<div style="width:2000px">wide</div>|'
add 'texts overlap in "bad"' 's|<main>|&<svg data-chart><title>bad</title><text y="9">one</text><text y="9">two</text></svg>|'
add "it asks for something from elsewhere" 's|<main>|&<img src="http://example.org/a.png" alt="">|'
add "a section is missing" 's|<section id="figures">|<section id="figure">|'
add "charts have no title" 's|<main>|&<svg data-chart></svg>|'
look
add "the theme switch changes no colour" 's|root.dataset.theme = theme;||'
add "no read-out for the keyboard" 's|tip.hidden = false;||'
add "a table does not sort" "s|head.setAttribute('aria-sort'|head.setAttribute('data-sort'|"
look
add "a mark has no read-out under the pointer" "s|chart.addEventListener('pointermove', point);||"
look
add "the script failed" 's|^const page = |throw new Error("broken"); &|'
look
exit $((failures > 0))

#!/usr/bin/env bash
# Does the documentation site build without a warning? And does tools/site notice what is wrong with it? A copy of the
# tree gets one fault at a time.
#
#   site_test.sh TREE TRAINYARD
set -euo pipefail
tree=$1 trainyard=$2
for tool in mkdocs doxygen codespell; do
  command -v "$tool" >/dev/null || { echo "SKIPPED, NOT TESTED: the documentation site needs $tool" && exit 77; }
done
"$tree/tools/site" "$trainyard"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$tree"
git ls-files -z --cached --others --exclude-standard -- '*.md' '*.hpp' docs mkdocs.yml tools/site tools/spelling_ignored \
  'scenarios/*.schema.json' | xargs -0 cp --parents -t "$scratch"
cd "$scratch"
mkdir build
git init -q && git add -A

failed=0
expect() {  # NAME PATTERN: the site refuses, and says so
  if tools/site "$trainyard" >out 2>&1; then
    echo "$1 went unnoticed" && failed=1
  elif ! grep -q "$2" out; then
    echo "$1 was told otherwise:" && head -5 out && failed=1
  fi
  git checkout -q -- .
}

tools/site "$trainyard" >out 2>&1 || { echo "A sound site was refused:" && cat out && exit 1; }

echo 'See [there](nowhere.md).' >>docs/index.md
expect "A link to a page that does not exist" "nowhere.md"
echo 'See [there](reference/result.md#no-such-heading).' >>docs/index.md
expect "A link to a missing anchor" "no such anchor"
echo '<img src="https://example.org/a.png">' >>docs/index.md
expect "An image from another site" "loads https://example.org/a.png from another site"
echo 'This is teh word.' >>docs/index.md
expect "A misspelt word" "teh ==> the"
printf '%s\n' '' '// See &nosuch; here.' 'namespace trainyard { struct Odd; }' >>sim/report/report.hpp
expect "A warning of doxygen" "Unsupported symbol &nosuch;"
exit "$failed"

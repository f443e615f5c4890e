#!/usr/bin/env bash
# Does the documentation site build without a warning? And does tools/site tell every fault of a copy of the tree?
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

# All faults at once: the site tells each.
{
  echo 'See [there](nowhere.md).'
  echo 'See [there](reference/result.md#no-such-heading).'
  echo '<img src="https://example.org/a.png">'
  echo 'This is teh word.'
} >>docs/index.md
printf '%s\n' '' '// See &nosuch; here.' 'namespace trainyard { struct Odd; }' >>sim/report/report.hpp
if tools/site "$trainyard" >out 2>&1; then
  echo "A site with faults was built" && exit 1
fi

failed=0
expect() {  # NAME PATTERN
  grep -q "$2" out || { echo "$1 went unnoticed" && failed=1; }
}
expect "A link to a page that does not exist" "nowhere.md"
expect "A link to a missing anchor" "no such anchor"
expect "An image from another site" "loads https://example.org/a.png from another site"
expect "A misspelt word" "teh ==> the"
expect "A warning of doxygen" "Unsupported symbol &nosuch;"
[[ $failed -eq 0 ]] || cat out
exit "$failed"

#!/usr/bin/env bash
# Breaks each rule in a small tree and expects tools/tidy to name the place.
#
#   tests/tools/tidy_test.sh tools/tidy
set -euo pipefail
tidy=$(realpath "$1")
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

# A small tree that keeps every rule.
good_tree() {
  rm -rf "$tree" && mkdir -p "$tree" && cd "$tree"
  mkdir -p sim/{base,fold,collectives,engine/simgrid} models/{data,schedules} kernels/profiles topologies/data \
    scenarios/{first,reader} tools tests/scenarios build
  for folder in . sim topologies models kernels scenarios tools tests; do echo "# A folder" >$folder/README.md; done
  echo 'ty_box(all SOURCES base/units.cpp fold/fold.cpp)' >sim/CMakeLists.txt
  printf '#include "sim/base/units.hpp"\n' | tee sim/base/units.cpp sim/fold/fold.cpp >/dev/null
  printf '#pragma once\n' >sim/base/units.hpp
  printf '#include <simgrid/s4u.hpp>\n' >sim/engine/simgrid/shim.hpp
  printf '#include "sim/base/units.hpp"\n' >models/schedules/schedule.hpp
  printf '#include "models/schedules/schedule.hpp"\n' >models/plan.hpp
  echo '{ "source": "a paper" }' | tee models/data/a.json kernels/profiles/a.json topologies/data/a.json \
    scenarios/first/a.json >/dev/null
  echo '{}' | tee scenarios/scenario.schema.json scenarios/jobs.schema.json >/dev/null
  echo 'fs::recursive_directory_iterator' >tests/scenarios/shipped.hpp
  touch tests/scenarios/shipped_test.cpp
  echo 'ty_test(shipped SOURCES scenarios/shipped_test.cpp)' >tests/CMakeLists.txt
  seq 900 >build/long.cpp # what is built is nobody's business
}

# expect NAME PATTERN: the tree as it stands has one breach, and it reads like this.
expect() {
  local said status=0
  said=$("$tidy" "$tree" 2>&1) || status=$?
  if [ "$status" -ne 1 ] || ! grep -qE "^$2" <<<"$said" || ! grep -q ' 1 breaches' <<<"$said"; then
    printf 'NOT NOTICED: %s\n  expected one breach: %s\n  exit code %s, said:\n%s\n' "$1" "$2" "$status" "$said" >&2
    failures=$((failures + 1))
  fi
  good_tree
}

repeat() { printf "%0.s$1" $(seq "$2"); }

good_tree
"$tidy" "$tree" >/dev/null || { echo "the good tree is refused" >&2 && exit 1; }

echo '#include "models/plan.hpp"' >>sim/base/units.hpp
expect "include to the right" 'sim/base/units.hpp:2: include: sim/base may not know models; '
echo '#include "sim/engine/engine.hpp"' >>sim/fold/fold.cpp
expect "include to the right inside sim" 'sim/fold/fold.cpp:2: include: sim/fold may not know sim/engine; '
echo '#include "kernels/gpu.hpp"' >>models/plan.hpp
expect "one supplier knows another" 'models/plan.hpp:2: include: models may not know kernels; '
echo '#include "sim/collectives/algorithms/ring.hpp"' >>models/schedules/schedule.hpp
expect "schedules know collectives" 'models/schedules/schedule.hpp:2: include: models/schedules may not know sim/collectives; '
echo '#include "tools/cli/command.hpp"' >scenarios/reader/scenario.hpp
expect "a scenario knows the command" 'scenarios/reader/scenario.hpp:1: include: scenarios/reader may not know tools; '
echo '#include "tests/sim/builders.hpp"' >>models/plan.hpp
expect "the product knows a test" 'models/plan.hpp:2: include: tests/sim/builders.hpp is a test; '
printf 'namespace trainyard {\nstruct Row {\n};\n}  // namespace trainyard\n' | tee -a models/plan.hpp >>sim/base/units.hpp
expect "two types of one name" 'sim/base/units.hpp:3: name: trainyard::Row is defined in models/plan.hpp as well; '
good_tree
{ echo '## Words' && repeat '**word** a thing; ' 15 && echo; } >>README.md
expect "a glossary that is too long" 'README.md:1: glossary: 15 words, more than 14'
good_tree
echo 'int first_role = 0;  // a role in a comment is English' >>sim/base/units.hpp
expect "a word that the field says otherwise" 'sim/base/units.hpp:2: retired word: "role" in first_role; '
good_tree
echo 'struct LinkBundle {};' >>sim/base/units.hpp
expect "a retired word inside a type" 'sim/base/units.hpp:2: retired word: "bundle" in LinkBundle; '
good_tree
echo 'int x = 0;' >sim/base/link_bundles.hpp
expect "a retired word in a file name" 'sim/base/link_bundles.hpp:1: retired word: "bundles" in sim/base/link_bundles.hpp; '
good_tree
echo '{"source": "a test", "first_role": 1}' >scenarios/first/named.json
expect "a retired word in a JSON key" 'scenarios/first/named.json:1: retired word: "role" in "first_role":; '
good_tree
echo '## The woven step' >>sim/README.md
expect "a retired word in a heading" 'sim/README.md:2: retired word: "woven" in ## The woven step; '
good_tree
echo '// The rows of links that carry alike.' >>sim/base/units.hpp
expect "a retired phrase" 'sim/base/units.hpp:2: retired phrase: "rows of links"; '
good_tree
echo '#include "plan.hpp"' >>models/plan.hpp
expect "an include that is not from the root" 'models/plan.hpp:2: include: "plan.hpp" is not the path of a box'
echo '#include <simgrid/s4u.hpp>' >>sim/base/units.hpp
expect "SimGrid outside its folder" 'sim/base/units.hpp:2: include: a SimGrid header outside '
good_tree
echo '#include <httplib.h>' >>sim/base/units.hpp
expect "cpp-httplib outside its folder" 'sim/base/units.hpp:2: include: cpp-httplib outside '
echo 'int lost = 0;' >sim/fold/lost.cpp
expect "a source that is not built" 'sim/fold/lost.cpp:1: not built: '
repeat 'x' 101 >>sim/base/units.hpp
expect "a long line" 'sim/base/units.hpp:2: columns: 101 columns, '
{ repeat '\xc3\xa9' 100 && echo; } >>sim/base/units.hpp
"$tidy" "$tree" >/dev/null || { echo "100 letters of two bytes are 100 columns" >&2 && failures=$((failures + 1)); }
good_tree
{ echo && echo 'int long_one() {' && repeat '\n' 69 && echo '}'; } >>sim/base/units.hpp
expect "a long function" 'sim/base/units.hpp:3: function: 71 lines, more than 70; '
echo "// TO""DO: later" >>sim/base/units.hpp
expect "an open end without an issue" 'sim/base/units.hpp:2: todo: '
echo "// TO""DO(#7): later" >>sim/base/units.hpp
"$tidy" "$tree" >/dev/null || { echo "an open end with an issue is fine" >&2 && failures=$((failures + 1)); }
good_tree
echo "@TABLE@" >>README.md
expect "a table that was never filled in" 'README.md:2: todo: @TABLE@ '
for printing in 'fmt::print("{}", name);' 'std::cout << name;' 'std::cerr << name;' 'printf("%s", name);' \
  'std::fputs(name, stderr);' 'std::fwrite(name, 1, 4, stdout);' 'std::puts(name);'; do
  mkdir -p tools/cli && echo 'ty_box(cli SOURCES list.cpp)' >tools/cli/CMakeLists.txt
  printf 'void list(const char* name) {\n  %s\n}\n' "$printing" >tools/cli/list.cpp
  expect "the command prints by $printing" 'tools/cli/list.cpp:2: print: '
done
mkdir -p tools/cli && echo 'ty_box(cli SOURCES print.cpp)' >tools/cli/CMakeLists.txt
printf 'void tell(const char* text) { std::fputs(text, stderr); }\n' >tools/cli/print.cpp
printf 'const auto text = snprintf(line, 9, "a"); say("{}", blueprint(text));\n' >tools/cli/said.hpp
"$tidy" "$tree" >/dev/null || { echo "print.cpp may print" >&2 && failures=$((failures + 1)); }
good_tree
echo "see /wo""rk/here" >>sim/README.md
expect "the path of a machine" 'sim/README.md:2: banned word: '
echo '"https://registry''.npmjs.org/x"' >tools/package-lock.json
expect "the host of a registry" 'tools/package-lock.json:1: banned word: '
echo '{ "source": "" }' >kernels/profiles/a.json
expect "numbers without a source" 'kernels/profiles/a.json:1: source: '
echo '{ "source": "x" }' >scenarios/stray.json
expect "a scenario outside a topic" 'scenarios/stray.json:1: scenario: '
: >tests/scenarios/shipped.hpp
expect "scenarios that no test reads" 'tests/scenarios/shipped.hpp:1: scenario: '
rm models/README.md
expect "a folder without a README" 'models/README.md:1: readme: it is missing'
repeat '\n' 60 >>models/README.md
expect "a README that is too long" 'models/README.md:61: readme: 61 lines'

[ "$failures" -eq 0 ] && echo "Every broken rule is noticed."

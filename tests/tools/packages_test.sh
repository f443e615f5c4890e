#!/usr/bin/env bash
# Do the Debian packages and the tarball work where nothing else is installed?
#
#   tests/tools/packages_test.sh PACKAGES [RELEASE [FOLDER]]     what tools/package made on that release of Debian (this one);
#                                                               FOLDER (build/roots) keeps the bare roots
#
# The packages are installed in a bare root of the release, used by a normal user from another folder, and removed; no file may
# be left. The tarball, where there is one, runs in a root that has nothing installed. Needs root rights and a mirror; exit
# code 77 without, and says so.
set -euo pipefail
packages=$(realpath "$1")
tree=$(realpath "$(dirname "$0")/../..")
# shellcheck source=/dev/null
release=${2:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
roots=$(realpath -m "${3:-$tree/build/roots}")
failures=0
fail() {
  printf '%s\n' "$*" >&2
  failures=$((failures + 1))
}

status=0
"$tree/tools/bare_root" "$release" "$roots/$release-bare" || status=$?
if [ "$status" -ne 0 ]; then
  echo "THE PACKAGES AND THE TARBALL ARE NOT TESTED: there is no bare root of $release" >&2
  exit "$status"
fi
root=$(mktemp -d "$roots/packages.XXXXXX")
trap 'rm -rf "$root"' EXIT
fresh_root() {
  rm -rf "$root"
  cp -a "$roots/$release-bare" "$root"
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  mkdir -p "$root/srv/user/elsewhere"
  chown -R 1000:1000 "$root/srv/user"
}
inside() { "$tree/tools/in_root" "$root" "$@"; }
as_user() { inside setpriv --reuid 1000 --regid 1000 --clear-groups env HOME=/srv/user sh -c "cd /srv/user/elsewhere && $1"; }

# expect PATTERN COMMAND: what a normal user sees.
expect() {
  local said
  said=$(as_user "$2" 2>&1) || fail "\"$2\" ends with $?: $said"
  grep -q "$1" <<<"$said" || fail "\"$2\" does not say \"$1\": $(tail -5 <<<"$said")"
}

main_job=scenarios/megatron/gpt3_175b_64xa100_selective.json
answer='^fits: .* one step takes 13\.41 s$'

# The files of the root, without those that apt and dpkg keep for themselves, and without what Debian 13's netbase leaves.
listing() {
  (cd "$root" && find . \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./tmp -o -path ./srv/user \
    -o -path ./var/cache -o -path ./var/log -o -path ./var/lib/apt -o -path ./var/lib/dpkg -o -path ./packages -o -path ./etc/hosts \) \
    -prune -o -print) | sort
}

test_debian() {
  local begun fetched answered
  fresh_root
  mkdir "$root/packages"
  cp "$packages"/*.deb "$root/packages/"
  inside apt-get update >/dev/null
  # Removal is tested after an installation, which makes what Debian's own packages leave, such as empty folders.
  listing >"$packages/files.before"
  begun=$(date +%s.%N)
  for only in --download-only ''; do
    inside sh -c "apt-get install --yes --no-install-recommends $only /packages/trainyard*.deb" >"$packages/install.log" 2>&1 ||
      { cat "$packages/install.log" >&2 && exit 1; }
    [ -z "$only" ] || fetched=$(date +%s.%N)
  done
  expect "$answer" "trainyard run $main_job"
  answered=$(date +%s.%N)
  awk -v begun="$begun" -v fetched="$fetched" -v answered="$answered" -v release="$release" 'BEGIN {
    printf "%s: from apt install to the first answer: %.1f s, of which downloads take %.1f s\n",
      release, answered - begun, fetched - begun
    exit answered - begun > 60
  }' || fail "the first answer takes more than 60 s"
  ! inside sh -c 'command -v cc c++ gcc g++ cmake' || fail "a compiler is installed"
  expect "$answer" "trainyard run /usr/share/trainyard/$main_job --out out"
  expect '"step_time_s"' 'cat out/result.json'
  expect '^  dgx_h100' 'trainyard list nodes'
  inside test -s /usr/share/doc/trainyard/copyright || fail "the licence is not installed"
  [ -s "$root/usr/share/man/man1/trainyard-run.1" ] || fail "the manual page of run is not installed"

  inside sh -c 'apt-get install --yes --no-install-recommends /packages/*.deb' >"$packages/install.log" 2>&1 ||
    { cat "$packages/install.log" >&2 && exit 1; }
  if ls "$root"/packages/python3-* >/dev/null 2>&1; then
    expect '^13\.41' "python3 -c 'import trainyard; print(\"%.2f\" % trainyard.run(\"/usr/share/trainyard/$main_job\").step_time_s)'"
  fi
  inside apt-get install --yes --no-install-recommends g++ cmake make >"$packages/install.log" 2>&1
  expect 'Built target step_time' \
    'cmake -S /usr/share/doc/libtrainyard-dev/examples -B program && cmake --build program'
  expect '^micro_batch_size 1: one step takes [0-9.]* s$' 'program/step_time'

  # What another package only suggests goes too: libc6 suggests libidn2, which CMake needs.
  # shellcheck disable=SC2016  # the inner shell expands these
  inside sh -c 'apt-get purge --yes $(dpkg-query --show --showformat "\${Package}\n" "*trainyard*") g++ cmake make &&
    apt-get autoremove --purge --yes --option APT::AutoRemove::RecommendsImportant=false \
      --option APT::AutoRemove::SuggestsImportant=false' >"$packages/install.log" 2>&1 || { cat "$packages/install.log" >&2 && exit 1; }
  listing >"$packages/files.after"
  comm -3 "$packages/files.before" "$packages/files.after" >"$packages/files.left"
  [ ! -s "$packages/files.left" ] || fail "removed packages leave or take files: $(head -20 "$packages/files.left")"
  [ -z "$(find "$root/var" -name '*trainyard*' -not -path '*/apt/*')" ] || fail "dpkg still knows the packages"
}

test_tarball() {
  local archive name
  archive=$(ls "$packages"/trainyard-*-linux-*.tar.gz)
  name=$(basename "$archive" .tar.gz)
  fresh_root
  tar -C "$root/srv/user" --no-same-owner -xf "$archive"
  chown -R 1000:1000 "$root/srv/user"
  expect "$answer" "../$name/bin/trainyard run $main_job"
  mv "$root/srv/user/$name" "$root/srv/user/moved"
  expect "$answer" "../moved/bin/trainyard run $main_job --out out"
  # Nothing but the C library is the system's. The program finds the libraries of its modules, too, so all are asked together.
  # shellcheck disable=SC2016  # the inner shell expands these
  as_user 'modules=$(find "$PWD/../moved" -name "trainyard-*.so" | tr "\n" ":")
    LD_TRACE_LOADED_OBJECTS=1 LD_PRELOAD=$modules ../moved/bin/trainyard' \
    >"$packages/libraries" 2>&1 || true
  for library in libsimgrid libcpp-httplib; do
    grep -q "$library.*moved" "$packages/libraries" || fail "$library is not the tarball's: $(cat "$packages/libraries")"
  done
  ! grep 'not found' "$packages/libraries" || fail "libraries are missing"
  ! awk '$2 == "=>" && $3 !~ /moved/ { print $1 }' "$packages/libraries" |
    grep -vE '^lib(c|m|dl|rt|pthread)\.so\.[0-9]+$' || fail "libraries of the system are used"
}

test_debian
if ls "$packages"/*.tar.gz >/dev/null 2>&1; then test_tarball; else echo "There is no tarball in $packages to test."; fi
exit "$failures"

#!/usr/bin/env bash
# mutations.sh [--short | NAME...]   plants the bugs of scripts/mutations.txt one after another in a copy of the tree with a build of its own
# (build/mutations), runs the tests that each names, and lists the survivors. Exit 1 with a survivor, with a bug whose text is
# no longer in the source, and with one that does not build; first of all every named test must pass without a bug.
# --short plants those marked `short`. NAME: these alone. The log of each is build/mutations/NAME.log.
set -eu
cd "$(dirname "$0")/.."
tree=$PWD logs=$PWD/build/mutations list=$PWD/scripts/mutations.txt
copy=$logs/tree
only=" $* "

# A bug: its name (`NAME short`), its file, `TARGET FILTER`, then lines `-OLD` and `+NEW`. Blank lines and lines of # lie between.
# names[i], files[i], targets[i], filters[i], and the two texts in files of $work.
names=() files=() targets=() filters=()
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
read_list() {
  local line place=0
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in
      '#'*) ;;
      '') place=0 ;;
      -*) printf '%s\n' "${line:1}" >>"$work/${#names[@]}.old" ;;
      +*) printf '%s\n' "${line:1}" >>"$work/${#names[@]}.new" ;;
      *)
        case $place in
          0) names+=("$line"); : >"$work/${#names[@]}.new" ;;
          1) files+=("$line") ;;
          2) targets+=("${line%% *}") filters+=("${line#* }") ;;
        esac
        place=$((place + 1)) ;;
    esac
  done <"$list"
}
wanted() {
  case $only in
    '  ') return 0 ;;
    ' --short ') [[ $1 == *' short' ]] ;;
    *) [[ $only == *" ${1% short} "* ]] ;;
  esac
}
# plant FILE NUMBER: the old text must be there exactly once.
plant() {
  python3 - "$1" "$work/$2.old" "$work/$2.new" <<'PYTHON'
import sys
path, old, new = sys.argv[1:]
text, old, new = (open(p, encoding="utf-8").read() for p in (path, old, new))
if text.count(old) != 1:
    sys.exit(1)
open(path, "w", encoding="utf-8").write(text.replace(old, new))
PYTHON
}
build() { cmake --build "$copy/build/release" -j "$(nproc)" --target "$@"; }
# run TARGET FILTER
run() {
  local program=build/release/$1
  [ -x "$copy/$program" ] || program=build/release/tests/$1
  (cd "$copy" && timeout 600 "$program" --gtest_filter="$2" --gtest_brief=1 --gtest_fail_fast)
}

read_list
chosen=()
for i in "${!names[@]}"; do if wanted "${names[i]}"; then chosen+=("$i"); fi; done
[ "${#chosen[@]}" -gt 0 ] || { echo "mutations: nothing in $list is called$only" >&2; exit 2; }

# Only what differs is written, with the time of now: ninja must see that a planted bug is gone.
mkdir -p "$copy"
git ls-files --cached --others --exclude-standard | while IFS= read -r file; do
  [ -e "$file" ] || continue
  cmp -s "$file" "$copy/$file" || install -D "$file" "$copy/$file"
done
(cd "$copy" && find . -type f -not -path './build/*' | cut -c3-) | while IFS= read -r file; do [ -e "$file" ] || rm "$copy/$file"; done
ln -sfn "$tree/.deps" "$copy/.deps"
begin=$SECONDS
export CCACHE_BASEDIR=$copy CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros  # as scripts/build.sh, whose objects serve here
(cd "$copy" && cmake --preset release) >"$logs/configure.log" 2>&1 || { tail -20 "$logs/configure.log" >&2; exit 70; }
mapfile -t needed < <(for i in "${chosen[@]}"; do echo "${targets[i]}"; done | sort -u)
build "${needed[@]}" >"$logs/build.log" 2>&1 || { grep -E 'error|FAILED' -A3 "$logs/build.log" | tail -30 >&2; exit 70; }
for target in "${needed[@]}"; do
  filter=$(for i in "${chosen[@]}"; do [ "${targets[i]}" != "$target" ] || echo "${filters[i]}"; done | sort -u | paste -sd:)
  run "$target" "$filter" >"$logs/unplanted.log" 2>&1 || { tail -20 "$logs/unplanted.log" >&2; echo "mutations: $target $filter fails without a bug" >&2; exit 1; }
  grep -q '^\[==========\] 0 tests' "$logs/unplanted.log" && { echo "mutations: $target has no test $filter" >&2; exit 1; }
done
echo "mutations: without a bug the named tests of ${needed[*]} pass ($((SECONDS - begin)) s)"

caught=0 bad=()
for i in "${chosen[@]}"; do
  name=${names[i]% short} begin=$SECONDS
  log=$logs/$name.log
  if ! plant "$copy/${files[i]}" "$((i + 1))"; then
    verdict="its text is not once in ${files[i]}"
  elif ! build "${targets[i]}" >"$log" 2>&1; then
    verdict="does not build: $log"
  elif run "${targets[i]}" "${filters[i]}" >"$log" 2>&1; then
    verdict="SURVIVES ${targets[i]} ${filters[i]}"
  else
    verdict=
  fi
  cp "$tree/${files[i]}" "$copy/${files[i]}"
  if [ -z "$verdict" ]; then
    caught=$((caught + 1))
    echo "$name: caught by $(grep -oE '^\[  FAILED  \] [A-Za-z]+[^ ,(]*' "$log" | head -1 | cut -c14-) ($((SECONDS - begin)) s)"
  else
    bad+=("$name")
    echo "$name: $verdict ($((SECONDS - begin)) s)"
  fi
done
echo "mutations: ${#chosen[@]} planted, $caught caught${bad:+; not: ${bad[*]}}"
[ "${#bad[@]}" = 0 ]

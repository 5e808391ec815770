#!/usr/bin/env bash
# hostile.sh PROGRAM [NAME...]   what careless and hostile users give the program, two cases at a time: each ends with its exit
# code and one sentence that names the culprit and the cure, nothing is half-written, and none ends by a signal. NAME...: these cases alone.
set -u
source=$(realpath "$(dirname "$0")/../..")
G=$(realpath "$1")
shift
only=" $* "  # empty: all
W=$(mktemp -d "${TMPDIR:-/tmp}/gpuhpc-hostile-XXXXXX")
trap 'rm -rf "$W"' EXIT
chmod 755 "$W"
mkdir "$W/cases" "$W/failed"
mpirun=$source/scripts/mpirun.sh
export OMP_NUM_THREADS=1

source "$source/tests/pipeline/tiny_world.sh"
cpu="--device.kind cpu --device.threads 1"
options="--input.dir in --model.encoder model $cpu --eval.bootstrap-samples 10 --train.epochs 1"
run="$G run $options --run.dir r"
encode="$G encode --model.encoder model $cpu --output.file out"
prepare="$G prepare --model.encoder model $cpu --output.dir out"
predict="$G predict --model.dir m $cpu --output.file out"
evaluate="$G evaluate --input.dir in --eval.bootstrap-samples 10"
report="$G report"
if ! $G run $options --run.dir "$W/done" > log 2>&1; then
  cat log
  exit 1
fi

# fail NAME WHAT: keeps what the case printed.
fail() {
  { echo "--- $1: $2"; tail -n 12 "$W/cases/$1.out" "$W/cases/$1.err"; } > "$W/failed/$1"
}

# A folder of its own with copies of the input and the encoder; the finished run is $W/done.
enter() {
  mkdir "$W/cases/$1" && cd "$W/cases/$1" && cp -r "$W/in" "$W/model" "$W/texts" "$W"/*.tsv .
}

# A run that ends in its first stage leaves what it knows of itself, and nothing else.
files() { find . -type f | grep -Ev '^\./r/(config\.ini|run\.json|ledger\.json|\.lock|log/.*)$' | sort; }

# one CASE CODE SAYS PREPARE COMMAND
one() {
  local name=$1 code=$2 says=$3 before after sentence
  enter "$name"
  ( eval "$4" ) > "$W/cases/$name.out" 2>&1 || fail "$name" "its own preparation failed"
  before=$(files)
  # A minute of processor time is far more than any case takes: one that needs more ends by a signal.
  ( ulimit -t 60; eval "$5" ) > "$W/cases/$name.out" 2> "$W/cases/$name.err" < /dev/null
  local got=$?
  [ "$got" = "$code" ] || fail "$name" "exit code $got, not $code"
  # All but the log, and mpirun's own words.
  if [[ $5 == '$mpirun '* ]]; then sentence=$(grep -a '^gpuhpc: ' "$W/cases/$name.err")
  else sentence=$(grep -aEv '^([0-9]{2}:){2}[0-9]{2} ' "$W/cases/$name.err"); fi
  if [ "$code" != 0 ]; then
    [ "$(grep -c . <<< "$sentence")" = 1 ] || fail "$name" "not one sentence"
    # shellcheck disable=SC2053
    [[ $sentence == "gpuhpc: "*$says* ]] || fail "$name" "does not say $says"
    after=$(files)
    [ "$after" = "$before" ] || fail "$name" "left $(diff <(echo "$before") <(echo "$after") | tr '\n' ' ')"
  else
    ( eval "$says" ) >> "$W/cases/$name.out" 2>&1 || fail "$name" "does not hold: $says"
    [ -z "$(find . -name '*.tmp' -o -name '*.partial')" ] || fail "$name" "left half-written files"
  fi
  cd "$W" && rm -rf "$W/cases/${name:?}"
}

count=0
each() {
  [[ $only = "  " || $only == *" $1 "* ]] || return
  count=$((count + 1))
  while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
  one "$@" &
}
# refused NAME CODE SAYS PREPARE COMMAND: SAYS is a pattern; `*` stands between culprit and cure.
refused() { each "$@"; }
# accepted NAME PREPARE COMMAND CHECK: exit code 0, and CHECK holds.
accepted() { each "$1" 0 "$4" "$2" "$3"; }

source "$source/tests/pipeline/hostile_cases.sh"
source "$source/tests/pipeline/hostile_jobs.sh"
wait
if [ -n "$(ls "$W/failed")" ]; then
  cat "$W"/failed/*
  echo "$(ls "$W/failed" | wc -l) of $count cases failed"
  exit 1
fi
echo "$count cases"

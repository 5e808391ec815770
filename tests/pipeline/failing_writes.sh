#!/usr/bin/env bash
# failing_writes.sh PROGRAM LIBRARY [EVERY [COMMAND...]]   the disk under every command of the program fails: the n-th of the calls that write
# (write, rename, fsync, mkdir, ftruncate, open) below its folder ends with EIO once, or that and all behind it with ENOSPC or EDQUOT.
# Each time: exit 74, one sentence, no signal, nothing half-written under its final name; and the same command again, on a disk that works, leaves
# what it leaves where nothing failed. EVERY: each EVERY-th call (1: all of them, for hours); without it a few calls of each
# command. LIBRARY is tests/pipeline/failing_writes.cpp.
set -u
source=$(realpath "$(dirname "$0")/../..")
G=$(realpath "$1") library=$(realpath "$2") every=${3:-0}
shift $(($# < 3 ? $# : 3))
only=" $* "  # empty: all
W=$(mktemp -d "${TMPDIR:-/tmp}/gpuhpc-writes-XXXXXX")
trap 'rm -rf "$W"' EXIT
mkdir "$W/failed"
export OMP_NUM_THREADS=1
source "$source/tests/pipeline/tiny_world.sh"
cpu="--device.kind cpu --device.threads 1"
tiny="$cpu --train.epochs 1 --train.batch 8 --train.micro-batch 4 --train.precision fp32 --infer.precision fp32"
label="$G run --input.dir ../in --pipeline.adapt none --model.encoder ../model $cpu --eval.bootstrap-samples 10 --train.epochs 1 --infer.precision fp32 --train.precision fp32"
seq2seq="$source/tests/pipeline/fixtures/t5"
printf 'd0\toptics\nd7\tmechanics\nd14\tgenetics\n' > given.tsv
head -n 12 in/test/corpus.txt > few.txt
if ! (mkdir made && cd made && $label --run.dir ../done) > log 2>&1; then cat log; exit 1; fi

declare -A command=(
  [run]="$label --run.dir r"
  [run-labels]="cp -r ../done r && $label --run.dir r --input.labels ../given.tsv"
  [taxoclass]="$label --run.dir r --pipeline.method taxoclass --train.checkpoint-every 2"
  [prepare]="$G prepare --model.encoder ../model $cpu --input.file ../in/train/corpus.txt --output.dir out"
  [encode]="$G encode --model.encoder ../model $cpu --input.file ../in/test/corpus.txt --output.file out"
  [predict]="$G predict --model.dir ../done/model $cpu --input.file ../in/test/corpus.txt --output.file out"
  [evaluate]="$G evaluate --input.dir ../in --eval.bootstrap-samples 10 --eval.predictions ../done/submission.csv --run.dir out"
  [report]="$G report --run.dir ../done --report.output out"
  [select]="$G select --run.dir ../done --select.documents 5 --output.file out.csv"
  [mine]="$G mine --embedding.train ../pairs.tsv --model.encoder ../model $cpu --infer.precision fp32 --run.dir r"
  [train-embedding]="$G train-embedding --embedding.train ../pairs.tsv --model.encoder ../model --train.max-length 24 $tiny --run.dir r"
  [pretrain]="$G pretrain --input.dir ../texts --input.format lines --pretrain.model ../model --train.max-length 24 $tiny --run.dir r"
  [train-seq2seq]="$G train-seq2seq --seq2seq.train ../summaries.tsv --seq2seq.model $seq2seq --seq2seq.source-length 24 --seq2seq.target-length 8 $tiny --run.dir r"
  [generate]="$G generate --model.dir $seq2seq --input.file ../few.txt --generate.max-length 4 $cpu --infer.precision fp32 --output.file out"
  [plan]="$G plan --plan.gpu a6000-48 --plan.job run --plan.model ../model --plan.config out")
# What holds the results; logs, times and who started a run differ from run to run.
results() {
  find . -type f | grep -Ev '/(log|events|checkpoints)/|/(ledger|run|report|metrics_log|resources|manifest)\.json$|/(metrics|ranks|gpu|trace)[a-z_]*\.(jsonl|csv|json)$|\.html$|/\.lock$|README\.md$' | sort
}
digest() { results | xargs -r sha256sum; }

# one NAME CALL ERROR STAYS
one() {
  local name=$1 call=$2 error=$3 stays=$4 case=$1-$2-$3 code sentence made
  mkdir "$W/$case" && cd "$W/$case" || exit 1
  say() { { echo "--- $case: $1"; tail -n 8 out.err again.err 2>/dev/null; } > "$W/failed/$case"; }
  # A run that is quicker than the one that was counted writes fewer lines of progress, and the last calls of that one do not come: its own last call fails then.
  while :; do
    ( export FAULT_FOLDER=$PWD/ FAULT_AT=$call FAULT_ERRNO=$error FAULT_STAYS=$stays FAULT_COUNT=$W/$case.count; eval "${command[$name]/$G/LD_PRELOAD=$library $G}" ) > /dev/null 2> "../$case.err" < /dev/null
    code=$?
    made=$(cat "$W/$case.count" 2> /dev/null || echo "$call")
    rm -f "$W/$case.count"
    [ "$code" = 0 ] && [ "$made" -lt "$call" ] && [ "$made" -gt 0 ] || break
    call=$made
    cd "$W" && rm -rf "${W:?}/$case" && mkdir "$W/$case" && cd "$W/$case" || exit 1
  done
  sentence=$(grep -a '^gpuhpc: ' "../$case.err")
  mv "../$case.err" out.err
  if [ "$code" != 74 ]; then say "exit code $code, not 74"
  elif [ "$(grep -c . <<< "$sentence")" != 1 ]; then say "not one sentence"
  else
    rm -f out.err
    ( eval "${command[$name]/cp -r ..\/done r &&/}" ) > /dev/null 2> "../$case.err" < /dev/null || { mv "../$case.err" again.err; say "does not go on: exit code $?"; }
    rm -f "../$case.err"
    [ "$(digest)" = "$(cat "$W/$name.digest")" ] || { say "leaves other results: $(diff <(digest) "$W/$name.digest" | head -5 | tr '\n' ' ')"; }
  fi
  cd "$W" && rm -rf "${W:?}/$case"
}

total=0
for name in run run-labels taxoclass prepare encode predict evaluate report select mine train-embedding pretrain train-seq2seq generate plan; do
  [[ $only = "  " || $only == *" $name "* ]] || continue
  mkdir "$W/$name" && cd "$W/$name" || exit 1
  if ! ( export FAULT_FOLDER=$PWD/ FAULT_AT=0 FAULT_COUNT=$W/$name.count; eval "${command[$name]/$G/LD_PRELOAD=$library $G}" ) > "$W/log" 2>&1 < /dev/null; then
    echo "$name: does not work at all"; tail -5 "$W/log"; exit 1
  fi
  digest > "$W/$name.digest"
  cd "$W" && rm -rf "${W:?}/$name"
  calls=$(cat "$W/$name.count")
  [ "$calls" -gt 0 ] && [ -s "$W/$name.digest" ] || { echo "$name: $calls calls that write, and no results"; exit 1; }
  # EIO 5, ENOSPC 28, EDQUOT 122, in turn.
  if [ "$every" -gt 0 ]; then chosen=$(seq 1 "$every" "$calls"); else chosen="1 $((calls / 2)) $calls"; fi
  before=$total
  for call in $chosen; do
    [ "$call" -gt 0 ] || continue
    while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n; done
    case $((total % 3)) in
      0) one "$name" "$call" 28 1 & ;;
      1) one "$name" "$call" 5 0 & ;;
      2) one "$name" "$call" 122 1 & ;;
    esac
    total=$((total + 1))
  done
  wait
  echo "$name: $calls calls that write, $((total - before)) of them failed"
done
if [ -n "$(ls "$W/failed")" ]; then
  cat "$W"/failed/*
  echo "$(ls "$W/failed" | wc -l) of $total faults were not met well"
  exit 1
fi
echo "$total faults: exit 74 and one sentence each, and the same results once the disk worked"

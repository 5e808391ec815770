#!/usr/bin/env bash
# torture.sh KILLS [RANKS [FULL-DISK-STEPS [JOB]]]   kills and stops a small training run with the real program, and shows that nothing is lost.
# JOB: run; train-embedding, which learns two data sets mixed; or train-seq2seq, a tiny T5 with Adafactor. The last two go on with RANKS or half
# as many ranks after each kill; of them 1 alone.
# 1. KILLS times SIGKILL to a random rank, in turn at a random time of the training and inside a save; every start goes on, the weights at
#    the end are those of the run that was left alone (SHA-256). 0: the full disk alone. 2. SIGTERM to one rank, SIGUSR1 to all and to the launcher: exit 75, then the same weights.
# 3. RANKS, then twice as many, then one: losses within 1e-4. 4. As root, with FULL-DISK-STEPS above 0: the checkpoints on a small
#    tmpfs that fills up at so many different bytes: exit 74, one sentence, then the same weights. GPUHPC names another
#    binary, GPUHPC_MODELS the folder of the encoders.
set -eu
cd "$(dirname "$0")/.."
kills=${1:?usage: torture.sh KILLS [RANKS [FULL-DISK-STEPS [JOB]]]} ranks=${2:-2} fills=${3:-0} job=${4:-run}
program=${GPUHPC:-build/release/gpuhpc}
work=$(mktemp -d "${TMPDIR:-/tmp}/gpuhpc-torture-XXXXXX")
pid=0
cleanup() {
  [ "$pid" -gt 0 ] && kill -9 "$pid" 2>/dev/null
  mountpoint -q "$work/full/checkpoints" && umount "$work/full/checkpoints"
  rm -rf "$work"
}
trap cleanup EXIT
die() { echo "torture: $*" >&2; tail -5 "$work/log" >&2 || true; exit 1; }

data=data/debtags-topical
training=(--model.encoder "${GPUHPC_MODELS:-.deps/models}/all-MiniLM-L6-v2" --device.kind cpu --device.threads 1 --train.precision fp32 --train.layers 1
          --train.max-length 24 --train.batch $((4 * ranks)) --train.micro-batch 2 --train.dropout 0.1 --train.checkpoint-every 1)  # of 2 * RANKS ranks too
mkdir -p "$work/input/train" "$work/input/test"
cp "$data"/label*.txt "$work/input"
gzip -dc "$data/train/corpus.txt.gz" | sed -n 1,120p > "$work/input/train/corpus.txt"
gzip -dc "$data/test/corpus.txt.gz" | sed -n 1,50p > "$work/input/test/corpus.txt"
case $job in
  run) before=hierarchy stage=05-training fewest=$ranks arguments=(run --input.dir "$work/input" --pipeline.adapt none --infer.max-length 32 --train.epochs 3 "${training[@]}");;
  train-embedding)  # short and long descriptions, and some of them with scores
    before=tokens stage=02-training fewest=$((ranks / 2))
    awk -F'\t' -v pairs="$work/pairs.tsv" -v scored="$work/scored.tsv" '
      BEGIN {print "anchor\tpositive" > pairs; print "first\tsecond\tscore" > scored}
      {stop = index($2, ". ")} stop > 1 && stop + 2 < length($2) {
        short = substr($2, 1, stop - 1); long = substr($2, stop + 2); gsub(/"/, "", short); gsub(/"/, "", long)
        if (NR % 3 > 0) print short "\t" long > pairs; else print short "\t" long "\t" NR % 7 / 7 > scored}' "$work/input/train/corpus.txt"
    arguments=(train-embedding --dataset.pairs.train "$work/pairs.tsv" --dataset.scored.train "$work/scored.tsv" --dataset.scored.columns first,second
               --dataset.scored.loss cosent --train.epochs 2 "${training[@]}");;
  train-seq2seq)  # descriptions and their first words
    before=tokens stage=02-training fewest=$((ranks / 2))
    awk -F'\t' 'BEGIN {print "source\ttarget"} {gsub(/"/, "", $2); print $2 "\t" substr($2, 1, 30)}' "$work/input/train/corpus.txt" > "$work/pairs.tsv"
    arguments=(train-seq2seq --seq2seq.model tests/pipeline/fixtures/t5 --seq2seq.train "$work/pairs.tsv" --seq2seq.source-length 48 --seq2seq.target-length 24
               --device.kind cpu --device.threads 1 --train.precision fp32 --train.optimizer adafactor --train.batch 8 --train.micro-batch 2 --train.dropout 0.1
               --train.epochs 4 --train.checkpoint-every 1);;
  *) die "JOB is run, train-embedding or train-seq2seq, not $job";;
esac

# start FOLDER RANKS [ARGUMENTS...]: the program in the background, its launcher in $pid
start() {
  local folder=$1 n=$2; shift 2
  if [ "$n" = 1 ]; then "$program" "${arguments[@]}" --run.dir "$folder" "$@" >"$work/log" 2>&1 </dev/null &
  else scripts/mpirun.sh "$n" "$program" "${arguments[@]}" --run.dir "$folder" "$@" >"$work/log" 2>&1 </dev/null & fi
  pid=$!
}
finish() { code=0; wait "$pid" || code=$?; pid=0; }
fresh() { rm -rf "$1"; cp -r "$work/base" "$1"; }
weights() { sha256sum "$1/stages/$stage/model/model.safetensors" | cut -d' ' -f1; }
newest_step() { find "$1/checkpoints/training" -maxdepth 2 -name 'step-????????' 2>/dev/null | sort | tail -1; }
newest_complete() { find "$1/checkpoints/training" -name manifest.json 2>/dev/null | sort | tail -1; }
wait_for_checkpoint() {  # a new one
  local before
  before=$(newest_complete "$1")
  while [ "$(newest_complete "$1")" = "$before" ]; do
    sleep .05
    kill -0 "$pid" || die "it ended without a checkpoint"
  done
}
ranks_of() { if [ "$1" = 1 ]; then echo "$pid"; else pgrep -P "$pid" || true; fi; }
# Stops the ranks inside a save that this start began, with a whole checkpoint before it: however short a save is, the kill that follows comes
# within it. False when the program ended first.
stop_in_save() {
  local newest
  while kill -0 "$pid" 2>/dev/null; do
    newest=$(newest_step "$1")
    [ -n "$(newest_complete "$1")" ] && [ "$newest" != "$2" ] && [ ! -e "$newest/manifest.json" ] || continue
    mapfile -t victims < <(ranks_of "$now")
    kill -STOP "${victims[@]}" 2>/dev/null || continue
    sleep .02
    [ -e "$newest/manifest.json" ] || return 0
    kill -CONT "${victims[@]}" 2>/dev/null || true
  done
  return 1
}
sooner() { length=$(awk -v t="$length" 'BEGIN {print .8 * t}'); }  # the signal came too late: the machine is faster than it was
seconds() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(seconds)" 'BEGIN {printf "%.1f", b - a}'; }
expect_same() {
  finish
  [ "$code" = 0 ] || die "$2: exit $code"
  [ "$(weights "$1")" = "$reference" ] || die "$2: other weights"
}

start "$work/base" "$ranks" --pipeline.to "$before"
finish
[ "$code" = 0 ] || die "the stages before training: exit $code"
begin=$(seconds)
fresh "$work/reference"
start "$work/reference" "$ranks" --pipeline.to training
finish
[ "$code" = 0 ] || die "reference: exit $code"
length=$(since "$begin")
reference=$(weights "$work/reference")
steps=$(wc -l < "$work/reference/stages/$stage/metrics.jsonl")
echo "reference: $steps steps on $ranks ranks in $length s, weights $reference"

done_kills=0 inside=0 runs=0 resumed=0
while [ "$done_kills" -lt "$kills" ]; do
  run=$work/killed
  fresh "$run"
  for _ in 1 2 3 4 5; do
    [ "$done_kills" -lt "$kills" ] || break
    stale=$(newest_step "$run")
    now=$ranks
    [ $((done_kills % 3)) != 2 ] || now=$fewest
    start "$run" "$now" --pipeline.to training
    if [ $((done_kills % 2)) = 1 ]; then
      stop_in_save "$run" "$stale" || { finish; break; }
    else
      # Beside the start-up any time is as likely as any other.
      sleep "$(awk -v t="$length" -v s="$RANDOM$RANDOM" 'BEGIN {srand(s); printf "%.3f", .3 * t + .6 * t * rand()}')"
    fi
    mapfile -t victims < <(ranks_of "$now")
    [ "${#victims[@]}" -gt 0 ] || { sooner; break; }
    victim=${victims[$((RANDOM % ${#victims[@]}))]}
    newest=$(newest_step "$run")
    kill -9 "$victim" 2>/dev/null || break
    saving=0
    if [ -n "$newest" ] && [ "$newest" != "$stale" ] && [ ! -e "$newest/manifest.json" ]; then saving=1; fi
    kill -CONT "${victims[@]}" 2>/dev/null || true
    finish
    [ "$code" != 0 ] || { sooner; break; }
    done_kills=$((done_kills + 1)) inside=$((inside + saving))
  done
  now=$([ $((runs % 2)) = 0 ] && echo "$fewest" || echo "$ranks")
  [ "$pid" -gt 0 ] || start "$run" "$now" --pipeline.to training
  expect_same "$run" "after $done_kills kills, at last on $now ranks"
  if grep -q "going on after the checkpoint" "$run"/log/rank-00000.log; then resumed=$((resumed + $(grep -c "going on after the checkpoint" "$run"/log/rank-00000.log))); fi
  [ "$(wc -l < "$run/stages/$stage/metrics.jsonl")" = "$steps" ] || die "metrics.jsonl has not one line per step"
  runs=$((runs + 1))
  echo "run $runs: $done_kills kills so far, $inside inside a save; the same weights, at last on $now ranks"
done
if [ "$kills" -ge 2 ]; then
  [ "$inside" -gt 0 ] || die "none of $done_kills kills came inside a save"
  [ "$resumed" -gt 0 ] || die "none of $runs runs went on from a checkpoint"
fi
echo "$done_kills SIGKILLs of a random rank, $inside inside a save: $runs runs of $runs ended with the same weights ($resumed starts went on from a checkpoint)"

stop_by_signals() {
  local how signal whom run ranks_pids
  for how in "TERM one" "USR1 all" "USR1 launcher"; do
    read -r signal whom <<<"$how"
    run=$work/stopped
    fresh "$run"
    start "$run" "$ranks" --pipeline.to training
    wait_for_checkpoint "$run"
    begin=$(seconds)
    mapfile -t ranks_pids < <(pgrep -P "$pid")
    case $whom in
      one) kill -s "$signal" "${ranks_pids[-1]}";;
      all) kill -s "$signal" "${ranks_pids[@]}";;
      launcher) kill -s "$signal" "$pid";;
    esac
    finish
    [ "$code" = 75 ] || die "SIG$signal to $whom: exit $code, not 75"
    echo "SIG$signal to $whom: exit 75 after $(since "$begin") s"
    start "$run" "$ranks" --pipeline.to training
    expect_same "$run" "after SIG$signal to $whom"
  done
}
change_ranks() {
  local run n
  run=$work/ranks
  fresh "$run"
  for n in "$ranks" $((2 * ranks)) 1; do
    start "$run" "$n" --pipeline.to training
    if [ "$n" != 1 ]; then
      wait_for_checkpoint "$run"
      kill -USR1 "$pid"
      finish
      [ "$code" = 75 ] || die "on $n ranks: exit $code, not 75"
    else
      finish
      [ "$code" = 0 ] || die "on one rank: exit $code"
    fi
  done
  paste -d' ' <(sed 's/.*"loss":\([^,]*\),.*/\1/' "$work/reference/stages/05-training/metrics.jsonl") \
    <(sed 's/.*"loss":\([^,]*\),.*/\1/' "$run/stages/05-training/metrics.jsonl") |
    awk -v want="$steps" -v ranks="$ranks" '{d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d}
      END {printf "%d, %d, 1 ranks: largest difference of a loss %.1e\n", ranks, 2 * ranks, most; exit !(NR == want && most < 1e-4)}' ||
    die "losses differ on other ranks"
}
[ "$job" = run ] || exit 0
if [ "$kills" -gt 0 ]; then
  stop_by_signals
  change_ranks
fi

[ "$fills" -gt 0 ] || exit 0
[ "$(id -u)" = 0 ] || { echo "torture: a disk that fills up is a tmpfs, which needs root: left out"; exit 0; }
run=$work/full
fresh "$run"
start "$run" "$ranks" --pipeline.to training
wait_for_checkpoint "$run"
kill -USR1 "$pid"
finish
bytes=$(du -sb "$(newest_step "$run")" | cut -f1)
full=0
for i in $(seq 1 "$fills"); do
  fresh "$run"
  disk=$run/checkpoints
  mkdir -p "$disk"
  mount -t tmpfs -o "size=$((i * (3 * bytes + 1048576) / fills))" tmpfs "$disk" || die "a tmpfs needs root"
  start "$run" "$ranks" --pipeline.to training
  finish
  if [ "$code" != 0 ]; then
    [ "$code" = 74 ] || die "full disk: exit $code, not 74"
    grep -q "the disk is full" "$work/log" || die "full disk: not said"
    full=$((full + 1))
    mount -o "remount,size=$((9 * bytes))" "$disk"
    start "$run" "$ranks" --pipeline.to training
    finish
    [ "$code" = 0 ] || die "after the full disk: exit $code"
  fi
  [ "$(weights "$run")" = "$reference" ] || die "full disk: other weights"
  umount "$disk"
done
[ "$full" -gt 0 ] || die "no disk was full"
echo "a disk full at $full of $fills sizes: exit 74, and the same weights once there was room"

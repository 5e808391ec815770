#!/usr/bin/env bash
# scaling.sh   jobs/slurm/scaling.sh on one and two nodes, with one batch for all and with a batch that grows with the nodes, and the tables of
# their run folders. Needs scaling_table_bench beside the program (-DGPUHPC_BENCH=ON).
. "$(dirname "$(realpath "$0")")/slurm.sh"
start_slurm 2
make_input "$S/input"

# scale NAME OPTIONS OF THE RUN...   leaves the run folders $S/NAME-1 and $S/NAME-2, and the table $S/NAME.md
scale() {
  local name=$1 job n; shift
  job=$(submit --nodes=2 --ntasks-per-node=1 --array=1,2%1 --output="$S/$name-%a.log" jobs/slurm/scaling.sh "$@" --input.dir "$S/input") || exit 1
  queue_empties
  for n in 1 2; do mv "runs/scaling-$job-$n" "$S/$name-$n" || die "part $n left no run folder"; done
  BUILD=$(dirname "$program") bash bench/scaling.sh --collect "$S/$name" "$S/$name-1" "$S/$name-2" || die "no table"
}
scale strong "${small_run[@]}"
says "$S/strong.md" "Strong scaling: the same batch"
says "$S/strong.md" "cluster . 1 on 1 node "
says "$S/strong.md" "cluster . 2 on 2 nodes "
says "$S/strong.md" "learns the same.* over 2 runs"
[ -s "$S/strong.svg" ] || die "no plot"

GPUHPC_BATCH_A_NODE=20 scale weak "${small_run[@]:2}"  # without its --train.batch
says "$S/weak.md" "Weak scaling: the same documents per rank"
says "$S/weak.md" "cluster . 2 on 2 nodes "

sed -i 's/"loss":[0-9.]*/"loss":7/' "$S/strong-2/metrics.jsonl"
BUILD=$(dirname "$program") bash bench/scaling.sh --collect "$S/wrong" "$S/strong-1" "$S/strong-2" >"$S/wrong.log" 2>&1
code=$?
[ "$code" = 70 ] || die "losses that differ: exit $code, not 70"
says "$S/wrong.log" "a loss is .* away from that of the smallest run"

#!/usr/bin/env bash
# lost_link.sh   the cable of the second of two nodes is taken out while they train: every rank leaves with 79 within the time limit of
# collectives and 10 s, naming a rank of the other node; started again with the cable in, the run ends with the weights of one left alone.
. "$(dirname "$(realpath "$0")")/slurm.sh"
S=$(mktemp -d "${TMPDIR:-/tmp}/gpuhpc-link-XXXXXX")
make_nodes 2 - || die "network namespaces cannot be made here"
make_input "$S/input"
export OMP_WAIT_POLICY=passive
limit=5
arguments=(--config "$GPUHPC_CONFIG" "${small_run[@]}" --input.dir "$S/input" --pipeline.to training --train.epochs 8 --train.checkpoint-every 5 --parallel.timeout $limit)

scripts/mpirun.sh 1 "$program" "${arguments[@]}" --run.dir "$S/alone" >"$S/alone.log" 2>&1 || die "the run that is left alone: exit $?"

# Each rank's shell notes its exit code and when: mpirun cannot ask the node that is cut off.
cat >"$S/rank.sh" <<'RANK'
folder=$1; shift
"$@"
echo "$? $(date +%s)" >"$folder/left-$OMPI_COMM_WORLD_RANK"
RANK
run=$S/run
mpirun_on_nodes 2 2 --mca orte_enable_recovery 1 --mca orte_abort_on_non_zero_status 0 \
  bash "$S/rank.sh" "$S" "$program" "${arguments[@]}" --run.dir "$run" >"$S/ranks.log" 2>&1 &
launcher=$!
wait_for 120 newest_checkpoint "$run"
link_node 2 down
cut=$(date +%s)
all_left() { [ "$(cat "$S"/left-* 2>/dev/null | wc -l)" = 4 ]; }
wait_for $((limit + 30)) all_left
for rank in 0 1 2 3; do
  read -r code when <"$S/left-$rank"
  [ "$code" = 79 ] || die "rank $rank left with $code, not 79"
  [ $((when - cut)) -le $((limit + 10)) ] || die "rank $rank left $((when - cut)) s after the link was lost"
  echo "rank $rank: exit 79 after $((when - cut)) s"
done
says "$S/ranks.log" "waited $limit s in .* for rank [23] on node2, which does not answer"
grep "waited" "$S/ranks.log"
kill -9 "$launcher" 2>/dev/null
wait "$launcher" 2>/dev/null

link_node 2 up
mpirun_on_nodes 2 2 "$program" "${arguments[@]}" --run.dir "$run" >"$S/again.log" 2>&1 || die "started again: exit $?"
says "$S/again.log" "going on after the checkpoint"
[ "$(weights "$run")" = "$(weights "$S/alone")" ] || die "other weights"
echo "started again: the same weights as the run left alone"

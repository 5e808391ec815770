#!/usr/bin/env bash
# lost_link.sh   the cable of the second of two nodes is taken out while they train.
# 1. Every rank leaves with 79 within the time limit of collectives and 10 s, naming a rank of the other node.
# 2. mpirun leaves by itself with the options of the job scripts. 3. Started again with the cable in, the run ends with the weights of one
# that was left alone.
. "$(dirname "$(realpath "$0")")/slurm.sh"
make_nodes 2 - || die "network namespaces cannot be made here"
make_input "$S/input"
export OMP_WAIT_POLICY=passive OMPI_MCA_orte_tmpdir_base=$S
limit=5
arguments=(--config "$GPUHPC_CONFIG" "${small_run[@]}" --input.dir "$S/input" --pipeline.to training --train.epochs 4 --train.checkpoint-every 5)

scripts/mpirun.sh 1 "$program" "${arguments[@]}" --run.dir "$S/alone" >"$S/alone.log" 2>&1 || die "the run that is left alone: exit $?"

# Each rank's shell notes its exit code and when: mpirun cannot ask the node that is cut off.
cat >"$S/rank.sh" <<'RANK'
folder=$1; shift
"$@"
echo "$? $(date +%s)" >"$folder/left-$OMPI_COMM_WORLD_RANK"
RANK
run=$S/run
mpirun_on_nodes 2 2 --mca orte_enable_recovery 1 --mca orte_abort_on_non_zero_status 0 \
  bash "$S/rank.sh" "$S" "$program" "${arguments[@]}" --run.dir "$run" --parallel.timeout $limit >"$S/ranks.log" 2>&1 &
launcher=$!
wait_for "$patience" newest_checkpoint "$run"
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
kill_launcher "$launcher"  # it waits for its daemon on the other node

# The old launch's daemon over there hears that it is over as soon as it can.
reconnect() { link_node 2 up; wait_for 60 deserted 2; }
deserted() { [ -z "$(ip netns pids "$nodes_tag-$1")" ]; }
reconnect
. jobs/slurm/common.sh
before=$(newest_checkpoint "$run")
mpirun_on_nodes 2 2 "${mpirun_options[@]}" "$program" "${arguments[@]}" --run.dir "$run" >"$S/launcher.log" 2>&1 &
launcher=$!
newer() { [ "$(newest_checkpoint "$run")" != "$before" ]; }
wait_for "$patience" newer
link_node 2 down
start=$SECONDS
launcher_left() { ! kill -0 "$launcher"; }
wait_for 60 launcher_left
wait "$launcher" && die "mpirun reports no error"
says "$S/launcher.log" "Remote daemon: .* on node $nodes_net.2"
echo "mpirun left $((SECONDS - start)) s after the link was lost"

reconnect
mpirun_on_nodes 2 2 "$program" "${arguments[@]}" --run.dir "$run" >"$S/again.log" 2>&1 &
launcher=$!
wait_for "$patience" launcher_left
wait "$launcher" || die "started again: exit $?"
says "$S/again.log" "going on after the checkpoint"
[ "$(weights "$run")" = "$(weights "$S/alone")" ] || die "other weights"
echo "started again: the same weights as the run left alone"

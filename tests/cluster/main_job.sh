#!/usr/bin/env bash
# main_job.sh   the main job with eight ranks, on two nodes and on one: the same predictions, byte for byte.
. "$(dirname "$(realpath "$0")")/slurm.sh"
start_slurm 2
make_input "$S/input"
for shape in "2 4" "1 8"; do
  read -r nodes each <<<"$shape"
  start=$SECONDS
  job=$(submit --nodes="$nodes" --ntasks-per-node="$each" jobs/slurm/a6000x8.sh "${small_run[@]}" --input.dir "$S/input" --run.dir "$S/run-$nodes") || exit 1
  await "$job" COMPLETED
  says "$S/$job.log" "0: .*8 ranks, cpu"
  says "$S/$job.log" "Example-F1"
  echo "8 ranks on $nodes nodes: $((SECONDS - start)) s"
done
[ "$(wc -l <"$S/run-2/predictions.jsonl")" = 100 ] || die "not 100 predictions"
for file in predictions.jsonl submission.csv model/model.safetensors; do
  cmp "$S/run-2/$file" "$S/run-1/$file" || die "$file differs between two nodes and one"
done
echo "predictions $(sha256sum <"$S/run-2/predictions.jsonl" | cut -c1-16) on two nodes and on one"

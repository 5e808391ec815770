#!/usr/bin/env bash
# slow_disk.sh TEXTS [MB_PER_SECOND [MEMORY_MB [BATCHES [BYTES_PER_SECOND]]]]   `pretrain` where the shards are larger than memory and the disk is slow.
# As root, on a machine with cgroups of version 1: the folder of texts is tokenized at full speed; then the data path alone (BATCHES, 40) and a training
# of half as many updates run in a group that may read MB_PER_SECOND (20) from the disk and hold MEMORY_MB (700), from an empty page cache.
# (the training, once it has begun: BYTES_PER_SECOND, else the same).
# TEXTS must give shards that are larger than that: 4 bytes per token. Prints tokens per second and the log's line on time, or its advice.
set -eu
texts=$(realpath "$1") rate=${2:-20} memory=${3:-700} batches=${4:-40}
later=${5:-$((rate << 20))}
cd "$(dirname "$0")/.."
[ -d /sys/fs/cgroup/blkio ] && [ -d /sys/fs/cgroup/memory ] || { echo "slow_disk: this machine has no cgroups of version 1 (blkio, memory)" >&2; exit 2; }
work=$(mktemp -d "${TMPDIR:-/tmp}/slow-disk-XXXX")
blkio=/sys/fs/cgroup/blkio/gpuhpc-slow memory_group=/sys/fs/cgroup/memory/gpuhpc-slow
trap 'rmdir $blkio $memory_group 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir -p $blkio $memory_group
device=$(lsblk -no MAJ:MIN "$(df --output=source "$work" | tail -1)" | tr -d ' ')
echo "$device $((rate << 20))" >$blkio/blkio.throttle.read_bps_device
echo $((memory << 20)) >$memory_group/memory.limit_in_bytes
program=${GPUHPC:-build/release/gpuhpc}
words=(pretrain --input.dir "$texts" --run.dir "$work/run" --model.encoder .deps/models/all-MiniLM-L6-v2 --device.kind cpu --train.batch 128
  --train.micro-batch 8 --train.max-length 128 --train.validation 0 --train.checkpoint-minutes 0 --pipeline.to training)
"$program" "${words[@]}" --pretrain.data-only true --train.max-steps 400 >"$work/fast.txt" 2>&1
du -sm "$work/run/stages" | sed 's/\t.*/ MB of shards/'
echo "page cache:  $(grep 'data path' "$work/fast.txt")"
slow() {  # in the group, from an empty page cache
  sync; echo 3 >/proc/sys/vm/drop_caches
  (echo $BASHPID >$blkio/tasks; echo $BASHPID >$memory_group/tasks; exec "$@")
}
slow "$program" "${words[@]}" --pretrain.data-only true --train.max-steps "$batches" >"$work/slow.txt" 2>&1
echo "$rate MB/s:     $(grep 'data path' "$work/slow.txt")"
# Starting reads every file whole, the first updates the program's own libraries: what a training waits for comes after that.
slow "$program" "${words[@]}" --train.max-steps $((batches / 2)) >"$work/training.txt" 2>&1 &
until grep -q ' training: ' "$work/training.txt" || ! kill -0 $! 2>/dev/null; do sleep .2; done
echo "$device $later" >$blkio/blkio.throttle.read_bps_device
wait $! || { tail -3 "$work/training.txt" >&2; exit 1; }
echo "training, $later bytes/s once it has begun:"
grep -h 'waiting for data' "$work/training.txt"

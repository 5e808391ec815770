#!/usr/bin/env bash
# bare_root.sh [BUNDLE.tar.xz]   Proves a bundle (scripts/bundle.sh; without one it packs the build without CUDA first) where nothing is
# installed: a root folder with a shell, a few tools, glibc, libstdc++ and LibTorch's libraries, no Open MPI, no HDF5, no Python, no GPU.
# There the program must start, check its launch, do the main job on 300 documents, also under mpirun, and bench/gpu.sh and the tests
# that need a GPU must fail for the lack of one. As root (chroot, mounts of its own). KEEP=1 leaves the folder.
set -eu
cd "$(dirname "$(realpath "$0")")/../.."
die() { echo "bare_root: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "only root can change the root folder"
bundle=${1:-}
if [ -z "$bundle" ]; then
  bash scripts/bundle.sh --cpu
  bundle=build/gpuhpc-bundle-cpu.tar.xz
fi
root=$(mktemp -d)
trap '[ -n "${KEEP:-}" ] || rm -rf --one-file-system "$root"' EXIT
mkdir -p "$root"/{sys,bin,lib64,lib/x86_64-linux-gnu,proc,dev/shm,tmp,etc,opt/torch/lib,opt/nvidia,bundle}
mkdir -p "$root/usr/bin"
tools="bash cat sed awk grep gzip head tail cut tr dirname basename realpath mktemp rm mkdir cp mv date nproc timeout wc cmp stat env ls sleep printf chmod touch hostname id"
libraries="libstdc++.so.6 libgcc_s.so.1 libc.so.6 libm.so.6 libdl.so.2 librt.so.1 libpthread.so.0 libutil.so.1 libresolv.so.2"
for tool in $tools; do cp -L "$(type -P "$tool")" "$root/bin/"; done
ln -s bash "$root/bin/sh"
ln -s /bin/env "$root/usr/bin/env"
for file in $(for tool in $tools; do ldd "$(type -P "$tool")"; done | grep -o '/lib[^ ]*' | sort -u) $(for name in $libraries; do ldconfig -p | awk -v name="$name" '$1 == name && /x86-64/ {print $NF; exit}'; done); do
  mkdir -p "$root$(dirname "$file")"
  cp -L "$file" "$root$file"
done
cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/"
echo "root:x:0:0:root:/tmp:/bin/bash" >"$root/etc/passwd"
echo "127.0.0.1 localhost" >"$root/etc/hosts"
tar -C "$root/bundle" --strip-components=1 -xf "$bundle"

cat >"$root/inside.sh" <<'INSIDE'
set -eu
cd /bundle
die() { echo "bare_root: $*" >&2; exit 1; }
# expect CODE SENTENCE COMMAND...
expect() {
  local code=$1 sentence=$2 rc=0; shift 2
  "$@" >/tmp/output 2>&1 || rc=$?
  [ $rc = "$code" ] && grep -q -- "$sentence" /tmp/output || { cat /tmp/output >&2; die "$*: exit code $rc, wanted $code and \"$sentence\""; }
  echo "bare_root: $*: exit code $rc: $(grep -m 1 -- "$sentence" /tmp/output)"
}
type -P python3 mpirun gcc nvidia-smi && die "this root folder is not bare"
expect 78 "LibTorch was not found" env TORCH_LIB= bin/gpuhpc --version
export TORCH_LIB=/opt/torch/lib
expect 0 "gpuhpc" bin/gpuhpc --version
expect 0 "cpu$" bin/gpuhpc doctor
expect 78 "no GPU is visible" bin/gpuhpc doctor --device.kind cuda
mkdir -p /tmp/input/train /tmp/input/test
cp data/debtags-topical/label*.txt /tmp/input/
for part in "train/corpus.txt 300" "test/corpus.txt 100" "test/doc2labels.txt 100"; do
  read -r file lines <<<"$part"
  gzip -dc "data/debtags-topical/$file.gz" | sed -n "1,${lines}p" >"/tmp/input/$file"
done
job="run --input.dir /tmp/input --model.encoder models/all-MiniLM-L6-v2 --train.layers 1 --train.max-length 48 --eval.bootstrap-samples 50"
expect 0 "Example-F1" bin/gpuhpc $job --run.dir /tmp/alone
expect 0 "Example-F1" env PATH="/bundle/bin:$PATH" scripts/mpirun.sh 1 /bundle/bin/gpuhpc $job --run.dir /tmp/mpirun
for run in alone mpirun; do [ "$(wc -l <"/tmp/$run/predictions.jsonl")" = 100 ] || die "$run: not 100 predictions"; done
for program in bin/test_*_gpu; do expect 78 "no GPU is visible" "$program"; done
expect 78 "nothing was run: .*no GPU is visible" bash bench/gpu.sh /tmp/gpu.json
grep -q '"problem": "the GPU cannot be used: .*no GPU is visible' /tmp/gpu.json && grep -q '"complete": false' /tmp/gpu.json || die "gpu.json does not say why nothing was run"
INSIDE
unshare --mount --pid --fork bash -c '
  set -eu
  root=$1
  mount --make-rprivate /
  mount -t proc proc "$root/proc"
  mount --rbind -o ro /sys "$root/sys"
  mount -t tmpfs tmpfs "$root/dev" && mkdir "$root/dev/shm" && chmod 1777 "$root/dev/shm"
  for device in null zero random urandom; do touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
  mount --bind -o ro .deps/torch/lib "$root/opt/torch/lib"
  for folder in .deps/nvidia/*/lib; do
    name=$(basename "$(dirname "$folder")")
    mkdir -p "$root/opt/nvidia/$name/lib"
    mount --bind -o ro "$folder" "$root/opt/nvidia/$name/lib"
  done
  # What a toolkit brings instead of the wheels.
  if [ -e /usr/local/cuda/lib64/libcublas.so.13 ]; then
    mkdir -p "$root/opt/nvidia/toolkit/lib"
    mount --bind -o ro "$(realpath /usr/local/cuda/lib64)" "$root/opt/nvidia/toolkit/lib"
  fi
  env -i PATH=/bin HOME=/tmp TMPDIR=/tmp LANG=C.UTF-8 OMP_WAIT_POLICY=passive "$(type -P chroot)" "$root" /bin/bash /inside.sh' _ "$root"
python3 -m json.tool "$root/tmp/gpu.json" || die "gpu.json is no JSON"
echo "bare_root: passed"

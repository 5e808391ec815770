#!/usr/bin/env bash
# mine_million.sh [ANCHORS [TEXTS]]   `mine` with a million anchors among 100,000 texts on 1, 2 and 4 ranks: seconds and peak memory of each
# rank, one checksum of the mined rows for all, and differences from a brute force (NumPy, double) for 900 anchors. Texts are pieces of six
# words of dictionaries and package descriptions (data_tools/make_pretraining_texts.py): a text's first piece is the positive of its others.
# Vectors are made once, at 16 tokens, and every run searches in them. Needs build/release/gpuhpc (or GPUHPC), Python with NumPy and h5py (PYTHON: its
# command) and, for a million, 6 GB of disk in runs/mine_million, which stay there; the next call takes up what is finished.
set -eu
cd "$(dirname "$0")/.."
anchors=${1:-1000000} texts=${2:-100000} program=${GPUHPC:-$PWD/build/release/gpuhpc} python=${PYTHON:-python3}
folder=runs/mine_million pairs=runs/mine_million/pairs-$anchors-$texts.jsonl
[ -x "$program" ] || { echo "mine_million.sh: $program is not there: bash scripts/build.sh release gpuhpc" >&2; exit 78; }
"$python" -c 'import numpy, h5py' || { echo "mine_million.sh: Python needs numpy and h5py (PYTHON=...)" >&2; exit 78; }
mkdir -p $folder
[ -e $folder/texts/packages.txt ] || "$python" data_tools/make_pretraining_texts.py --out $folder/texts

# The longest texts, in their order; of each the second piece, then of each the third, until there are enough anchors.
[ -e "$pairs" ] || "$python" - "$anchors" "$texts" $folder/texts "$pairs" <<'PY'
import json, pathlib, sys
anchors, texts, words = int(sys.argv[1]), int(sys.argv[2]), 6
whole = [line.split() for name in ("gcide", "foldoc", "packages") for line in pathlib.Path(sys.argv[3], f"{name}.txt").open(encoding="utf-8")]
chosen, firsts = [], set()
for i in sorted(range(len(whole)), key=lambda i: (-len(whole[i]), i)):
    first = " ".join(whole[i][:words])
    if len(chosen) < texts and len(whole[i]) >= 2 * words and first not in firsts:
        firsts.add(first)
        chosen.append(i)
seen, rows, nth, left = set(), [], 1, sorted(chosen)
while left and len(rows) < anchors:
    for i in left:
        piece = " ".join(whole[i][nth * words:(nth + 1) * words])
        if piece not in seen and len(rows) < anchors:
            seen.add(piece)
            rows.append((i, nth, piece))
    nth += 1
    left = [i for i in left if len(whole[i]) >= (nth + 1) * words]
with open(sys.argv[4], "w", encoding="utf-8") as out:
    for i, _, piece in sorted(rows):
        out.write(json.dumps({"anchor": piece, "positive": " ".join(whole[i][:words])}, ensure_ascii=False) + "\n")
print(f"{len(rows):,} pairs, {len({i for i, _, _ in rows}):,} texts")
PY

start=$folder/start-$anchors-$texts
mine() { # RANKS FOLDER ARGUMENT...: each rank leaves its peak, in KiB, in FOLDER.peak.RANK
  local ranks=$1 run=$2; shift 2
  rm -f "$run".peak.*
  # shellcheck disable=SC2016  # each rank's shell expands the rank
  scripts/mpirun.sh "$ranks" bash -c 'run=$1; shift; exec /usr/bin/time -f %M -o "$run.peak.$OMPI_COMM_WORLD_RANK" "$@"' - "$run" \
    "$program" mine --embedding.train "$pairs" --model.encoder .deps/models/all-MiniLM-L6-v2 --device.kind cpu --infer.max-length 16 \
    --run.dir "$run" "$@" >"$run.log" 2>&1 || { tail -5 "$run.log" >&2; exit 70; }
}
if [ ! -e "$start/done" ]; then
  OMP_NUM_THREADS=$(nproc) mine 1 "$start" --device.threads 0 --pipeline.to vectors
  touch "$start/done"
fi
grep -ohE 'stage 2/3 .* took [^;]*' "$start.log" || true
for ranks in 1 2 4; do
  run=$folder/ranks-$ranks
  rm -rf "$run"
  cp -rl "$start" "$run"
  threads=$((ranks < $(nproc) ? $(nproc) / ranks : 1))
  OMP_NUM_THREADS=$threads mine "$ranks" "$run" --device.threads "$threads"
  echo "$ranks ranks of $threads threads: $(grep -oE 'stage 3/3 .* took [^;]*' "$run.log" | sed 's/.*took //'); peak memory, MiB:" \
    "$(for peak in "$run".peak.*; do tail -1 "$peak" | awk '{ printf "%d ", $1 / 1024 }'; done)"
  sha256sum "$run/mined.jsonl"
done

"$python" - "$pairs" $folder/ranks-1 <<'PY'
import json, pathlib, sys
import h5py
import numpy as np
rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
anchors, texts = list(dict.fromkeys(row["anchor"] for row in rows)), list(dict.fromkeys(row["positive"] for row in rows))
place, number = {text: i for i, text in enumerate(anchors)}, {text: i for i, text in enumerate(texts)}
own = {}
for row in rows:
    own.setdefault(row["anchor"], {number.get(row["anchor"], -1)}).add(number[row["positive"]])
def vectors(count):  # the file of vectors with that many rows
    for path in sorted(pathlib.Path(sys.argv[2]).rglob("*.h5")):
        with h5py.File(path) as file:
            if "values" in file and file["values"].shape == (count, 384):
                return file["values"][:]
    sys.exit(f"no vectors of {count} rows")
of_anchors, of_texts = vectors(len(anchors)), vectors(len(texts)).astype(np.float64)
mined = [json.loads(line) for line in open(pathlib.Path(sys.argv[2], "mined.jsonl"), encoding="utf-8")]
sample = np.random.default_rng(1).choice(len(mined), min(900, len(mined)), replace=False)
differences = 0
for i in sample:
    row = mined[i]
    weights = (of_texts @ of_anchors[place[row["anchor"]]].astype(np.float64)).astype(np.float32)
    weights[[text for text in own[row["anchor"]] if text >= 0]] = -np.inf
    best = np.argsort(-weights, kind="stable")[:3]
    differences += [texts[j] for j in best] != [row[f"negative_{n}"] for n in (1, 2, 3)]
print(f"{len(anchors):,} anchors among {len(texts):,} texts; {len(mined):,} rows; {len(sample)} rows against NumPy in double: {differences} differ")
PY

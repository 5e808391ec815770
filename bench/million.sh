#!/usr/bin/env bash
# million.sh [DOCUMENTS]   A million documents (the demo's corpus repeated with changed words) through prepare, encode (a sample) and
# phases 1 to 4; 32 tokens per document keep the encoding short. Prints the seconds and the peak memory of each part.
# Needs about 12 GB of disk in runs/million, and removes them at the end.
set -eu
cd "$(dirname "$0")/.."
documents=${1:-1000000}; program=build/release/gpuhpc; folder=runs/million
rm -rf $folder; mkdir -p $folder/input/train $folder/input/test
cp data/debtags-topical/label*.txt $folder/input/
cp -r data/debtags-topical/test/. $folder/input/test/
rm -f $folder/input/test/doc2labels.txt
python3 - "$documents" $folder/input/train/corpus.txt <<'PY'
import glob, gzip, random, sys
count, path = int(sys.argv[1]), sys.argv[2]
source = glob.glob("data/debtags-topical/train/corpus.txt*")[0]
texts = [line.rstrip("\n").split("\t", 1)[1].split() for line in (gzip.open if source.endswith("gz") else open)(source, "rt", encoding="utf-8")]
words = sorted({word for text in texts for word in text})
random.seed(1)
with open(path, "w", encoding="utf-8") as out:
    for i in range(count):
        text = [random.choice(words) if random.random() < .2 else word for word in texts[i % len(texts)]]
        out.write(f"d{i}\t{' '.join(text)}\n")
PY
timed() {
  local what=$1 start; shift; start=$(date +%s)
  "$@" >"$folder/$what.log" 2>&1 || { tail -5 "$folder/$what.log" >&2; exit 70; }
  echo "$what: $(($(date +%s) - start)) s; $(grep -oE 'peak memory [0-9]+ MiB' "$folder/$what.log" | tail -1)"
}
timed prepare $program prepare --input.file $folder/input/train/corpus.txt --output.dir $folder/shards
head -20000 $folder/input/train/corpus.txt >$folder/sample.txt
timed encode $program encode --input.file $folder/sample.txt --output.file $folder/sample.jsonl --device.kind cpu
timed phases $program run --input.dir $folder/input --run.dir $folder/run --pipeline.adapt none --device.kind cpu --infer.max-length 32 --pipeline.to hierarchy
grep -oE 'stage [0-9]/6 .* took .*' $folder/phases.log
rm -rf $folder/run $folder/input $folder/shards

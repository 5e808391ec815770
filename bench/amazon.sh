#!/usr/bin/env bash
# amazon.sh [gpuhpc arguments]   The Amazon taxonomy with its LLM-written reviews as TEST texts (label = the path each was written
# for). They are removed from every input: only the taxonomy and llm_enrichment.txt remain, and no training corpus.
set -eu
cd "$(dirname "$0")/.."
input=runs/amazon-input
rm -rf "$input"; mkdir -p "$input/train" "$input/test"
cp data/amazon-531/labels.txt data/amazon-531/label_hierarchy.txt "$input"
cp data/amazon-531/train/llm_enrichment.txt "$input/train"
gzip -dc data/amazon-531/train/generated_docs.txt.gz >"$input/test/corpus.txt"
python3 - "$input" <<'PY'
import gzip, json, sys
labels = json.load(gzip.open("data/amazon-531/train/generated_doc2label.json.gz"))
with open(sys.argv[1] + "/test/doc2labels.txt", "w") as out:
    for document, entry in labels.items():
        out.write(f"{document}\t{','.join(entry['with ancestors'])}\n")
PY
exec build/release/gpuhpc run --input.dir "$input" --run.dir runs/amazon --decode.expected-leaves 1 "$@"

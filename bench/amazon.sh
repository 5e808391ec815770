#!/usr/bin/env bash
# amazon.sh [gpuhpc arguments]   The Amazon taxonomy with its LLM-written reviews as TEST texts (label = the path each was written
# for). They are removed from every input: only the taxonomy and llm_enrichment.txt remain, and no training corpus.
set -eu
cd "$(dirname "$0")/.."
input=runs/amazon-input
rm -rf "$input"
python3 bench/amazon_data.py "$input"
exec build/release/gpuhpc run --input.dir "$input" --run.dir runs/amazon --decode.expected-leaves 1 "$@"

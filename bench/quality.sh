#!/usr/bin/env bash
# shellcheck disable=SC2046,SC2086  # options are passed as several words on purpose
# quality.sh [--students] [--encoders] [--presets]   Every step of the `recommended` preset on debtags-topical test: our figures beside
# the prototype's. --students adds the runs that train (minutes each), --encoders those of every encoder in .deps/models (half an hour
# for MPNet), --presets the published pipelines (longer).
# Gold is read for reporting only. The table goes to standard output, runs to runs/quality/.
set -eu
cd "$(dirname "$0")/.."
program=build/release/gpuhpc
students=; encoders=; presets=
for word in "$@"; do case $word in --students) students=1 ;; --encoders) encoders=1 ;; --presets) presets=1 ;; *) echo "quality: unknown option $word" >&2; exit 2 ;; esac; done

# row TITLE PROTOTYPE ARGS...: PROTOTYPE = Example-F1/P@1/macro-F1 as published in the design, or -
row() {
  local title=$1 prototype=$2 run; shift 2
  run=runs/quality/$(echo "$title" | tr -c 'a-zA-Z0-9.=\n' '-')
  if ! "$program" run --config gpuhpc.ini --run.dir "$run" "$@" >"$run.log" 2>&1; then
    echo "quality: '$title' failed; see $run.log" >&2
    tail -3 "$run.log" >&2
    exit 70
  fi
  python3 - "$title" "$prototype" "$run/metrics.json" <<'PY'
import json, sys
title, prototype, path = sys.argv[1:]
m = json.load(open(path))
f = lambda name: "-" if m.get(name) is None else f"{m[name]:.3f}"
print(f"| {title} | {prototype} | {f('example_f1')} | {f('precision_at_1')} | {f('precision_at_3')} | {f('mrr_filtered')} | {f('macro_f1')} |", flush=True)
PY
}
mkdir -p runs/quality
frozen="--pipeline.adapt none" no_student="--teleclass.head none"
untrained="$frozen $no_student"
none="$untrained --scoring.temperature 20 --scoring.csls-fit 0"  # the prototype's, at any L
off="$none --scoring.lexical 0 --scoring.csls 0 --scoring.name-votes 0 --scoring.smoothing-rounds 0"
L() { echo "--decode.expected-leaves $1"; }
echo "| debtags-topical test | prototype: F1/P@1/macro-F1 | Example-F1 | P@1 | P@3 | MRR filtered | macro-F1 |"
echo "|---|---|---|---|---|---|---|"
row "leaf softmax, names, L=2" ".422/.596/.326" $off --scoring.class-texts name --scoring.descriptions false --scoring.centring 0 $(L 2)
row "+ five texts and description, L=2" ".439/.618/.343" $off --scoring.centring 0 $(L 2)
row "+ centring, L=2" ".460/.639/.360" $off $(L 2)
row "+ lexical and half CSLS, L=2" ".473/.668/.384" $none --scoring.name-votes 0 --scoring.smoothing-rounds 0 $(L 2)
row "recommended without the student, L=2" ".524/.712/.423" $none $(L 2)
row "recommended without the student, L=3" ".535/.714/.431" $none $(L 3)
row "recommended without the student, L=1.5" "-" $none $(L 1.5)
row "recommended without the student, temperature 20 / L^(1/4), L=3" "-" $untrained --scoring.csls-fit 0 $(L 3)
row "recommended without the student, fitted share of CSLS, L=3" "-" $untrained $(L 3)
row "less five texts, L=3" ".525/-/-" $none --scoring.class-texts name --scoring.descriptions false $(L 3)
row "less lexical, L=3" ".534/-/-" $none --scoring.lexical 0 $(L 3)
row "less half CSLS, L=3" ".525/-/-" $none --scoring.csls 0 $(L 3)
row "less centring, L=3" ".534/-/-" $none --scoring.centring 0 $(L 3)
row "less refinement, L=3" ".518/-/-" $none --scoring.name-votes 0 $(L 3)
row "less smoothing, L=3" ".508/-/-" $none --scoring.smoothing-rounds 0 $(L 3)
row "one chain" ".430/-/-" $none --decode.mode chain $(L 1.5)
if [ -n "$students" ]; then
  row "recommended with the student, encoder as it is, L=3" "-" $frozen $(L 3)
  row "recommended, L=3" "-" $(L 3)
  row "recommended, L=1.5 (the default)" "-" $(L 1.5)
fi
if [ -n "$encoders" ]; then
  for encoder in .deps/models/all-*; do
    name=${encoder##*/}
    row "$name as it is, without the student, L=3" "-" --model.encoder "$encoder" $untrained $(L 3)
    row "$name as it is, with the student, L=3" "-" --model.encoder "$encoder" $frozen $(L 3)
    row "$name that learnt from the corpus, without the student, L=3" "-" --model.encoder "$encoder" $no_student $(L 3)
    row "$name, recommended, L=3" "-" --model.encoder "$encoder" $(L 3)
  done
fi
if [ -n "$presets" ]; then
  for preset in paper code multi-gpu; do
    row "preset $preset, frozen encoder" "-" --pipeline.preset $preset --teleclass.train-encoder false
    row "preset $preset" "-" --pipeline.preset $preset --train.max-length 128
  done
fi

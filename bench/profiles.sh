#!/usr/bin/env bash
# profiles.sh [PROFILE...] [-- gpuhpc arguments]   The profiles of the TaxoClass guide (a6000, conservative) on debtags-topical, on the CPU: every value as in
# configs/taxoclass-PROFILE.ini but for what a machine without a GPU and without their models has to replace: all-MiniLM-L6-v2 stands for the
# document encoder, its similarity for the NLI model's; there a parent's probability is the sum of its children's, so that core classes have
# siblings for rivals alone. About an hour of one core each. Gold is read for the figures alone.
set -eu
cd "$(dirname "$0")/.."
program=${GPUHPC:-build/release/gpuhpc}
profiles=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do profiles+=("$1"); shift; done
[ $# -gt 0 ] && shift
[ ${#profiles[@]} -gt 0 ] || profiles=(a6000 conservative)
mkdir -p runs/profiles
echo "| profile | Example-F1 | P@1 | P@3 | macro-F1 | exact match | minutes |"
echo "|---|---|---|---|---|---|---|"
for profile in "${profiles[@]}"; do
  run=runs/profiles/$profile
  rm -rf "$run"
  start=$SECONDS
  "$program" run --config "configs/taxoclass-$profile.ini" --input.dir data/debtags-topical --run.dir "$run" --device.kind cpu \
    --model.encoder .deps/models/all-MiniLM-L6-v2 --taxoclass.similarity embedding --taxoclass.nli-model "" --taxoclass.against-parents false "$@" > "$run.log" 2>&1 ||
    { echo "profiles.sh: $profile failed, see $run.log" >&2; tail -3 "$run.log" >&2; exit 70; }
  python3 - "$profile" "$run/metrics.json" $((SECONDS - start)) <<'PY'
import json, sys
profile, path, seconds = sys.argv[1:]
m = json.load(open(path))
print("| %s | %.3f | %.3f | %.3f | %.3f | %.3f | %.0f |" % (profile, m["example_f1"], m["precision_at_1"], m["precision_at_3"], m["macro_f1"],
      m["exact_match"], int(seconds) / 60))
PY
done

#!/usr/bin/env bash
# plan_tables.sh [--check]   Writes the tables of docs/plan.md anew: what `gpuhpc plan` finds beside the guide's batches for T5 (220M) and mT5
# (1.2B) on four GPUs. --check: fails when the page says anything else. GPUHPC=PROGRAM names another program.
set -eu
cd "$(dirname "$0")/.."
exec python3 - "${GPUHPC:-build/release/gpuhpc}" "${1:-}" <<'PY'
import json, os, subprocess, sys, tempfile

program, check = sys.argv[1], sys.argv[2] == "--check"
page, begin, end = "docs/plan.md", "<!-- tables: scripts/plan_tables.sh -->\n", "<!-- end of the tables -->\n"
gib = 2**30
# GPU: model: (training batch, evaluation batch, accumulation, inference batch) of the guide
guide = {
    "v100-16": {"mt5-large": (1, 2, 4, 2), "t5-base": (4, 4, 2, 8)},
    "a100-40": {"mt5-large": (4, 8, 2, 8), "t5-base": (8, 8, 2, 16)},
    "rtx3080-10": {"mt5-large": (1, 1, 8, 1), "t5-base": (2, 4, 1, 4)},
    "rtx4090-24": {"mt5-large": (1, 1, 8, 1), "t5-base": (2, 4, 1, 4)},
}


def plan(gpu, model, batch, *options):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "plan.json")
        done = subprocess.run([program, "plan", "--device.kind", "cpu", "--plan.gpu", gpu, "--plan.model", model, "--plan.global-batch", str(batch),
                               "--plan.length", "512", "--plan.target-length", "64", "--plan.json", file, *options], capture_output=True, text=True)
        if done.returncode not in (0, 77):
            sys.exit(done.stderr)
        return json.load(open(file))


def reason(model, theirs, answer):
    """Why the guide's four figures and ours are not the same."""
    train, evaluation, accumulation, inference = theirs
    best, memory = answer["candidates"][0], answer["candidates"][0]["memory"]
    kept = memory["weights"] + memory["gradients"] + memory["optimizer"]
    parts = []
    if not answer["fits"]:
        parts.append(f"weights, gradients and AdamW's moments are fp32 here, {kept / gib:.1f} GiB before the first document; "
                     "the guide holds the 2.4 GB of weights in half precision, and trains in 10-15 GB")
        if "zero1 on" in " ".join(answer["advice"]):
            parts.append(answer["advice"][1])
    else:
        if best["micro_batch"] > train:
            parts.append("the guide leaves room; attention to the source keeps no scores here: more fits"
                         + (", with layers computed again" if best["activation_checkpointing"] else ""))
        elif best["micro_batch"] < train:
            parts.append(f"{kept / gib:.1f} GiB are fp32 weights, gradients and moments")
        if best["accumulation"] != accumulation:
            parts.append("accumulation follows from the global batch")
    if answer["evaluation_documents"] > evaluation or answer["inference_documents"] > inference:
        parts.append("evaluation and inference: the largest that fit, not what suffices for speed")
    return "; ".join(parts)


def rows():
    lines = []
    for gpu, models in guide.items():
        lines += [f"### {gpu}", "", "| model | guide: train / eval / accumulation / inference | plan: micro-batch / largest eval / accumulation / largest inference "
                  "| precision, layers again | GiB: weights + gradients + moments, activations and copies, logits | s/update | why they differ |", "|---|---|---|---|---|---|---|"]
        for model, theirs in models.items():
            answer = plan(gpu, model, theirs[0] * theirs[2])
            best = answer["candidates"][0]
            memory = best["memory"]
            kept = memory["weights"] + memory["gradients"] + memory["optimizer"]
            moving = memory["activations"] + memory["copies"] + memory["workspace"]
            ours = f"{best['micro_batch']} / {answer['evaluation_documents']} / {best['accumulation']} / {answer['inference_documents']}" if answer["fits"] else \
                f"does not fit; inference {answer['inference_documents']}"
            seconds = f"{best['step_seconds']:.2f}" if answer["fits"] else "-"
            lines.append(f"| {model} ({answer['parameters']:,}) | {' / '.join(map(str, theirs))} | {ours} | {best['precision']}, "
                         f"{'yes' if best['activation_checkpointing'] else 'no'} | {kept / gib:.1f}, {moving / gib:.1f}, {memory['logits'] / gib:.1f} | {seconds} | {reason(model, theirs, answer)} |")
        lines.append("")
    return "\n".join(lines)


text = open(page).read()
head, rest = text.split(begin)
old, tail = rest.split(end)
new = rows()
if check:
    if old != new:
        sys.exit("docs/plan.md is not what the program plans; write it anew: bash scripts/plan_tables.sh")
    print("docs/plan.md is what the program plans")
else:
    open(page, "w").write(head + begin + new + end + tail)
PY

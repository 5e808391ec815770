#!/usr/bin/env bash
# plan_tables.sh [--check]   Writes the tables of docs/plan.md anew: what `gpuhpc plan` finds beside the batches of the guides (TaxoClass,
# pretraining, Sentence-BERT, T5 and mT5, TELEClass). --check: fails when the page says anything else. GPUHPC=PROGRAM names another program.
set -eu
cd "$(dirname "$0")/.."
exec python3 - "${GPUHPC:-build/release/gpuhpc}" "${1:-}" <<'PY'
import json, os, subprocess, sys, tempfile

program, check = sys.argv[1], sys.argv[2] == "--check"
page, begin, end = "docs/plan.md", "<!-- tables: scripts/plan_tables.sh -->\n", "<!-- end of the tables -->\n"
gib = 2**30
# GPU: model: (training batch, evaluation batch, accumulation, inference batch) of the guide, which gives T5 on the RTX cards no accumulation
summaries = {
    "v100-16": {"mt5-large": (1, 2, 4, 2), "t5-base": (4, 4, 2, 8)},
    "a100-40": {"mt5-large": (4, 8, 2, 8), "t5-base": (8, 8, 2, 16)},
    "rtx3080-10": {"mt5-large": (1, 1, 8, 1), "t5-base": (2, 4, None, 4)},
    "rtx4090-24": {"mt5-large": (1, 1, 8, 1), "t5-base": (2, 4, None, 4)},
}
# The premises' model, which has no published name here.
deberta_large = {"model_type": "deberta", "vocab_size": 50265, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
                 "max_position_embeddings": 512, "type_vocab_size": 0, "layer_norm_eps": 1e-7, "hidden_act": "gelu", "relative_attention": True,
                 "max_relative_positions": -1, "position_biased_input": False, "pos_att_type": ["c2p", "p2c"], "hidden_dropout_prob": .1,
                 "attention_probs_dropout_prob": .1}
# Title: rows of (what, GPU, ranks, job, model, tokens, (fewest, most) documents a GPU of the guide, global batch, more options). Global batch 0: inference;
# of what is evaluated beside a training: "evaluation".
classifiers = {
    "A. TaxoClass on one A6000": [
        ("similarity, before", "a6000-48", 1, "encode", "roberta-large", 512, (16, 16), 0, []),
        ("similarity", "a6000-48", 1, "encode", "deberta-large", 512, (64, 64), 0, []),
        ("classifier, before", "a6000-48", 1, "run", "bert-base", 256, (32, 32), 32, ["--train.layers", "-1"]),
        ("classifier", "a6000-48", 1, "run", "bert-large", 512, (64, 64), 64, ["--train.layers", "-1"]),
        ("evaluation, before", "a6000-48", 1, "evaluation", "bert-base", 256, (64, 64), 32, ["--train.layers", "-1"]),
        ("evaluation", "a6000-48", 1, "evaluation", "bert-large", 512, (128, 128), 64, ["--train.layers", "-1"]),
    ],
    "B. Pretraining on one A6000": [
        ("medium, before", "a6000-48", 1, "pretrain", "medium", 512, (12, 12), 128, []),
        ("medium", "a6000-48", 1, "pretrain", "medium", 512, (32, 32), 128, []),
        ("medium, short of memory", "a6000-48", 1, "pretrain", "medium", 512, (24, 24), 120, []),
    ],
    "C. Sentence-BERT on eight GPUs (the guide names none: an A100)": [
        ("DDP", "a100-40", 8, "train-embedding", "bert-base", 128, (64, 128), 1024, []),
        ("DP", "a100-40", 8, "train-embedding", "bert-base", 128, (32, 64), 512, []),
    ],
    "E. TELEClass on several GPUs": [
        ("student, 16 GB", "v100-16", 4, "run", "bert-base", 512, (16, 16), 64, ["--train.layers", "-1"]),
        ("student, 24 GB", "rtx4090-24", 4, "run", "bert-base", 512, (24, 32), 128, ["--train.layers", "-1"]),
        ("student, 48 GB", "a6000-48", 4, "run", "bert-base", 512, (32, 48), 192, ["--train.layers", "-1"]),
    ],
}


def plan(gpu, model, batch, length, *options):
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "plan.json")
        if model == "deberta-large":
            model = os.path.join(folder, "config.json")
            with open(model, "w") as config:
                json.dump(deberta_large, config)
        done = subprocess.run([program, "plan", "--device.kind", "cpu", "--plan.gpu", gpu, "--plan.model", model, "--plan.global-batch", str(batch),
                               "--plan.length", str(length), "--plan.json", file, *options], capture_output=True, text=True)
        if done.returncode not in (0, 77):
            sys.exit(done.stderr)
        return json.load(open(file))


def kept(memory):
    return memory["weights"] + memory["gradients"] + memory["optimizer"] + memory["communication"]


def at(memory, documents, batch):
    """About what `batch` documents at once take, from the parts of `documents`."""
    grows = memory["activations"] + memory["logits"] + memory["cache"]
    return (memory["total"] + grows * (batch / max(1, documents) - 1)) / gib


def training_reason(batch, accumulation, answer):
    """Why the guide's micro-batch and accumulation are not the plan's. `batch`: (fewest, most)."""
    best, memory, limit = answer["candidates"][0], answer["candidates"][0]["memory"], answer["memory_for_tensors"] / gib
    if not answer["fits"]:
        parts = [f"fp32 weights, gradients and moments take {kept(memory) / gib:.1f} GiB, one document {best['bytes'] / gib:.1f}, and {limit:.1f} are there"]
        return parts + [sentence for sentence in answer["advice"] if "zero1 on" in sentence]
    parts = []
    if best["micro_batch"] > batch[1]:
        parts.append(f"the guide's {batch[1]} at once take about {at(memory, best['micro_batch'], batch[1]):.1f} of {limit:.1f} GiB here: {best['largest_micro_batch']} fit"
                     + (", with layers computed again" if best["activation_checkpointing"] else ""))
    elif best["micro_batch"] < batch[0] and best["largest_micro_batch"] >= batch[0]:
        parts.append(f"{best['largest_micro_batch']} fit, {best['micro_batch']} at once are as fast")
    elif best["micro_batch"] < batch[0]:
        parts.append(f"{batch[0]} at once would take about {at(memory, best['micro_batch'], batch[0]):.1f} of {limit:.1f} GiB")
    if accumulation and best["accumulation"] != accumulation:
        parts.append(f"{best['micro_batch']} at once make the global batch of {answer['global_batch']} in {best['accumulation']}, not {accumulation}")
    return parts


def largest_reason(what, theirs, ours, memory):
    if ours < theirs[0]:
        return [f"{what}: {theirs[0]} take about {at(memory, ours, theirs[0]):.1f} GiB"]
    if ours > theirs[1]:
        return [f"{what}: up to {ours} fit, the guide takes {theirs[1]}"]
    return []


def summary_rows():
    lines = ["### D. Summaries: T5 (220M) and mT5 (1.2B)", "", "512 source and 64 target tokens, 3 beams, AdamW, one GPU, at the guide's global batch (training batch x accumulation).", ""]
    for gpu, models in summaries.items():
        lines += [f"#### {gpu}", "", "| model | guide: train / eval / accumulation / inference | plan: micro-batch / largest eval / accumulation / largest inference "
                  "| precision, layers again | GiB: weights + gradients + moments, activations and copies, logits | s/update | why they differ |", "|---|---|---|---|---|---|---|"]
        for model, theirs in models.items():
            train, evaluation, accumulation, inference = theirs
            answer = plan(gpu, model, train * (accumulation or 1), 512, "--plan.target-length", "64")
            best = answer["candidates"][0]
            memory = best["memory"]
            moving = memory["activations"] + memory["copies"] + memory["workspace"]
            ours = f"{best['micro_batch']} / {answer['evaluation_documents']} / {best['accumulation']} / {answer['inference_documents']}" if answer["fits"] else \
                f"does not fit; inference {answer['inference_documents']}"
            seconds = f"{best['step_seconds']:.2f}" if answer["fits"] else "-"
            why = training_reason((train, train), accumulation, answer)
            if answer["fits"]:
                why += largest_reason("evaluation", (evaluation, evaluation), answer["evaluation_documents"], memory)
            why += largest_reason("inference", (inference, inference), answer["inference_documents"], answer["inference_memory"])
            lines.append(f"| {model} ({answer['parameters']:,}) | {' / '.join(str(figure or '-') for figure in theirs)} | {ours} | {best['precision']}, "
                         f"{'yes' if best['activation_checkpointing'] else 'no'} | {kept(memory) / gib:.1f}, {moving / gib:.1f}, {memory['logits'] / gib:.1f} | {seconds} | {'; '.join(why) or '-'} |")
        lines.append("")
    return lines


def classifier_rows(title, rows):
    lines = [f"### {title}", "", "| what | GPUs | model, tokens | guide: documents a GPU | plan: at once / accumulation | most that fit | precision, layers again | GiB | why they differ |",
             "|---|---|---|---|---|---|---|---|---|"]
    for what, gpu, ranks, job, model, length, theirs, batch, options in rows:
        beside = job == "evaluation"
        answer = plan(gpu, model, batch or 1, length, "--plan.ranks", str(ranks), "--plan.job", "run" if beside else job, *options)
        best = answer["candidates"][0]
        memory, how = best["memory"], f"{best['precision']}, {'yes' if best['activation_checkpointing'] else 'no'}"
        most = answer["evaluation_documents"] if beside else best["largest_micro_batch"]
        if beside or batch == 0:
            ours, why = "-", largest_reason(what.split(",")[0], theirs, most, memory)
        else:
            ours, why = (f"{best['micro_batch']} / {best['accumulation']}" if answer["fits"] else "does not fit"), training_reason(theirs, None, answer)
        figure = str(theirs[0]) if theirs[0] == theirs[1] else f"{theirs[0]}-{theirs[1]}"
        lines.append(f"| {what} | {ranks} {gpu} | {model}, {length} | {figure} | {ours} | {most} | {how} | {'-' if beside else format(best['bytes'] / gib, '.1f')} | {'; '.join(why) or '-'} |")
    return lines + [""]


def tables():
    lines = []
    for title, rows in classifiers.items():
        if title.startswith("E."):  # in the guides' order
            lines += summary_rows()
        lines += classifier_rows(title, rows)
    return "\n".join(lines)


text = open(page).read()
head, rest = text.split(begin)
old, tail = rest.split(end)
new = tables()
if check:
    if old != new:
        sys.exit("docs/plan.md is not what the program plans; write it anew: bash scripts/plan_tables.sh")
    print("docs/plan.md is what the program plans")
else:
    open(page, "w").write(head + begin + new + end + tail)
PY

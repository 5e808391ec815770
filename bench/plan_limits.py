#!/usr/bin/env python3
"""plan_limits.py [--program P] [CASE...]   Is the plan under a memory limit a good one?

For each case (job, model, length, global batch) every micro-batch that is a power of two, with layers kept and computed again, is tried on
this machine's processor without a limit: three updates each (`gpuhpc plan --plan.calibrate`), the best time of an update and the peak of the
tensors' allocator. Then, for limits between the smallest and the largest of these peaks, `gpuhpc plan --device.memory-limit` chooses, its choice
is trained under that limit, and its speed stands beside the best of those trials that fit in the limit. Fails when a plan runs out of memory, or is
slower than 90% of the best.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

CASES = {
    "run": ("run", "minilm-l6", 128, 32),
    "train-embedding": ("train-embedding", "minilm-l6", 96, 32),
    "pretrain": ("pretrain", "small", 128, 64),
    "train-seq2seq": ("train-seq2seq", "t5-small", 256, 16),
}
SHARES = (.1, .3, .6, 1.2)  # of the way from the smallest peak to the largest


def call(program, job, model, length, batch, *more):
    command = [program, "plan", "--device.kind", "cpu", "--plan.gpu", "cpu", "--plan.job", job, "--plan.model", model, "--train.precision", "fp32",
               "--plan.global-batch", str(batch), "--plan.length", str(length), *(["--train.layers", "-1"] if job == "run" else []), *map(str, more)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def trials(program, case, documents, limit=None):
    """{layers computed again: (best seconds of an update, peak in bytes)}; what ran out of memory is not there."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trials.json"
        code, output = call(program, *case, "--plan.calibrate", "true", "--plan.calibration", file, "--train.micro-batch", documents,
                            *(["--device.memory-limit", limit] if limit else []))
        if code not in (0, 77):
            sys.exit(f"plan_limits.py: {output.splitlines()[-1]}")
        if not file.exists():
            return {}
        return {t["checkpointing"]: (t["seconds"], t["measured"]) for t in json.loads(file.read_text())["trials"] if t["documents"] == documents}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/gpuhpc")
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], help="all of them when none is named")
    arguments = parser.parse_args()
    print("| job, model | limit, MiB | the plan's micro-batch | layers again | documents/s | best of what fits | share | peak, MiB |\n|---|---|---|---|---|---|---|---|")
    failures, worst = 0, 1.
    for name in arguments.cases or CASES:
        case = CASES[name]
        batch = case[3]
        found = []
        documents = 1
        while documents <= batch:
            for checkpointing, result in trials(arguments.program, case, documents).items():
                found.append((*result, checkpointing, documents))
            documents *= 2
        low, high = min(f[1] for f in found), max(f[1] for f in found)
        for share in SHARES:
            limit = int(low / .93 + share * (high - low))
            with tempfile.TemporaryDirectory() as folder:
                code, output = call(arguments.program, *case, "--device.memory-limit", limit, "--plan.json", Path(folder) / "plan.json")
                plan = json.loads((Path(folder) / "plan.json").read_text())["candidates"][0] if code == 0 else None
            if plan is None:
                print(f"| {name}, {case[1]} | {limit / 2**20:,.0f} | the plan says that nothing fits: {output.splitlines()[-1]} | | | | | |")
                failures += 1
                continue
            chosen = trials(arguments.program, case, plan["micro_batch"], limit).get(plan["activation_checkpointing"])
            best = batch / min(f[0] for f in found if f[1] <= limit)
            if chosen is None:
                print(f"| {name}, {case[1]} | {limit / 2**20:,.0f} | {plan['micro_batch']} | {plan['activation_checkpointing']} | out of memory | {best:.2f} | | |")
                failures += 1
                continue
            size = plan["micro_batch"]
            speed = size * -(-batch // size) / chosen[0]  # whole micro-batches make the update
            worst = min(worst, speed / best)
            print(f"| {name}, {case[1]} | {limit / 2**20:,.0f} | {plan['micro_batch']} | {'yes' if plan['activation_checkpointing'] else 'no'} | {speed:.2f} "
                  f"| {best:.2f} | {100 * speed / best:.0f}% | {chosen[1] / 2**20:,.0f} |", flush=True)
    print(f"\n{failures} without a plan that runs; the slowest at {100 * worst:.0f}% of the best that fits")
    sys.exit(failures > 0 or worst < .9)


main()

#!/usr/bin/env python3
"""plan_limits.py [--program P] [CASE...]   Is the plan under a memory limit a good one?

For each case (job, model, length, global batch) every micro-batch that is a power of two, with layers kept and computed again, is tried on
this machine's processor without a limit: three updates each (`gpuhpc plan --plan.calibrate`), the time of an update and the peak of the
tensors' allocator. Then, for limits between the smallest and the largest of these peaks, `gpuhpc plan --device.memory-limit` chooses. The
plan's choice is trained under that limit, and in turn the fastest trial that fits is trained without a limit, twice each; the best speeds of
both stand side by side. Fails when a plan runs out of memory, or is slower than 90% of the best.
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
    "train-seq2seq": ("train-seq2seq", "t5-small", 128, 8),
}
ROUNDS = 2
FILLED = .98  # share of --device.memory-limit that a plan for a processor fills
SHARES = (.1, .3, .6, 1.2)  # of the way from the smallest peak to the largest


def call(program, job, model, length, batch, *more):
    command = [program, "plan", "--device.kind", "cpu", "--plan.gpu", "cpu", "--plan.job", job, "--plan.model", model, "--train.precision", "fp32",
               "--plan.global-batch", str(batch), "--plan.length", str(length), *(["--train.layers", "-1"] if job == "run" else []), *map(str, more)]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def trials(program, case, documents, limit=None, again=None):
    """{(documents, layers computed again): (seconds of an update, peak in bytes)} of that micro-batch and its half; what ran out of memory is not there."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trials.json"
        code, output = call(program, *case, "--plan.calibrate", "true", "--plan.calibration", file, "--train.micro-batch", documents,
                            *(["--device.memory-limit", limit] if limit else []),
                            *(["--train.activation-checkpointing", str(again).lower()] if again is not None else []))
        if code not in (0, 77):
            sys.exit(f"plan_limits.py: {output.splitlines()[-1]}")
        if not file.exists():
            return {}
        return {(t["documents"], t["checkpointing"]): (t["seconds"], t["measured"]) for t in json.loads(file.read_text())["trials"]}


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
        found, documents = {}, 2
        while documents < 4 * batch:
            found |= trials(arguments.program, case, min(documents, batch))
            documents *= 4
        low, high = min(peak for _, peak in found.values()), max(peak for _, peak in found.values())
        for share in SHARES:
            limit = int(low / FILLED + share * (high - low))
            with tempfile.TemporaryDirectory() as folder:
                code, output = call(arguments.program, *case, "--device.memory-limit", limit, "--plan.json", Path(folder) / "plan.json")
                plan = json.loads((Path(folder) / "plan.json").read_text())["candidates"][0] if code == 0 else None
            if plan is None:
                print(f"| {name}, {case[1]} | {limit / 2**20:,.0f} | the plan says that nothing fits: {output.splitlines()[-1]} | | | | | |")
                failures += 1
                continue
            chosen = plan["micro_batch"], plan["activation_checkpointing"]
            best = min((seconds, which) for which, (seconds, peak) in found.items() if peak <= limit)[1]
            speeds, peak = {chosen: [], best: []}, 0
            for _ in range(ROUNDS):  # in turn: the fastest of many trials was lucky as well
                for which in speeds:
                    trial = trials(arguments.program, case, which[0], limit if which == chosen else None, which[1]).get(which)
                    if trial:
                        speeds[which].append(which[0] * -(-batch // which[0]) / trial[0])  # whole micro-batches make the update
                        peak = max(peak, trial[1]) if which == chosen else peak
            title = f"| {name}, {case[1]} | {limit / 2**20:,.0f} | {chosen[0]} | {'yes' if chosen[1] else 'no'} "
            if len(speeds[chosen]) < ROUNDS or not speeds[best]:
                print(f"{title}| out of memory | | | |", flush=True)
                failures += 1
                continue
            own, other = max(speeds[chosen]), max(speeds[best])
            worst = min(worst, own / other)
            print(f"{title}| {own:.2f} | {other:.2f} ({best[0]}{', layers again' if best[1] else ''}) | {100 * own / other:.0f}% | {peak / 2**20:,.0f} |", flush=True)
    print(f"\n{failures} without a plan that runs; the slowest at {100 * worst:.0f}% of the best that fits")
    sys.exit(failures > 0 or worst < .9)


main()

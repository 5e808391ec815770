"""The traces of --profile.steps: every event has its fields, lies on one step, within that step and within or beside every other event.

    python bench/peers/check_trace.py RUN_FOLDER/trace/training --steps 10-12 [--ranks 2]

Prints the mean milliseconds per step of each phase on each rank. Exit 1 when something is wrong. Needs nothing but Python.
"""
import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path

PHASES = {"data", "forward", "backward", "sum", "agreement", "update", "gather", "report"}


def check(path, rank, steps):
    """Problems of one file, and the microseconds of each phase."""
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") != "M"]
    problems, spent, by_step = [], Counter(), {step: [] for step in steps}
    for event in events:
        step = event.get("args", {}).get("step")
        numbers = all(isinstance(event.get(key), int) for key in ("ts", "dur", "pid", "tid")) and event["dur"] >= 0
        if event.get("ph") != "X" or not numbers or not isinstance(event.get("name"), str) or event["pid"] != rank:
            problems.append(f"a field is wrong: {event}")
        elif step not in by_step:
            problems.append(f"{event['name']} belongs to step {step}")
        else:
            by_step[step].append((event["ts"], event["ts"] + event["dur"], event["name"]))
            spent[re.sub(r" \d+$", "", event["name"])] += event["dur"]
    for step, spans in by_step.items():
        whole = [span for span in spans if span[2] == f"step {step}"]
        if len(whole) != 1:
            problems.append(f"step {step} is there {len(whole)} times")
            continue
        problems += [f"{name} does not lie within step {step}" for begin, end, name in spans if begin < whole[0][0] or end > whole[0][1]]
        for i, (begin, end, name) in enumerate(spans):
            for other_begin, other_end, other in spans[:i]:
                apart = end <= other_begin or other_end <= begin
                within = (begin <= other_begin and other_end <= end) or (other_begin <= begin and end <= other_end)
                if not apart and not within:
                    problems.append(f"{other} and {name} of step {step} cross")
    if missing := PHASES - set(spent):
        problems.append(f"no {', '.join(sorted(missing))}")
    return problems, spent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", required=True)
    parser.add_argument("--ranks", type=int, default=1)
    arguments = parser.parse_args()
    first, _, last = arguments.steps.partition("-")
    steps = range(int(first), int(last or first) + 1)
    wanted = [arguments.folder / f"rank-{rank:05d}.json" for rank in range(arguments.ranks)]
    failed = sorted(arguments.folder.iterdir()) != wanted
    if failed:
        print(f"files {sorted(path.name for path in arguments.folder.iterdir())}, not one of each of {arguments.ranks} ranks")
    for rank, path in enumerate(path for path in wanted if path.exists()):
        problems, spent = check(path, rank, steps)
        failed = failed or bool(problems)
        print("\n".join(problems[:20] + [f"{path.name}: " + ", ".join(f"{name} {time / len(steps) / 1e3:.2f} ms" for name, time in spent.most_common())]))
    sys.exit(failed)


if __name__ == "__main__":
    main()

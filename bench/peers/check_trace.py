"""The traces of --profile.steps: every event has its fields, lies on one step, within that step and within or beside every other event.

    python bench/peers/check_trace.py RUN_FOLDER/trace --steps 10-12 [--ranks 2]

Prints the mean milliseconds a step of each phase on each rank. Exit 1 when something is wrong. Needs nothing but Python.
"""
import argparse
import json
import re
import sys
from collections import Counter
from pathlib import Path

PHASES = {"data", "forward", "backward", "loss", "sum", "agreement", "update", "gather", "report"}


def check(path, rank, steps):
    """Problems of one file, and the microseconds of each phase."""
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] != "M"]
    problems, spent, seen, open_events = [], Counter(), Counter(), []
    for event in events:
        if event["ph"] != "X" or not all(isinstance(event[key], int) for key in ("ts", "dur", "pid", "tid")) or event["dur"] < 0 or event["pid"] != rank:
            problems.append(f"a field is wrong: {event}")
        seen[event["args"]["step"]] += event["name"] == f"step {event['args']['step']}"
        spent[re.sub(r" \d+$", "", event["name"])] += event["dur"]
    if seen != Counter({step: 1 for step in steps}):
        problems.append(f"steps {dict(seen)}, not one each of {list(steps)}")
    # At one moment the event around comes before those within it: it begins no later and ends no sooner.
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        begin, end = event["ts"], event["ts"] + event["dur"]
        while open_events and open_events[-1]["ts"] + open_events[-1]["dur"] <= begin and (end > begin or open_events[-1]["name"] != f"step {event['args']['step']}"):
            open_events.pop()
        if open_events and end > open_events[-1]["ts"] + open_events[-1]["dur"]:
            problems.append(f"{event['name']} ends after {open_events[-1]['name']} around it")
        if not open_events and not event["name"].startswith("step "):
            problems.append(f"{event['name']} lies in no step")
        if open_events and open_events[0]["args"]["step"] != event["args"]["step"]:
            problems.append(f"{event['name']} of step {event['args']['step']} lies in {open_events[0]['name']}")
        open_events.append(event)
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

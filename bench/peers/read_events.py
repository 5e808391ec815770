"""A run's event file read with TensorBoard's own reader, every value against metrics.jsonl.

    pip install tensorboard
    python bench/peers/read_events.py --events RUN_FOLDER/events/training --lines RUN_FOLDER/metrics.jsonl

Exit 1 when a step is missing, twice there, or has another value than the line (as a 32-bit float).
"""
import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

TAGS = {"loss": "train/loss", "gradient_norm": "train/gradient_norm", "validation_loss": "validation/loss", "tokens_per_second": "speed/tokens_per_second",
        "host_memory": "memory/host_bytes", "device_memory": "memory/device_bytes", "gpu_utilisation": "speed/gpu_utilisation_percent"}


def wanted_scalars(lines):
    """{tag: [(step, value), ..]} that the lines stand for."""
    wanted = {}
    for line in lines:
        values = {tag: line[key] for key, tag in TAGS.items() if key in line}
        values.update({f"learning_rate/{group}": rate for group, rate in line.get("learning_rates", {}).items()})
        if "step_seconds" in line:
            values["speed/data_wait_percent"] = 100 * line["data_seconds"] / line["step_seconds"]
            values["speed/exposed_communication_percent"] = 100 * line["exposed_communication_seconds"] / line["step_seconds"]
        for tag, value in values.items():
            wanted.setdefault(tag, []).append((line["step"], math.nan if value is None else value))
    return wanted


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=Path, required=True)
    parser.add_argument("--lines", type=Path, required=True)
    arguments = parser.parse_args()
    reader = EventAccumulator(str(arguments.events), size_guidance={"scalars": 0})
    reader.Reload()
    wanted = wanted_scalars([json.loads(line) for line in arguments.lines.read_text().splitlines()])
    problems = [] if set(reader.Tags()["scalars"]) == set(wanted) else [f"tags {sorted(reader.Tags()['scalars'])}, not {sorted(wanted)}"]
    values = 0
    for tag in set(wanted) & set(reader.Tags()["scalars"]):
        found = [(event.step, event.value) for event in reader.Scalars(tag)]
        if [step for step, _ in found] != [step for step, _ in wanted[tag]]:
            problems.append(f"{tag}: steps {[step for step, _ in found]}")
            continue
        for (step, value), (_, line_value) in zip(found, wanted[tag]):
            values += 1
            if not (value == np.float32(line_value) or (math.isnan(value) and math.isnan(line_value)) or math.isclose(value, line_value, rel_tol=1e-6)):
                problems.append(f"{tag}, step {step}: {value}, the line has {line_value}")
    print("\n".join(problems[:20] + [f"{len(wanted)} scalars, {values} values, {len(problems)} problems"]))
    sys.exit(bool(problems) or values == 0)


if __name__ == "__main__":
    main()

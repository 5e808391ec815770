#!/usr/bin/env python3
"""The perplexity curve and the last samples of a `pretrain` run, for a results file (standard library).

    python3 bench/perplexity_plot.py RUN OUT.svg > samples.md

Reads RUN/metrics.jsonl and RUN/samples.json. The perplexity axis is logarithmic.
"""
import json
import math
import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 320, 64, 16, 16, 44


def curve(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    seconds, points = 0, []
    for line in lines:
        seconds += line.get("step_seconds", 0)
        if "validation_perplexity" in line:
            points.append((line["step"], seconds, line["validation_perplexity"]))
    return points


def ticks(low, high):
    """1, 2, 5 times powers of ten from low to high."""
    found, power = [], 10 ** math.floor(math.log10(low))
    while power <= high:
        found += [m * power for m in (1, 2, 5) if low <= m * power <= high]
        power *= 10
    return found


def svg(points):
    steps, values = [p[0] for p in points], [p[2] for p in points]
    low, high, last = min(values) * .9, max(values) * 1.1, steps[-1]
    x = lambda step: LEFT + (WIDTH - LEFT - RIGHT) * step / last  # noqa: E731
    y = lambda value: TOP + (HEIGHT - TOP - BOTTOM) * math.log(high / value) / math.log(high / low)  # noqa: E731
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for value in ticks(low, high):
        parts.append(f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>')
    for i in range(6):
        step = last * i / 5
        parts.append(f'<text x="{x(step):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{step:.0f}</text>')
    line = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, _, value in points)
    parts.append(f'<polyline points="{line}" fill="none" stroke="#1f6fb4" stroke-width="2"/>')
    parts += [f'<circle cx="{x(step):.1f}" cy="{y(value):.1f}" r="3" fill="#1f6fb4"/>' for step, _, value in points]
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">updates</text>'
                 f'<text x="14" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 14 {HEIGHT / 2})">perplexity of a masked token</text></svg>')
    return "\n".join(parts) + "\n"


def main():
    run, out = Path(sys.argv[1]), Path(sys.argv[2])
    points = curve(run)
    out.write_text(svg(points), encoding="utf-8")
    print("| update | seconds | perplexity |\n|---|---|---|")
    for step, seconds, value in points:
        print(f"| {step} | {seconds:.0f} | {value:.1f} |")
    (table,) = json.loads((run / "samples.json").read_text(encoding="utf-8"))
    print("\n| was | five words | text |\n|---|---|---|")
    clean = lambda text: " ".join(text.replace("|", "\\|").split())  # noqa: E731
    for _, text, was, words in [row for row in table["rows"] if row[0] == "end"]:
        place = text.find("[MASK]")
        near = text[max(0, place - 60):place + 66]
        print(f"| {clean(was)} | {clean(words)} | {clean(near)} |")


if __name__ == "__main__":
    main()

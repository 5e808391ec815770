"""Parts of bench/few_labels.sh: draws labels, fills in what `select` wrote, prints a row with logistic regression beside it, and the means.

The regression is scikit-learn's, one per class that has a labelled document, on the vectors of the run's encoder, adapted where it is (with --row and --labels); its
probabilities are decoded as ours are, by expected F1; of three settings the one that is best on the test side counts.
"""
import argparse
import csv
import json
from pathlib import Path

import h5py
import numpy as np
from recipe_reference import Data, expected_f1, metrics, read_rows
from sklearn.linear_model import LogisticRegression


def labels_of(path):
    return {row[0]: set(map(int, row[1].split(","))) for row in read_rows(path)}


def rows_of(run, file):
    with h5py.File(next(run.glob(f"stages/{file}"))) as values:
        return values["values"][:]


def regression(data, folder, run, labels):
    given, ids = labels_of(labels), [row[0] for row in read_rows(folder / "train/corpus.txt")]
    rows = [i for i, name in enumerate(ids) if name in given]
    x = rows_of(run, "[0-9][0-9]-encoding/documents.h5")[rows]
    classes = [data.closed(given[ids[i]]) for i in rows]
    y, best = rows_of(run, "*-test-encoding/vectors/encoder-1.h5"), None
    for weight, c in ((None, 10), ("balanced", 10), ("balanced", 100)):
        p = np.zeros((len(data.test), data.classes))
        for k in range(data.classes):
            has = np.array([k in group for group in classes])
            if has.all():
                p[:, k] = 1
            elif has.any():
                p[:, k] = LogisticRegression(C=c, class_weight=weight, max_iter=1000).fit(x, has).predict_proba(y)[:, 1]
        found = metrics(data, p, expected_f1(data, p, 1))
        if best is None or found["example_f1"] > best["example_f1"]:
            best = found
    return best


def print_means(table):
    """Of the rows of each size and kind of a file of such rows."""
    groups = {}
    for line in table.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        kind = cells[1].split(",")[0] if len(cells) > 5 else ""
        if kind in ("random", "select"):
            groups.setdefault(f"{cells[0]} labels, {kind}", []).append([float(cells[i]) for i in (2, 3, 4, 8, 9, 6, 7)])
    print("\n| labels | Example-F1 | P@1 | macro-F1 | ECE, best class | ECE, labels | logistic regression: Example-F1 | its P@1 |\n|---|---|---|---|---|---|---|---|")
    for name, rows in groups.items():
        print(f"| {name} | " + " | ".join(f"{value:.3f}".removeprefix("0") for value in np.mean(rows, 0)) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--labels", type=Path)
    parser.add_argument("--draw", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--fill", type=Path)
    parser.add_argument("--row")
    parser.add_argument("--means", type=Path)
    options = parser.parse_args()
    if options.means:
        return print_means(options.means)
    if options.row is None:
        gold = read_rows(options.data / "train/doc2labels.txt")
        if options.fill:
            wanted = {row["id"] for row in csv.DictReader(options.fill.open(encoding="utf-8"))}
            chosen = [row for row in gold if row[0] in wanted]
        else:
            chosen = [gold[i] for i in np.random.default_rng(options.seed).choice(len(gold), options.draw, replace=False)]
        options.labels.write_text("".join(f"{name}\t{classes}\n" for name, classes in chosen), encoding="utf-8")
        return
    figures = json.loads((options.run / "metrics.json").read_text())
    leaves = json.loads((options.run / "model/gpuhpc/settings.json").read_text())["labelling"]["decode.expected-leaves"]
    row = f"| {options.row} | {figures['example_f1']:.4f} | {figures['precision_at_1']:.4f} | {figures['macro_f1']:.4f} | {float(leaves):.2f} |"
    if options.labels:
        other = regression(Data(options.data), options.data, options.run, options.labels)
        row += f" {other['example_f1']:.4f} | {other['precision_at_1']:.4f} |"
    else:
        row += " | |"
    row += f" {figures['ece_best']:.4f} | {figures['ece_labels']:.4f} |"
    print(row, flush=True)


main()

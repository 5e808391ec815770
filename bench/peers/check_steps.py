"""Every stage of a `recommended` run (with --scoring.temperature 20) against recipe_reference.py --dump: the largest difference of each intermediate.

    python bench/peers/check_steps.py --run RUN_FOLDER --dump DIR

Exit 1 when an intermediate is further away than its bound (fp32 and bf16 embeddings have bounds of their own: --precision).
"""
import argparse
import sys
from pathlib import Path

import h5py
import numpy as np

from recipe_reference import average

# Largest absolute difference; neighbours may swap where two cosines are equal up to rounding.
BOUNDS = {"fp32": {"vectors": 5e-5, "posterior": 2e-3, "neighbours": .01}, "bf16": {"vectors": 5e-3, "posterior": .05, "neighbours": .02}}


def dataset(path, name="values"):
    with h5py.File(path, "r") as file:
        return file[name][()]


def dense(path):
    """A sparse matrix file as an array."""
    with h5py.File(path, "r") as file:
        offsets, columns, values = (file[name][()] for name in ("offsets", "columns", "values"))
    rows = len(offsets) - 1
    out = np.zeros((rows, rows), dtype=np.float32)
    out[np.repeat(np.arange(rows), np.diff(offsets)), columns] = values
    return out


def path_order(ours, reference):
    """Columns of the run for the reference's paths: both sides list the same vectors, perhaps in another order."""
    order = (ours.astype(np.float64) @ reference.T.astype(np.float64)).argmax(0)
    if len(set(order.tolist())) != len(order):
        raise SystemExit("the path vectors of the run cannot be matched one to one with the reference's")
    return order


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--dump", type=Path, required=True)
    parser.add_argument("--precision", choices=sorted(BOUNDS), default="fp32",
                        help="of the run's encoder (device.kind auto encodes in bf16 where the CPU can)")
    arguments = parser.parse_args()
    encoding, refinement = (next(arguments.run.glob(f"stages/*-{name}")) for name in ("encoding", "refinement"))
    wanted = {path.stem: np.load(path) for path in arguments.dump.glob("*.npy")}
    order = path_order(dataset(refinement / "paths.h5", "vectors"), wanted["c"])
    graph = average([(wanted[f"{kind}_neighbours"], wanted[f"{kind}_cosines"]) for kind in ("tfidf", "dense")], len(wanted["train"]))
    checks = [("embeddings of documents", "vectors", dataset(encoding / "documents.h5"), wanted["train"]),
              ("centred documents x'", "vectors", dataset(encoding / "centred.h5"), wanted["train_centred"]),
              ("class vectors", "vectors", dataset(encoding / "classes.h5", "vectors"), wanted["classes"]),
              ("centred classes e'", "vectors", dataset(encoding / "classes.h5", "centred"), wanted["classes_centred"]),
              ("hubness r", "vectors", dataset(refinement / "paths.h5", "hubness")[order], wanted["r"]),
              ("refined paths c", "vectors", dataset(refinement / "paths.h5", "vectors")[order], wanted["c"]),
              ("posterior P1", "posterior", dataset(refinement / "first_posterior.h5")[:, order], wanted["P1"]),
              ("posterior F", "posterior", dataset(refinement / "posterior.h5")[:, order], wanted["F"])]
    wrong = 0
    for name, kind, ours, reference in checks:
        difference = np.abs(ours.astype(np.float64) - reference)
        bad = difference.max() > BOUNDS[arguments.precision][kind]
        wrong += bad
        print(f"{name:26s} largest difference {difference.max():.2e}, mean {difference.mean():.2e}{'   TOO FAR' if bad else ''}")
    moved = np.abs(dense(refinement / "neighbours.h5") - graph).sum(1) / 2  # share of a row's weight that sits elsewhere
    bad = moved.mean() > BOUNDS[arguments.precision]["neighbours"]
    print(f"{'neighbours A':26s} weight on other neighbours {moved.mean():.2e}, rows that differ by more than 1% "
          f"{(moved > .01).mean():.2%}{'   TOO FAR' if bad else ''}")
    sys.exit(1 if wrong or bad else 0)


if __name__ == "__main__":
    main()

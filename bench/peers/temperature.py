"""The softmax temperature beside the number of leaves, and encoders whose cosines are all large: the recipe of recipe_reference.py on training documents.

    python bench/peers/temperature.py --model .deps/models/all-MiniLM-L6-v2 --data data/debtags-topical --leaves 3

Vectors are those of `gpuhpc encode` (--program). No student. Gold of the corpus that is learnt from is read for the figures alone. A common direction is added to every vector, `common` times their
length, before they are made unit again: the mean cosine of documents and classes is then that of encoders such as E5 or BGE, and what tells them
apart is what it was. ECE: expected calibration error (20 bins) of each document's best class, and of all predicted classes.
"""
import argparse
from pathlib import Path

import numpy as np

import recipe_reference as recipe
from embeddings import run_program


class Corpus(recipe.Data):
    """With the gold of its training documents; without training documents the test texts serve."""
    def __init__(self, folder):
        super().__init__(folder)
        rows = recipe.read_rows(folder / "train/doc2labels.txt") or recipe.read_rows(folder / "test/doc2labels.txt")
        self.gold = [self.closed(map(int, labels.split(","))) for _, labels in rows]


def calibration_error(scores, right, bins=20):
    bin_of = np.minimum((scores * bins).astype(int), bins - 1)
    return np.abs(np.bincount(bin_of, scores, bins) - np.bincount(bin_of, right, bins)).sum() / len(scores)


class Figures:
    def __init__(self, data, steps, leaves):
        self.data, self.steps, self.leaves = data, steps, leaves
        self.rows = steps.train, steps.test, steps.class_vectors

    def row(self, title, common=0., share=None, temperature=20.):
        """share: of the means that is taken off; None: the recipe's rule."""
        steps, kept = self.steps, {}
        direction = recipe.unit(np.random.default_rng(3).standard_normal(steps.train.shape[1]))
        steps.train, steps.test, classes = (recipe.unit(vectors + common * direction) for vectors in self.rows)
        steps.share, steps.temperature = share, temperature
        steps.posterior(classes, csls="fitted", keep=kept)
        cosine, m = (steps.train[:1000] @ classes.T).mean(), steps.marginals(kept["F"])
        predicted = recipe.expected_f1(self.data, m, self.leaves)
        found, q = recipe.metrics(self.data, m, predicted), recipe.probability(m, self.leaves)
        best = m.argmax(1)
        pairs = np.array([(d, k) for d, classes in enumerate(predicted) for k in classes])
        errors = (calibration_error(q[np.arange(len(q)), best], np.array([k in g for k, g in zip(best, self.data.gold)], float)),
                  calibration_error(q[pairs[:, 0], pairs[:, 1]], np.array([k in self.data.gold[d] for d, k in pairs], float)))
        print(f"| {title} | {cosine:.2f} | {temperature:.1f} | {found['example_f1']:.4f} | {found['precision_at_1']:.4f} | {found['macro_f1']:.4f} | "
              f"{errors[0]:.3f} | {errors[1]:.3f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--leaves", type=float, required=True)
    parser.add_argument("--program", default="build/release/gpuhpc")
    arguments = parser.parse_args()
    data = Corpus(arguments.data)
    encode = lambda _, texts: recipe.unit(run_program(arguments.program, "infer.precision", arguments.model, [str(i) for i in range(len(texts))], texts, "auto"))
    figures = Figures(data, recipe.Recipe(data, encode), arguments.leaves)
    print("| | mean cosine | temperature | Example-F1 | P@1 | macro-F1 | ECE, best class | ECE, labels |\n|---|---|---|---|---|---|---|---|")
    for temperature in sorted({25, 20, 20 / arguments.leaves ** .25, 17, 15, 13}, reverse=True):
        figures.row("as it is", temperature=temperature)
    for common in (1, 2, 4):
        figures.row(f"common direction of {common}, half of the means taken off", common, share=.5)
        figures.row(f"common direction of {common}, the rule", common)
    figures.row("as it is, half of the means taken off", share=.5)


if __name__ == "__main__":
    main()

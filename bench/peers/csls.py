"""How much of a class's hubness to take off, and what texts that name their class say of it: the recipe of recipe_reference.py on training documents.

    python bench/peers/csls.py --model .deps/models/all-MiniLM-L6-v2 --data data/debtags-topical --leaves 3

Vectors are those of `gpuhpc encode` (--program). No student. Gold of the corpus that is learnt from is read for the figures alone. Prints Example-F1 (and
P@1) for fixed shares, for the share under which texts that hold one class's whole name are likeliest, half-way to it from a quarter, and as the program does.
"""
import argparse
from pathlib import Path

import recipe_reference as recipe
from embeddings import run_program
from temperature import Corpus


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--leaves", type=float, required=True)
    parser.add_argument("--program", default="build/release/gpuhpc")
    arguments = parser.parse_args()
    data = Corpus(arguments.data)
    encode = lambda _, texts: recipe.unit(run_program(arguments.program, "infer.precision", arguments.model, [str(i) for i in range(len(texts))], texts, "auto"))
    steps, kept = recipe.Recipe(data, encode), {}
    steps.temperature = recipe.TEMPERATURE / arguments.leaves ** .25

    def figures(csls):
        steps.posterior(csls=csls, keep=kept)
        m = steps.marginals(kept["F"])
        found = recipe.metrics(data, m, recipe.expected_f1(data, m, arguments.leaves))
        return f"{found['example_f1']:.4f} / {found['precision_at_1']:.3f}"

    shares = 0, .15, .25, .4, .5, .6, .75
    print("| data | " + " | ".join(map(str, shares)) + " | named h | with it | half-way | fitted |\n" + "|---" * (len(shares) + 5) + "|")
    cells = [figures(share) for share in shares]
    fitted = recipe.fitted_csls(kept["scores"], steps.lexical[0] > .999, kept["r"], steps.temperature)
    count = ((steps.lexical[0] > .999).sum(1) == 1).sum()
    named = recipe.CSLS + (fitted - recipe.CSLS) * (count + 100) / count / recipe.CSLS_FIT if count else recipe.CSLS
    cells += [f"{named:.3f}", figures(named), figures((named + recipe.CSLS) / 2), figures("fitted")]
    print(f"| {arguments.data.name}, L={arguments.leaves:g} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

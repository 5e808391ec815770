"""SetFit beside bench/few_labels.sh: the same labels of debtags-topical's training documents (the draws of few_labels.py), the test side's figures.

    python bench/peers/setfit_labels.py --data data/debtags-topical --sizes 10 25 50 100 250 --seed 1

The encoder is trained on pairs with SetFit's own settings (20 pairs of each kind for a document, batches of 16, one epoch, the rate 2e-5), the
head is its logistic regression, one per class. Its probabilities are decoded as ours are, by expected F1. Prints a row for each size.
setfit and datasets are in requirements.txt: older ones (setfit 1.1.3 and before) do not import with transformers 5.
"""
import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from recipe_reference import Data, expected_f1, metrics, read_rows
from setfit import SetFitModel, Trainer, TrainingArguments

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", type=Path, required=True)
parser.add_argument("--model", default=".deps/models/all-MiniLM-L6-v2")
parser.add_argument("--sizes", type=int, nargs="+", default=[10, 25, 50, 100, 250])
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--max-length", type=int, default=256, help="tokens of a text that are read")
parser.add_argument("--bf16", action="store_true", help="train under bf16 autocast")
options = parser.parse_args()

data = Data(options.data)
texts = {row[0]: row[1] for row in read_rows(options.data / "train/corpus.txt")}
gold = read_rows(options.data / "train/doc2labels.txt")
print("| labels | which | SetFit: Example-F1 | P@1 | macro-F1 | minutes |\n|---|---|---|---|---|---|")
for size in options.sizes:
    chosen = [gold[i] for i in np.random.default_rng(options.seed).choice(len(gold), size, replace=False)]
    truth = np.zeros((size, data.classes), dtype=int)
    for i, (_, classes) in enumerate(chosen):
        truth[i, sorted(data.closed(map(int, classes.split(","))))] = 1
    known = np.flatnonzero(truth.any(0))
    start = time.time()
    torch.manual_seed(options.seed)
    model = SetFitModel.from_pretrained(options.model, multi_target_strategy="one-vs-rest", device="cpu")
    model.model_body.max_seq_length = options.max_length
    rows = Dataset.from_dict({"text": [texts[name] for name, _ in chosen], "label": truth[:, known].tolist()})
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(output_dir=folder, num_epochs=1, batch_size=16, num_iterations=20, seed=options.seed, report_to="none",
                                      save_strategy="no")
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            Trainer(model=model, args=arguments, train_dataset=rows).train()
    # a class that all the labelled documents have is one of every document
    p = np.zeros((len(data.test), data.classes))
    p[:, known] = np.asarray(model.predict_proba(data.test, batch_size=32))
    found = metrics(data, p, expected_f1(data, p, 1))
    print(f"| {size} | random, draw {options.seed} | {found['example_f1']:.4f} | {found['precision_at_1']:.4f} | {found['macro_f1']:.4f} | "
          f"{(time.time() - start) / 60:.1f} |", flush=True)

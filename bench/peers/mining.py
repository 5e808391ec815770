#!/usr/bin/env python3
"""Compares the rows that `gpuhpc mine` wrote with brute force in NumPy over sentence-transformers' vectors, for a sample of the anchors.

    python bench/peers/mining.py --model MODEL --pairs pairs.jsonl --mined RUN/mined.jsonl [--sample 200] [--relative-margin .05]
                                 [--cross-encoder FOLDER]

Both sides in fp32 (--infer.precision fp32). A negative counts as equal when its cosine is that of brute force's up to 1e-5: texts that
lie that near may change places. With a cross-encoder the scores are those that CrossEncoder predicts. Needs bench/peers/requirements.txt.
"""
import argparse
import json
from collections import Counter

import numpy as np
from sentence_transformers import CrossEncoder, SentenceTransformer


def rows(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "pairs", "mined"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--relative-margin", type=float)
    parser.add_argument("--cross-encoder", help="as --mining.cross-encoder")
    parser.add_argument("--max-length", type=int, help="as --infer.max-length")
    arguments = parser.parse_args()
    pairs, mined = rows(arguments.pairs), rows(arguments.mined)
    model = SentenceTransformer(arguments.model, device="cpu")
    model.max_seq_length = arguments.max_length or model.max_seq_length
    texts = list(dict.fromkeys(row["positive"] for row in pairs))
    place = {text: i for i, text in enumerate(texts)}
    vectors = model.encode(texts, normalize_embeddings=True, batch_size=64)
    positives = {}
    for row in pairs:
        positives.setdefault(row["anchor"], set()).add(place[row["positive"]])
    sample = [mined[i] for i in np.random.default_rng(1).permutation(len(mined))[: arguments.sample]]
    anchors = model.encode([row["anchor"] for row in sample], normalize_embeddings=True)
    ranker = CrossEncoder(arguments.cross_encoder, device="cpu") if arguments.cross_encoder else None
    most = max(Counter(row["anchor"] for row in pairs).values())
    same = equal = total = 0
    for row, anchor in zip(sample, anchors):
        scores = vectors @ anchor
        if ranker:  # of the nearest texts alone, ten for each negative, and of the positives
            negatives = sum(name.startswith("negative") for name in row)
            looked_at = list(np.argsort(-scores, kind="stable")[: 10 * negatives + 2 * most]) + list(positives[row["anchor"]])
            scores = np.full(len(texts), -np.inf)
            scores[looked_at] = ranker.predict([(row["anchor"], texts[i]) for i in looked_at])
        least = min(scores[i] for i in positives[row["anchor"]])
        out = set(positives[row["anchor"]]) | ({place[row["anchor"]]} if row["anchor"] in place else set())
        order = np.argsort(-scores, kind="stable")
        allowed = [i for i in order if i not in out and (arguments.relative_margin is None or scores[i] <= least - abs(least) * arguments.relative_margin)]
        found = [place[row[name]] for name in row if name.startswith("negative")]
        for ours, theirs in zip(found, allowed):
            total += 1
            same += ours == theirs
            equal += abs(scores[ours] - scores[theirs]) <= 1e-5
    print(f"{len(sample)} anchors, {len(texts)} texts: {equal} of {total} negatives as near as brute force's, {same} of them the same text")
    raise SystemExit(int(equal != total))


if __name__ == "__main__":
    main()

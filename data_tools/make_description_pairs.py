#!/usr/bin/env python3
"""Pairs of short and long package descriptions from the Debian archive, for train-embedding (standard library and apt).

    python3 data_tools/make_description_pairs.py --out DIR

DIR/train.jsonl, validation.jsonl and test.jsonl: {"source": source package, "anchor": short description, "positive": long one}. A source
package is in one file alone, and so is every text: of packages with one long or one short description the first by name stays.
"""
import argparse
import hashlib
import json
import pathlib
import re

from make_debtags import Archive, fold, stanzas

TRAIN_PERCENT, VALIDATION_PERCENT = 85, 5


def words(text):
    return " ".join(re.findall(r"\w+", text.lower()))


def packages(archive):
    """(package, source, short, long) in the order of the names, each text once."""
    english = {s["Description-md5"]: s["Description-en"] for s in stanzas(archive.index("Translations"))}
    found = {}
    for s in stanzas(archive.index("Packages")):
        text = english.get(s.get("Description-md5"))
        if text and all(fold(text)):
            found[s["Package"]] = (s["Package"], s.get("Source", s["Package"]).split()[0], *fold(text))
    seen, kept = set(), []
    for name in sorted(found):
        texts = [words(t) for t in found[name][2:]]
        if all(texts) and texts[0] != texts[1] and not seen.intersection(texts):
            kept.append(found[name])
            seen.update(texts)
    print(f"{len(found):,} packages with a short and a long description, {len(kept):,} without repeats")
    return kept


def part_of(source):
    percent = int(hashlib.md5(source.encode()).hexdigest(), 16) % 100
    return "train" if percent < TRAIN_PERCENT else "validation" if percent < TRAIN_PERCENT + VALIDATION_PERCENT else "test"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    Archive.add_options(parser)
    options = parser.parse_args()
    with Archive.opened(options) as archive:
        rows = packages(archive)
        release = archive.release()
    options.out.mkdir(parents=True, exist_ok=True)
    for part in ("train", "validation", "test"):
        lines = [json.dumps({"source": p[1], "anchor": p[2], "positive": p[3]}, ensure_ascii=False) for p in rows
                 if part_of(p[1]) == part]
        (options.out / f"{part}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{part}: {len(lines):,} pairs")
    (options.out / "README.md").write_text(
        f"Short and long descriptions of Debian packages ({options.suite}, {release}), made by data_tools/make_description_pairs.py. "
        "Each description is under the licence of its package (debian/copyright).\n", encoding="utf-8")


if __name__ == "__main__":
    main()

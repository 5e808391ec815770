#!/usr/bin/env python3
"""A flat set from the Free On-line Dictionary of Computing of the Debian archive: entries by subject (standard library, apt and dpkg).

    python3 data_tools/make_foldoc.py --out DIR

Subjects stand before an entry's text, "<language, humour>". The same archive state gives the same bytes.
"""
import argparse
import collections
import pathlib
import re

from make_debtags import Archive
from make_pretraining_texts import dictionary

SMALLEST_CLASS = 30
FEWEST_WORDS = 12
LONGEST_TEXT = 1200  # characters
TEST_EVERY = 40


def labelled(text, index):
    """(text, subjects) of each entry that has subjects, in the order of the index: without headword, dates and references."""
    for begin, length in dict.fromkeys((begin, length) for _, begin, length in index):
        entry = text[begin:begin + length].decode("utf-8", "replace")
        subjects = re.search(r"^\s+<([a-z ,\-]+)>", entry, re.M)
        if subjects:
            rest = re.sub(r"\(\d{4}-\d\d-\d\d\)|\[\{?[^\]]*\]|[{}]", "", entry[subjects.end():])
            rest = " ".join(rest.split())
            if len(rest.split()) >= FEWEST_WORDS:
                yield rest[:LONGEST_TEXT], [subject.strip() for subject in subjects.group(1).split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    Archive.add_options(parser)
    options = parser.parse_args()
    with Archive.opened(options) as archive:
        found = list(labelled(*dictionary(archive, "foldoc")))
    counts = collections.Counter(subject for _, subjects in found for subject in subjects)
    labels = [subject for subject, count in counts.most_common() if count >= SMALLEST_CLASS]
    rows = [(text, [str(labels.index(s)) for s in subjects if s in labels]) for text, subjects in found]
    rows = [row for row in rows if row[1]]
    for part in ("train", "test"):
        (options.out / part).mkdir(parents=True, exist_ok=True)
        chosen = [row for i, row in enumerate(rows) if (i % TEST_EVERY == 0) == (part == "test")]
        for name, column in (("corpus.txt", [text for text, _ in chosen]), ("doc2labels.txt", [",".join(ids) for _, ids in chosen])):
            (options.out / part / name).write_text("".join(f"{i}\t{line}\n" for i, line in enumerate(column)), encoding="utf-8")
    (options.out / "labels.txt").write_text("".join(f"{i}\t{name}\n" for i, name in enumerate(labels)), encoding="utf-8")
    (options.out / "label_hierarchy.txt").write_text("", encoding="utf-8")
    print(f"{len(rows):,} documents, {len(labels)} classes, {sum(len(ids) for _, ids in rows) / len(rows):.2f} of them per document")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Pairs of texts that mean the same, for train-embedding (standard library and apt, on a Debian machine).

    python3 data_tools/make_text_pairs.py translations --languages de,fr --out DIR   English and translated package descriptions
    python3 data_tools/make_text_pairs.py wordnet --out DIR                          synonyms and the gloss they share
    python3 data_tools/make_text_pairs.py man-pages --out DIR                        names of manual pages and their summaries

DIR/train.jsonl, validation.jsonl and test.jsonl: {"group", "anchor", "positive"}, with translations also "language". A group (a source
package, a synset's first word, a page's name) is in one file alone, and so is every text: the first pair that has one stays. DIR/README.md
says where the texts are from and under which licences they are.
"""
import argparse
import gzip
import json
import pathlib
import re

from make_debtags import Archive, fold, stanzas
from make_description_pairs import part_of, words

LICENCES = {
    "translations": "The descriptions are under the licences of their packages (debian/copyright); the translations were made by the "
                    "Debian Description Translation Project under the same licences.",
    "wordnet": "WordNet 3.0 by Princeton University, under the WordNet 3.0 licence: use, copying and distribution without fee, with its "
               "copyright notice (debian/copyright of wordnet-base).",
    "man-pages": "Each page is under the licence at its head (debian/copyright of its package): mostly the verbatim licence of the Linux "
                 "man-pages project, GPL 2 or later, and BSD.",
}
PAGES = ("manpages", "manpages-dev", "coreutils", "util-linux", "findutils", "binutils-common", "git-man", "perl-doc", "tcl8.6-doc",
         "postgresql-client-15", "openssl", "libssl-doc", "procps", "iproute2", "net-tools", "bsdextrautils", "ncurses-doc", "groff-base")


def translations(archive, languages):
    english = {s["Description-md5"]: s["Description-en"] for s in stanzas(archive.index("Translations", "en"))}
    sources = {}
    for s in stanzas(archive.index("Packages")):
        sources.setdefault(s.get("Description-md5"), s.get("Source", s["Package"]).split()[0])
    for language in languages:
        for s in stanzas(archive.index("Translations", language)):
            key = s["Description-md5"]
            if key in english and key in sources and "<trans>" not in s[f"Description-{language}"]:
                yield {"group": sources[key], "language": language, "anchor": ". ".join(fold(english[key])),
                       "positive": ". ".join(fold(s[f"Description-{language}"]))}


def wordnet(archive):
    for _, data in archive.files("wordnet-base", r"\./usr/share/wordnet/data\.(noun|verb|adj|adv)"):
        for line in data.decode().split("\n"):
            if not line or line.startswith(" "):
                continue
            fields, _, gloss = line.partition(" | ")
            fields = fields.split(" ")
            count = int(fields[3], 16)
            synonyms = [re.sub(r"\(\w+\)$", "", word).replace("_", " ") for word in fields[4:4 + 2 * count:2]]
            definition = re.split(r';\s*"', gloss)[0].strip().rstrip(";")
            yield {"group": synonyms[0].lower(), "anchor": ", ".join(synonyms), "positive": definition}


def plain(roff):
    """A line without the marks of troff."""
    text = re.sub(r"\\f(\(..|\[[^]]*\]|.)|\\[&/,|^%]|\\s[-+]?\d", "", roff)
    for mark, character in ((r"\-", "-"), (r"\(em", "-"), (r"\(en", "-"), (r"\(aq", "'"), (r"\(dq", '"'), (r"\ ", " "), (r"\e", "\\")):
        text = text.replace(mark, character)
    return " ".join(re.sub(r"^[.'][A-Za-z]+ ?", "", text).replace('"', "").split())


def man_pages(archive):
    for package in PAGES:
        for name, data in archive.files(package, r"\./usr/share/man/man[1-8]/[^/]*\.gz"):
            text = gzip.decompress(data).decode("utf-8", errors="replace")
            section = re.search(r'^\.S[Hh] +"?NAME"?[^\n]*\n(.*?)(?=^\.S[Hh])', text, re.M | re.S)
            if not section:
                continue
            lines = section.group(1).split("\n")
            summary = next((plain(line[4:]) for line in lines if line.startswith(".Nd ")), None)
            names = ", ".join(plain(line[4:]).rstrip(" ,") for line in lines if line.startswith(".Nm "))
            if summary is None:
                joined = " ".join(filter(None, (plain(line) for line in lines if not line.startswith(('.\\"', "'\\\"")))))
                names, found, summary = joined.partition(" - ")
                if not found:
                    continue
            yield {"group": pathlib.Path(name).name.split(".")[0], "anchor": names.strip(), "positive": summary.strip()}


def distinct(rows):
    """Rows with both texts, each text once (in each language); one anchor has one group."""
    seen, groups = set(), {}
    for row in rows:
        texts = [words(row["anchor"]), words(row["positive"])]
        keys = {(row.get("language"), text) for text in texts}
        if all(texts) and texts[0] != texts[1] and not seen.intersection(keys):
            seen.update(keys)
            yield {**row, "group": groups.setdefault(texts[0], row["group"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("kind", choices=LICENCES)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--languages", default="de", help="of translations, with commas")
    Archive.add_options(parser)
    options = parser.parse_args()
    languages = options.languages.split(",")
    with Archive.opened(options, ("en", *languages)) as archive:
        made = {"translations": lambda: translations(archive, languages), "wordnet": lambda: wordnet(archive),
                "man-pages": lambda: man_pages(archive)}[options.kind]
        rows = list(distinct(made()))
        release = archive.release()
    options.out.mkdir(parents=True, exist_ok=True)
    for part in ("train", "validation", "test"):
        lines = [json.dumps(row, ensure_ascii=False) for row in rows if part_of(row["group"]) == part]
        (options.out / f"{part}.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        print(f"{part}: {len(lines):,} pairs")
    (options.out / "README.md").write_text(f"{options.kind} from Debian {options.suite} ({release}), made by data_tools/make_text_pairs.py. "
                                           f"{LICENCES[options.kind]}\n", encoding="utf-8")


if __name__ == "__main__":
    main()

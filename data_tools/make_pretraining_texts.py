#!/usr/bin/env python3
"""English texts for `gpuhpc pretrain` from the Debian archive: the dictionaries GCIDE and FOLDOC, and long package descriptions
(standard library, apt and dpkg).

    python3 data_tools/make_pretraining_texts.py --out DIR

DIR/gcide.txt, foldoc.txt and packages.txt hold a text per line: an entry with its line breaks and runs of blanks as one blank.
"""
import argparse
import gzip
import pathlib
import subprocess
import tarfile

from make_debtags import Archive, fold, stanzas

DIGITS = {c: i for i, c in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")}


def number(text):
    """The numbers of a dictd index: base 64, the highest digit first."""
    value = 0
    for character in text:
        value = value * 64 + DIGITS[character]
    return value


def dictionary(archive, name):
    """Of dict-NAME: the bytes of all texts, and (headword, first byte, bytes) in the order of its index."""
    archive.apt("download", "-qq", f"dict-{name}")
    (deb,) = archive.work.glob(f"dict-{name}_*.deb")
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as unpack, \
            tarfile.open(fileobj=unpack.stdout, mode="r|") as tar:
        files = {m.name.rsplit("/", 1)[1]: tar.extractfile(m).read() for m in tar if m.isfile() and f"/{name}." in m.name}
    lines = (line.split("\t")[:3] for line in files[f"{name}.index"].decode("utf-8", "replace").splitlines())
    return gzip.decompress(files[f"{name}.dict.dz"]), [(word, number(begin), number(length)) for word, begin, length in lines]


def entries(archive, name):
    """The texts of dict-NAME's entries in the order of the file, its own notes (00-database..) left out."""
    text, index = dictionary(archive, name)
    places = {(begin, length) for word, begin, length in index if not word.startswith("00")}
    return [" ".join(text[begin:begin + length].decode("utf-8", "replace").split()) for begin, length in sorted(places)]


def descriptions(archive):
    """Long descriptions, each once, in the order of the packages' names."""
    found = {}
    for s in stanzas(archive.index("Translations")):
        _, text = fold(s["Description-en"])
        if text:
            found.setdefault(" ".join(text.split()), s["Package"])
    return sorted(found, key=lambda text: (found[text], text))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    Archive.add_options(parser)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with Archive.opened(options) as archive:
        texts = {"gcide": entries(archive, "gcide"), "foldoc": entries(archive, "foldoc"), "packages": descriptions(archive)}
        release = archive.release()
    for name, lines in texts.items():
        lines = [line for line in lines if line]
        (options.out / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{name}.txt: {len(lines):,} texts, {sum(len(line.split()) for line in lines):,} words")
    (options.out / ".about").write_text(
        f"Debian {options.suite} ({release}), made by data_tools/make_pretraining_texts.py. GCIDE: GPL 3 or later; FOLDOC: GFDL 1.1 or "
        "later; package descriptions: each under the licence of its package (debian/copyright).\n", encoding="utf-8")


if __name__ == "__main__":
    main()

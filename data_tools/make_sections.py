#!/usr/bin/env python3
"""Makes a single-path data set from the Debian archive: each package has one section, each section one group
(standard library and apt; see README.md beside this file).

    python3 data_tools/make_sections.py --out DIR

The same archive state gives the same bytes.
"""
import argparse
import collections
import hashlib
import pathlib
import re
import sys

from make_debtags import TRAIN_PERCENT, Archive, fold, stanzas

LARGEST_CLASS = 160
SMALLEST_CLASS = 20

# Group -> section -> its class name. Left out: sections that say how a package is built or shipped (libs, doc, metapackages ..),
# and those that hold anything (utils, misc).
GROUPS = {
    "programming_languages": {"golang": "go", "haskell": "haskell", "java": "java", "javascript": "javascript", "lisp": "lisp",
                              "ocaml": "ocaml", "perl": "perl", "php": "php", "python": "python", "gnu-r": "r_statistics",
                              "ruby": "ruby", "rust": "rust"},
    "software_development": {"devel": "development_tools", "vcs": "version_control", "interpreters": "interpreters"},
    "desktop": {"fonts": "fonts", "gnome": "gnome_desktop", "kde": "kde_desktop", "x11": "x_window_system",
                "xfce": "xfce_desktop"},
    "internet": {"comm": "telephony_and_modems", "httpd": "web_servers", "mail": "electronic_mail", "net": "network_services",
                 "news": "usenet_news", "web": "web_browsing"},
    "science_and_education": {"education": "education", "electronics": "electronics", "hamradio": "amateur_radio",
                              "math": "mathematics", "science": "natural_sciences"},
    "media_and_entertainment": {"games": "games", "graphics": "graphics", "sound": "sound_and_music", "video": "video"},
    "documents": {"editors": "text_editors", "tex": "tex_typesetting", "text": "text_processing"},
    "system": {"admin": "system_administration", "database": "databases", "kernel": "kernel",
               "otherosfs": "emulation_of_other_systems", "shells": "command_shells"},
}


def digest(text):
    return int(hashlib.md5(text.encode()).hexdigest(), 16)


def packages(archive):
    """(package, source, text, section), one a source: the first by name that has a section of ours and a long description."""
    english = {s["Description-md5"]: s["Description-en"] for s in stanzas(archive.index("Translations"))}
    known = {section for sections in GROUPS.values() for section in sections}
    found, texts = {}, set()
    for s in sorted(stanzas(archive.index("Packages")), key=lambda s: s["Package"]):
        section, source = s.get("Section", ""), s.get("Source", s["Package"]).split()[0]
        short, long = fold(english.get(s.get("Description-md5"), ""))
        words = " ".join(re.findall(r"\w+", long.lower()))
        if section in known and words and source not in found and words not in texts:
            texts.add(words)
            found[source] = (s["Package"], source, f"{short}. {long}", section)
    return list(found.values())


def choose(found):
    """At most LARGEST_CLASS of a section, drawn by the hash of their source; in the order of hashes, so that no class stands together."""
    of_section = collections.defaultdict(list)
    for package in sorted(found, key=lambda p: digest(p[1])):
        of_section[package[3]].append(package)
    kept = {section: rows[:LARGEST_CLASS] for section, rows in of_section.items() if len(rows) >= SMALLEST_CLASS}
    return sorted((p for rows in kept.values() for p in rows), key=lambda p: digest(p[1]))


def write(out, documents):
    present = {d[3] for d in documents}
    names, edges, path_of = [], [], {}
    for group, sections in GROUPS.items():
        names.append(group)
        root = len(names) - 1
        for section in (s for s in sections if s in present):
            path_of[section] = (root, len(names))
            edges.append((root, len(names)))
            names.append(sections[section])

    def lines(name, rows):
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))

    lines("labels.txt", enumerate(names))
    lines("label_hierarchy.txt", edges)
    for split, wanted in (("train", True), ("test", False)):
        part = [d for d in documents if wanted == (digest("split " + d[1]) % 100 < TRAIN_PERCENT)]
        lines(f"{split}/corpus.txt", ((i, d[2]) for i, d in enumerate(part)))
        lines(f"{split}/doc2labels.txt", ((i, ",".join(map(str, path_of[d[3]]))) for i, d in enumerate(part)))
        lines(f"{split}/packages.txt", ((i, d[0], d[1]) for i, d in enumerate(part)))
        print(f"{split}: {len(part):,} documents")
    print(f"{len(names)} classes, {len(edges)} edges")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write")
    Archive.add_options(parser)
    options = parser.parse_args()
    with Archive.opened(options) as archive:
        print(f"archive: Debian {archive.release()}")
        write(options.out, choose(packages(archive)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

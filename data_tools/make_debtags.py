#!/usr/bin/env python3
"""Rebuilds data/debtags-topical from the Debian archive (standard library and apt; see README.md beside this file).

    python3 data_tools/make_debtags.py --out DIR [--compare data/debtags-topical]

apt runs with a configuration, a sources list and a lists folder of its own inside --work, so neither the machine's package
lists nor its languages change, and no root is needed. The same archive state gives the same bytes.
"""
import argparse
import collections
import contextlib
import gzip
import hashlib
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

FACETS = ("use works-with field science biology game web sound mail network admin hardware security office culture "
          "devel").split()
# In devel: what a package is made of or ships as says nothing of its topic.
LEFT_OUT = re.compile(r"devel::(library|doc|examples|runtime|machinecode|interpreter|ecma-cli|lang:.*)$|.*::TODO$")
SMALLEST_CLASS = 15
TRAIN_PERCENT = 75

# Titles that mean nothing without their facet: the facet's word goes before or after.
PREFIX = {"web": "web", "network": "network", "sound": "audio"}
SUFFIX = {"game": "game"}
NAMES = {"works-with": "works_with_data", "field": "field_of_application", "devel::debian": "debian_development",
         "devel::web": "web_development", "devel::rpc": "remote_procedure_calls",
         "devel::ui-builder": "user_interface_builder"}


def stanzas(text):
    """Fields of each paragraph of a Debian control file; continuation lines keep their first blank."""
    for paragraph in re.split(r"\n\n+", text):
        fields, key = {}, None
        for line in paragraph.split("\n"):
            if line[:1] in (" ", "\t"):
                fields[key] += "\n" + line
            elif ":" in line:
                key, value = line.split(":", 1)
                fields[key] = value.strip()
        if fields:
            yield fields


class Archive:
    """Package lists and packages of one Debian suite, fetched by apt into a folder of our own."""

    @staticmethod
    def add_options(parser):
        parser.add_argument("--mirror", default="http://deb.debian.org/debian")
        parser.add_argument("--suite", default="bookworm")
        parser.add_argument("--work", type=pathlib.Path, help="folder of what apt fetches, kept for the next run (default: a temporary one)")

    @classmethod
    @contextlib.contextmanager
    def opened(cls, options, languages=("en",)):
        """As these options say."""
        with tempfile.TemporaryDirectory() as temporary:
            yield cls((options.work or pathlib.Path(temporary)).resolve(), options.mirror, options.suite, languages)

    def __init__(self, work, mirror, suite, languages=("en",)):
        self.work = work
        for folder in ("lists/partial", "cache/archives/partial", "state"):
            (work / folder).mkdir(parents=True, exist_ok=True)
        (work / "status").touch()
        (work / "sources.list").write_text(
            f"deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} {suite} main\n")
        (work / "apt.conf").write_text(
            "#clear Acquire::Languages;\nAcquire::Languages {" + "".join(f'"{language}";' for language in languages) +
            '};\nAPT::Architecture "amd64";\n'
            f'Dir::State "{work}/state";\nDir::State::Lists "{work}/lists";\nDir::State::status "{work}/status";\n'
            f'Dir::Cache "{work}/cache";\nDir::Etc::SourceList "{work}/sources.list";\nDir::Etc::SourceParts "/dev/null";\n')
        self.apt("update", "-qq")

    def apt(self, *arguments):
        done = subprocess.run(["apt-get", "-c", str(self.work / "apt.conf"), *arguments], cwd=self.work, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode:
            sys.exit(f"make_debtags: apt-get {arguments[0]} failed: {done.stderr.strip()}")
        return done.stdout

    def index(self, kind, language=None):
        """The text of the Packages list, or of the Translations of the only language or of this one."""
        wanted = [f"Identifier: {kind}"] + ([f"Language: {language}"] if language else [])
        (path,) = self.apt("indextargets", "--format", "$(FILENAME)", *wanted).split()
        return subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", path], check=True, stdout=subprocess.PIPE).stdout.decode()

    def release(self):
        text = next((self.work / "lists").glob("*InRelease")).read_text()
        return ", ".join(re.findall(r"^(?:Version|Date): (.*)", text, re.M))

    def files(self, package, pattern):
        """(name, bytes) of the files of a package whose names match."""
        for old in self.work.glob(f"{package}_*.deb"):
            old.unlink()
        self.apt("download", "-qq", package)
        (deb,) = self.work.glob(f"{package}_*.deb")
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as unpack, \
                tarfile.open(fileobj=unpack.stdout, mode="r|") as tar:
            for member in tar:
                if member.isfile() and re.fullmatch(pattern, member.name):
                    yield member.name, tar.extractfile(member).read()

    def vocabulary(self):
        """Description of every facet and tag, from the debtags package."""
        ((_, text),) = self.files("debtags", r"\./usr/share/debtags/vocabulary")
        return {s.get("Facet") or s.get("Tag"): s["Description"] for s in stanzas(text.decode())}


def fold(description):
    """(short, long) of a description on one line each: dot lines away, white space of the long one folded."""
    short, _, rest = description.partition("\n")
    lines = [line for line in rest.split("\n") if line.strip() != "."]
    return short.strip().rstrip("."), " ".join(" ".join(lines).split())


def parent(tag, known):
    """field::medicine:imaging -> field::medicine -> field -> None; a missing middle goes to the facet."""
    facet, _, rest = tag.partition("::")
    middle = f"{facet}::{rest.rpartition(':')[0]}"
    return None if not rest else middle if middle in known else facet


def with_ancestors(tags, known):
    closed = set()
    for tag in tags:
        while tag and tag not in closed:
            closed.add(tag)
            tag = parent(tag, known)
    return closed


def topical_packages(archive, vocabulary):
    """Tagged packages in the order of their names: (package, source, short, long, topical tags)."""
    english = {s["Description-md5"]: s["Description-en"] for s in stanzas(archive.index("Translations"))}
    tagged, found = 0, {}
    for s in stanzas(archive.index("Packages")):
        tags = [t.strip() for t in s.get("Tag", "").replace("\n", " ").split(",") if t.strip()]
        tagged += bool(tags)
        tags = {t for t in tags if t.partition("::")[0] in FACETS and not LEFT_OUT.match(t) and t in vocabulary}
        text = english.get(s.get("Description-md5"))
        if tags and text and fold(text)[1]:
            source = s.get("Source", s["Package"]).split()[0]
            found[s["Package"]] = (s["Package"], source, *fold(text), tags)
    print(f"tagged packages {tagged:,}, with a topical tag {len(found):,}")
    return [found[name] for name in sorted(found)]


def drop_repeats(packages):
    """Without those whose text quotes a tag; of packages with one long description the one with most tags stays."""
    groups, quotes = collections.defaultdict(list), 0
    for package in packages:
        if any(tag in f"{package[2]} {package[3]}" for tag in package[4]):
            quotes += 1
        else:
            groups[" ".join(re.findall(r"\w+", package[3].lower()))].append(package)
    kept = sorted(max(group, key=lambda p: len(p[4])) for group in groups.values())
    print(f"dropped {len(packages) - quotes - len(kept)} repeated descriptions and {quotes} that quote a tag")
    return kept


def merge_small(packages):
    """Label sets closed under ancestors, without tags of too few documents (their parents hold these), and the class sizes."""
    everything = set(FACETS).union(*(p[4] for p in packages))
    closed = [with_ancestors(p[4], everything) for p in packages]
    counts = collections.Counter(t for tags in closed for t in tags)
    known = {t for t in everything if "::" not in t or counts[t] >= SMALLEST_CLASS}
    return [tags & known for tags in closed], {t: counts[t] for t in known}


def class_names(tags, vocabulary):
    """Unique snake_case names: the title, with the facet's word where the title alone means nothing or is taken."""
    def snake(text):
        return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")

    names = {}
    for tag in tags:
        facet, name = tag.partition("::")[0], snake(fold(vocabulary[tag])[0])
        if "::" in tag and facet in PREFIX and not name.startswith(PREFIX[facet]):
            name = f"{PREFIX[facet]}_{name}"
        if "::" in tag and facet in SUFFIX and SUFFIX[facet] not in name:
            name = f"{name}_{SUFFIX[facet]}"
        names[tag] = NAMES.get(tag, name)
    taken = collections.Counter(names.values())
    return {tag: f"{names[tag.partition('::')[0]]}_{name}" if "::" in tag and taken[name] > 1 else name
            for tag, name in names.items()}


def write(out, tags, vocabulary, documents):
    ids = {tag: i for i, tag in enumerate(tags)}
    names = class_names(tags, vocabulary)
    known = set(tags)

    def lines(name, rows):
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))

    def class_text(tag):
        title, rest = fold(vocabulary[tag])
        return f"{title}. {rest}".strip()

    lines("labels.txt", ((ids[t], names[t]) for t in tags))
    lines("label_hierarchy.txt", ((ids[parent(t, known)], ids[t]) for t in tags if "::" in t))
    lines("label_descriptions.txt", ((ids[t], class_text(t)) for t in tags))
    lines("tags.txt", ((ids[t], t) for t in tags))
    for split, wanted in (("train", True), ("test", False)):
        part = [d for d in documents if wanted == (int(hashlib.md5(d[1].encode()).hexdigest(), 16) % 100 < TRAIN_PERCENT)]
        lines(f"{split}/corpus.txt", ((i, f"{d[2]}. {d[3]}") for i, d in enumerate(part)))
        lines(f"{split}/doc2labels.txt", ((i, ",".join(map(str, sorted(ids[t] for t in d[4])))) for i, d in enumerate(part)))
        lines(f"{split}/packages.txt", ((i, d[0], d[1]) for i, d in enumerate(part)))
        print(f"{split}: {len(part):,} documents")


def read(folder, name):
    path = folder / name
    data = path.read_bytes() if path.exists() else gzip.decompress((folder / (name + ".gz")).read_bytes())
    return data.decode().splitlines()


def compare(ours, theirs):
    """Prints what differs from another copy, documents matched by package; True when every file is the same."""
    same = True
    for name in ("labels.txt", "label_hierarchy.txt", "label_descriptions.txt", "tags.txt"):
        a, b = read(ours, name), read(theirs, name)
        different = sorted(set(a) ^ set(b))
        same &= a == b
        print(f"{name}: {'identical' if a == b else f'{len(different)} lines differ or moved'}")
        for line in different[:20]:
            print(f"  {'rebuilt' if line in a else 'shipped'}: {line}")
    for split in ("train", "test"):
        same &= compare_split(ours, theirs, split)
    return same


def compare_split(ours, theirs, split):
    files = ("corpus.txt", "doc2labels.txt", "packages.txt")
    text = {(side, f): read(folder, f"{split}/{f}") for side, folder in (("a", ours), ("b", theirs)) for f in files}
    identical = [f for f in files if text["a", f] == text["b", f]]

    def by_package(side, folder):
        tags = dict(line.split("\t") for line in read(folder, "tags.txt"))
        rows = {}
        for document, labels, package in zip(*(text[side, f] for f in files)):
            rows[package.split("\t")[1]] = (document.split("\t", 1)[1], {tags[c] for c in labels.split("\t")[1].split(",")})
        return rows

    a, b = by_package("a", ours), by_package("b", theirs)
    both = a.keys() & b.keys()
    print(f"{split}: {len(a):,} rebuilt, {len(b):,} shipped; identical files: {', '.join(identical) or 'none'}; "
          f"packages only rebuilt {len(a.keys() - b.keys())}, only shipped {len(b.keys() - a.keys())}; "
          f"other text {sum(a[p][0] != b[p][0] for p in both)}, other labels {sum(a[p][1] != b[p][1] for p in both)}")
    for title, names in (("only rebuilt", a.keys() - b.keys()), ("only shipped", b.keys() - a.keys()),
                         ("other text", {p for p in both if a[p][0] != b[p][0]}),
                         ("other labels", {p for p in both if a[p][1] != b[p][1]})):
        if names:
            print(f"  {title}: {' '.join(sorted(names)[:20])}{' ...' if len(names) > 20 else ''}")
    return len(identical) == len(files)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write")
    parser.add_argument("--compare", type=pathlib.Path, help="another copy (plain or .gz): print the differences, exit 1 if any")
    Archive.add_options(parser)
    options = parser.parse_args()
    with Archive.opened(options) as archive:
        vocabulary = archive.vocabulary()
        packages = drop_repeats(topical_packages(archive, vocabulary))
        print(f"archive: Debian {archive.release()}")
    closed, counts = merge_small(packages)
    tags = [t for facet in FACETS for t in sorted(t for t in counts if t.partition("::")[0] == facet)]
    write(options.out, tags, vocabulary, [(*p[:4], labels) for p, labels in zip(packages, closed)])
    print(f"{len(tags)} classes, {sum('::' in t for t in tags)} edges")
    return 0 if options.compare is None or compare(options.out, options.compare) else 1


if __name__ == "__main__":
    sys.exit(main())

"""Token ids and speed of our WordPiece against Hugging Face tokenizers, same texts, same run, one thread each.

  cmake --preset release -DGPUHPC_BENCH=ON && cmake --build --preset release --target tokenizer_bench
  python bench/peers/wordpiece.py --model .deps/models/all-MiniLM-L6-v2 --tool build/release/tokenizer_bench \
      --lines /usr/share/dictd/gcide.dict.dz /var/lib/apt/lists/*Translation* ...

--lines: text files, plain or .gz, .dz, .lz4, .xz, .bz2. Good real ones on Debian: the package dict-gcide (a dictionary, English with
accents), dict-foldoc, and apt's Translation files (`apt-get update -o Acquire::Languages=en,de,fr,ru,ja,zh_CN,ko`).
With fewer lines than --count, lines are repeated with changed words. Answers are compared first: with one differing line
no speed is printed and the exit status is 1.

--settings also compares all 16 settings of the normaliser, with a vocabulary of single characters, so that no difference hides behind
[UNK], short word limits, and added tokens that take spaces or stand alone.
"""
import argparse
import bz2
import gzip
import json
import lzma
import os
import random
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy as np  # noqa: E402
import tokenizers  # noqa: E402
from hostile_lines import hostile_lines  # noqa: E402


def read_lines(path):
    if path.endswith((".gz", ".dz")):
        data = gzip.open(path).read()
    elif path.endswith(".lz4"):
        data = subprocess.run(["lz4", "-dc", path], check=True, stdout=subprocess.PIPE).stdout
    elif path.endswith(".xz"):
        data = lzma.open(path).read()
    elif path.endswith(".bz2"):
        data = bz2.open(path).read()
    else:
        data = open(path, "rb").read()
    return [line for line in data.split(b"\n") if line.strip()]


def real_lines(paths, count, seed):
    """Lines of all files, evenly thinned to `count`, or repeated with words swapped between lines."""
    lines = list(dict.fromkeys(line for path in paths for line in read_lines(path)))
    if not lines:
        sys.exit("no lines: give --lines files with text")
    rng = random.Random(seed)
    if len(lines) >= count:
        return rng.sample(lines, count), len(lines)
    originals = len(lines)
    while len(lines) < count:
        words, other = rng.choice(lines[:originals]).split(b" "), rng.choice(lines[:originals]).split(b" ")
        for _ in range(1 + len(words) // 4):
            words[rng.randrange(len(words))] = rng.choice(other)
        lines.append(b" ".join(words))
    return lines, originals


def write_records(path, texts):
    with open(path, "wb") as out:
        for text in texts:
            out.write(len(text).to_bytes(4, "little"))
            out.write(text)


def our_ids(tool, model, texts, passes, folder, decode=False):
    records, ids = os.path.join(folder, "records"), os.path.join(folder, "ids")
    write_records(records, texts)
    decoded = [os.path.join(folder, "decoded")] if decode else []
    report = subprocess.run([tool, model, records, ids, str(passes), *decoded], check=True, stdout=subprocess.PIPE).stdout
    return np.fromfile(ids, dtype=np.int32), json.loads(report)


def differing(peer, texts, ids):
    different, at, shown = 0, 0, 0
    for first in range(0, len(texts), 10000):
        batch = [text.decode("utf-8", "replace") for text in texts[first:first + 10000]]
        for text, encoding in zip(batch, peer.encode_batch_fast(batch, add_special_tokens=False)):
            ours = ids[at + 1:at + 1 + ids[at]].tolist()
            at += 1 + int(ids[at])
            if ours != encoding.ids:
                different += 1
                if shown < 5:
                    shown += 1
                    print(f"  differs: {text!r:.300}\n    ours {str(ours):.300}\n    peer {str(encoding.ids):.300}")
    if at != len(ids):
        sys.exit("the tool wrote more ids than lines")
    return different


def differing_texts(peer, ids, folder):
    """Records in folder/decoded that are not what the peer decodes: two for each record of ids, with special tokens and without."""
    with open(os.path.join(folder, "decoded"), "rb") as file:
        ours = file.read()
    different, at, place = 0, 0, 0
    while at < len(ids):
        record = ids[at + 1:at + 1 + ids[at]].tolist()
        at += 1 + len(record)
        for skip in (False, True):
            size = int.from_bytes(ours[place:place + 4], "little")
            text = ours[place + 4:place + 4 + size].decode("utf-8")
            place += 4 + size
            theirs = peer.decode(record, skip_special_tokens=skip)
            if text != theirs:
                different += 1
                if different < 5:
                    print(f"  decodes differently: {str(record):.200}\n    ours {text!r:.300}\n    peer {theirs!r:.300}")
    if place != len(ours):
        sys.exit("the tool decoded more than its ids")
    return different


def character_tokenizer(setting, texts):
    """Every character of the normalised texts is a token, at the start of a word and inside."""
    clean, chinese, strip, lower = (bool(setting & bit) for bit in (8, 4, 2, 1))
    normal = tokenizers.normalizers.BertNormalizer(clean_text=clean, handle_chinese_chars=chinese, strip_accents=strip, lowercase=lower)
    characters = sorted({c for text in texts for c in normal.normalize_str(text.decode("utf-8", "replace"))} - {" "})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters, *("##" + c for c in characters)]
    tokens = list(dict.fromkeys(tokens))
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece({token: i for i, token in enumerate(tokens)}, unk_token="[UNK]",
                                                            max_input_chars_per_word=7 if setting % 3 == 0 else 100))
    made.normalizer = normal
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    flags = {"lstrip": setting % 2 == 0, "rstrip": setting % 5 < 2, "single_word": setting % 3 == 1, "normalized": False}
    made.add_special_tokens([tokenizers.AddedToken(token, **flags) for token in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "e", "é", "##ing")])
    return made


def differing_settings(tool, texts):
    total = 0
    for setting in range(16):
        peer = character_tokenizer(setting, texts)
        with tempfile.TemporaryDirectory() as folder:
            peer.save(os.path.join(folder, "tokenizer.json"))
            ids, _ = our_ids(tool, folder, texts, 1, folder)
            total += differing(peer, texts, ids)
    return total


def compare(tool, model, peer, real, hostile, folder):
    """Prints how many real and hostile lines have other ids, or other texts decoded from them; returns the counts."""
    different = []
    for texts in (real, hostile):
        ids, _ = our_ids(tool, model, texts, 1, folder, decode=True)
        different += [differing(peer, texts, ids), differing_texts(peer, ids, folder)]
    print(f"{model}: differing lines: ids of {different[0]} and texts of {different[1]} of {len(real)} real ones, "
          f"ids of {different[2]} and texts of {different[3]} of {len(hostile)} hostile ones", flush=True)
    return different


def peer_speed(peer, texts, megabytes):
    """MB/s of encode_batch_fast and of encode_batch on the first `megabytes` of the texts; best of 3."""
    batch, size = [], 0
    for text in texts:
        batch.append(text.decode("utf-8", "replace"))
        size += len(text)
        if size > megabytes * 1e6:
            break
    speeds = []
    for encode in (peer.encode_batch_fast, peer.encode_batch):
        best = 0.0
        for _ in range(3):
            start = time.thread_time()  # computing time of this one thread, as our tool measures
            for first in range(0, len(batch), 1000):
                encode(batch[first:first + 1000], add_special_tokens=False)
            best = max(best, size / 1e6 / (time.thread_time() - start))
        speeds.append(best)
    return speeds


def read_arguments(doc, count, hostile_count, passes, hostile, more=lambda parser: None):
    """The command line of a comparison, its real and hostile lines, and those that speed is measured on. hostile(count, words, seed) -> lines."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, nargs="+", help="model folders")
    parser.add_argument("--tool", required=True, help="the built tokenizer_bench")
    parser.add_argument("--lines", required=True, nargs="+", help="real text files")
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--hostile", type=int, default=hostile_count)
    parser.add_argument("--passes", type=int, default=passes)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--speed-lines", nargs="*", default=[], help="measure speed on these files instead of on the real lines")
    more(parser)
    arguments = parser.parse_args()
    real, originals = real_lines(arguments.lines, arguments.count, arguments.seed)
    words = sorted({word.decode("utf-8", "replace") for line in real[:20000] for word in line.split()})
    bad = hostile(arguments.hostile, words, arguments.seed)
    fast = [line for path in arguments.speed_lines for line in read_lines(path)] or real
    print(f"{len(real)} real lines ({originals} distinct ones read, {sum(map(len, real)) / 1e6:.1f} MB), {len(bad)} hostile; "
          f"tokenizers {tokenizers.__version__}")
    return arguments, real, bad, fast


def main():
    arguments, real, hostile, fast = read_arguments(
        __doc__, 1_000_000, 100_000, 5, hostile_lines,
        lambda parser: parser.add_argument("--settings", action="store_true", help="compare all settings of the normaliser too"))
    failed = False
    if arguments.settings:
        texts = hostile + real[:len(hostile) // 4]
        different = differing_settings(arguments.tool, texts)
        print(f"16 settings, vocabulary of characters: differing lines: {different} of {16 * len(texts)}")
        failed = different > 0
    for model in arguments.model:
        peer = tokenizers.Tokenizer.from_file(os.path.join(model, "tokenizer.json"))
        peer.no_truncation()
        peer.no_padding()
        with tempfile.TemporaryDirectory() as folder:
            different = compare(arguments.tool, model, peer, real, hostile, folder)
            if any(different):
                failed = True
                continue
            _, report = our_ids(arguments.tool, model, fast, arguments.passes, folder)
        theirs, theirs_full = peer_speed(peer, fast, 20)
        print(f"  ours {report['median_mb_s']:.1f} MB/s a core (median of {arguments.passes}; best {report['best_mb_s']:.1f}; without own buffers "
              f"{report['encode_median_mb_s']:.1f}), {report['bytes'] / report['tokens']:.2f} bytes per token")
        print(f"  tokenizers one thread: encode_batch_fast {theirs:.2f}, encode_batch {theirs_full:.2f} MB/s; ratio {report['median_mb_s'] / theirs:.1f}x "
              f"and {report['median_mb_s'] / theirs_full:.1f}x")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

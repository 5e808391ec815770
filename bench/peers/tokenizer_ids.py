"""Token ids, texts decoded from them and speed of our tokenizers of every kind against Hugging Face's, same texts, same run, one thread each.

  python bench/peers/train_tokenizers.py --lines data/debtags-topical/*/corpus.txt.gz --out build/tokenizers
  cmake --preset release -DGPUHPC_BENCH=ON && cmake --build --preset release --target tokenizer_bench
  python bench/peers/tokenizer_ids.py --model build/tokenizers/* --tool build/release/tokenizer_bench \
      --lines data/debtags-topical/*/corpus.txt.gz /usr/share/dictd/gcide.dict.dz /usr/share/dictd/foldoc.dict.dz

A folder with tokenizer.json is read by the library tokenizers, any other by transformers' AutoTokenizer (SentencePiece models need
protobuf installed). --lines as for wordpiece.py. With one differing line no speed is printed and the exit status is 1.
"""
import os
import random
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tokenizers  # noqa: E402
from hostile_lines import hostile_lines  # noqa: E402
from wordpiece import compare, our_ids, peer_speed, read_arguments  # noqa: E402

# What WordPiece does not care for: contractions, runs of spaces of all kinds, literal special tokens and metaspaces, clusters.
PIECES = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "''s", " 's", "'", "\u2581", "\u2581\u2581", " \u2581", "<s>", "</s>", "<mask>", " <mask>", "\n<mask>",
          "[MASK]", "[UNK]", "[UNK][UNK]", "<unk>", "<pad>", "<|endoftext|>", "<extra_id_0>", "<extra>", "<extra>  ", "\u00c9", "E\u0301", "  ", "   ", "\r\n", "\n\n", "\t\t",
          " \t", "\u00a0 ", " \u00a0", "\u3000\u3000", "\u2003", "\u0085", "\u200d", "\ufe0f", "\u00ae\u200d", "\U0001f468\u200d\U0001f469", "\U0001f1e9\U0001f1ea\U0001f1eb",
          "\ufb01\u0301", "\u2122\u0301", "\u0600a", "\u1100\u1161\u11a8", "\u0915\u094d\u0937", "1\u20e3", "a\u0300\u0316", "\u212b\u0323", "2\u00b2\u2166", "\uff21\uff22\u0301", "\u00bd", "\x00"]


def mixed_lines(count, words, seed):
    rng = random.Random(seed)
    lines = hostile_lines(count, words, seed)
    for i in range(0, count, 2):
        parts = [rng.choice(PIECES) if rng.random() < 0.5 else rng.choice(words) for _ in range(rng.randrange(1, 24))]
        lines[i] = rng.choice(["", "", " ", "\n"]).join(parts).encode("utf-8", "surrogatepass") + rng.choice([b"", b" ", b"\xff", lines[i][:40]])
    return lines


def load_peer(folder):
    path = os.path.join(folder, "tokenizer.json")
    if os.path.exists(path):
        peer = tokenizers.Tokenizer.from_file(path)
    else:
        from transformers import AutoTokenizer
        peer = AutoTokenizer.from_pretrained(folder).backend_tokenizer
    peer.no_truncation()
    peer.no_padding()
    return peer


def main():
    arguments, real, hostile, fast = read_arguments(
        __doc__, 200_000, 50_000, 3, mixed_lines, lambda parser: parser.add_argument("--no-speed", action="store_true", help="answers alone"))
    failed = False
    for model in arguments.model:
        peer = load_peer(model)
        with tempfile.TemporaryDirectory() as folder:
            different = compare(arguments.tool, model, peer, real, hostile, folder)
            if arguments.no_speed or any(different):
                failed = failed or any(different)
                continue
            _, report = our_ids(arguments.tool, model, fast, arguments.passes, folder)
        theirs, _ = peer_speed(peer, fast, 3)
        print(f"  ours {report['median_mb_s']:.1f} MB/s a core (median of {arguments.passes}; best {report['best_mb_s']:.1f}), tokenizers one thread "
              f"{theirs:.2f}; ratio {report['median_mb_s'] / theirs:.1f}x", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

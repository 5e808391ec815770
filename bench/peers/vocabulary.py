"""Learning a vocabulary: gpuhpc beside Hugging Face tokenizers' trainers, on the same texts and cores; are the entries the same?

  python bench/peers/vocabulary.py --texts FOLDER [--kind wordpiece|bpe] [--size 30000] [--program build/release/gpuhpc]

FOLDER holds .txt files, a text per line. gpuhpc's time is that of the whole command, from the files to the tokenizer's folder; Hugging Face's is train_from_iterator over lines
that are in memory already. WordPiece: Hugging Face numbers ##x, breaks ties and cuts the alphabet among equally frequent characters in the order of a hash table;
it is given gpuhpc's single characters as special tokens and no alphabet of its own, which leaves it no choice. Tried with tokenizers 0.23.
"""
import argparse
import glob
import json
import subprocess
import tempfile
import time

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]


def ours(arguments, folder):
    command = [arguments.program, "pretrain", "--input.dir", arguments.texts, "--run.dir", folder, "--pretrain.vocabulary", str(arguments.size),
               "--pretrain.tokenizer", arguments.kind, "--pipeline.to", "vocabulary", "--device.kind", "cpu"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (stage,) = glob.glob(folder + "/stages/*-vocabulary")
    vocabulary = json.load(open(stage + "/tokenizer/tokenizer.json"))["model"]
    return sorted(vocabulary["vocab"], key=vocabulary["vocab"].get), vocabulary.get("merges")


def theirs(arguments, lines, entries):
    if arguments.kind == "wordpiece":
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        single = [entry for entry in entries[5:] if len(entry) == 1 or (len(entry) == 3 and entry.startswith("##"))]
        trainer = trainers.WordPieceTrainer(vocab_size=arguments.size, min_frequency=2, limit_alphabet=0, special_tokens=BERT + single, show_progress=False)
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(vocab_size=arguments.size, min_frequency=2, special_tokens=ROBERTA,
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    begin = time.time()
    tokenizer.train_from_iterator(lines, trainer)
    seconds = time.time() - begin
    vocabulary = tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.get), json.loads(tokenizer.to_str())["model"].get("merges"), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--texts", required=True)
    parser.add_argument("--kind", choices=["wordpiece", "bpe"], default="wordpiece")
    parser.add_argument("--size", type=int, default=30000)
    parser.add_argument("--program", default="build/release/gpuhpc")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        begin = time.time()
        entries, merges = ours(arguments, folder)
        whole = time.time() - begin
    lines = [line for path in sorted(glob.glob(arguments.texts + "/*.txt")) for line in open(path, encoding="utf-8", newline="\n").read().split("\n") if line]
    found, their_merges, their_seconds = theirs(arguments, lines, entries)
    megabytes = sum(len(line.encode()) + 1 for line in lines) / 1e6
    same = entries == found and merges == their_merges
    print(f"{arguments.kind} of {arguments.size} from {megabytes:.1f} MB: gpuhpc {whole:.2f} s (whole command), Hugging Face {their_seconds:.2f} s, "
          f"{their_seconds / whole:.1f} times; entries and merges {'the same' if same else 'DIFFER'}")
    raise SystemExit(0 if same else 1)


main()

"""Trains WordPiece, byte-level BPE and SentencePiece vocabularies on the repository's own texts and writes Hugging Face folders of every kind
that gpuhpc reads, for bench/peers/tokenizer_ids.py and data_tools/fixtures/make_tokenizers.py.

  python bench/peers/train_tokenizers.py --lines data/debtags-topical/*/corpus.txt.gz --out build/tokenizers

Needs tokenizers, transformers 5, sentencepiece and protobuf. Folders: NAME holds tokenizer.json as transformers 5 saves it,
NAME-files the older files (vocab.txt, vocab.json and merges.txt, or the SentencePiece model), which transformers converts itself.
"""
import argparse
import gzip
import json
import os
import shutil

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import sentencepiece  # noqa: E402
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

# Folder, special tokens in the order of their ids.
BPE_KINDS = {
    "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
    "gpt2": ["<|endoftext|>"],
    "deberta": ["[CLS]", "[PAD]", "[SEP]", "[UNK]"],  # [MASK] is added behind the vocabulary
}


def read_texts(paths):
    texts = []
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            texts += [line.rstrip("\n").split("\t", 1)[-1] for line in lines]
    return texts


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as out:
        json.dump(value, out)


def folder_of(out, name, model_type):
    path = os.path.join(out, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    write_json(os.path.join(path, "config.json"), {"model_type": model_type})
    return path


def save_as_json(source, out, name, model_type):
    AutoTokenizer.from_pretrained(source).save_pretrained(folder_of(out, name, model_type))


# Folder, model type, special tokens in the order of their ids, whether letters stay as they are.
WORDPIECE_KINDS = {
    "bert": ("bert", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], False),
    "bert-cased": ("bert", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], True),
    "mpnet": ("mpnet", ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"], False),
}


def train_wordpiece(texts, out, size):
    for kind, (model_type, specials, cased) in WORDPIECE_KINDS.items():
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer = normalizers.BertNormalizer(lowercase=not cased)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        made.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=size, special_tokens=specials, show_progress=False))
        files = folder_of(out, f"{kind}-files", model_type)
        made.model.save(files)
        write_json(os.path.join(files, "tokenizer_config.json"), {"do_lower_case": not cased})
        save_as_json(files, out, kind, model_type)
    # As official MPNet folders are: <unk>, which is not the unknown token, is looked for in normalised text.
    path = os.path.join(out, "mpnet", "tokenizer.json")
    older = Tokenizer.from_file(path)
    older.add_special_tokens([AddedToken("<unk>", normalized=True)])
    older.save(path)


def train_bpe(texts, out, size):
    for kind, specials in BPE_KINDS.items():
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=specials, show_progress=False,
                                                            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        files = folder_of(out, f"{kind}-files", kind)
        made.model.save(files)
        save_as_json(files, out, kind, kind)
    # As official RoBERTa folders are: <mask> takes the space before it along, tokens are looked for after normalisation.
    older = Tokenizer.from_file(os.path.join(out, "roberta", "tokenizer.json"))
    older.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    older.normalizer = normalizers.NFC()
    older.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False), AddedToken("<extra>", normalized=True, rstrip=True),
                              AddedToken("É", normalized=True, single_word=True)])
    older.save(os.path.join(folder_of(out, "roberta-added", "roberta"), "tokenizer.json"))


def train_modern(texts, out, size):
    """As ModernBERT's folders are: GPT-NeoX's bytes behind NFC, tokens for runs of spaces, BERT's special tokens behind the vocabulary."""
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=["|||IP_ADDRESS|||", "<|padding|>"], show_progress=False,
                                                        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    made.add_tokens([AddedToken(" " * count, normalized=True) for count in range(24, 1, -1)])
    made.add_tokens([AddedToken("|||EMAIL_ADDRESS|||", normalized=True), AddedToken("|||PHONE_NUMBER|||", normalized=True)])
    made.add_special_tokens([AddedToken(token, lstrip=token == "[MASK]") for token in ("<|endoftext|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")])
    made.add_tokens([AddedToken(f"[unused{i}]", normalized=True) for i in range(3)])
    cls, sep = ((token, made.token_to_id(token)) for token in ("[CLS]", "[SEP]"))
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[cls, sep])
    made.decoder = decoders.ByteLevel()
    folder = folder_of(out, "modernbert", "modernbert")
    made.save(os.path.join(folder, "tokenizer.json"))
    write_json(os.path.join(folder, "tokenizer_config.json"), {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 8192, "clean_up_tokenization_spaces": True, "cls_token": "[CLS]",
        "mask_token": "[MASK]", "pad_token": "[PAD]", "sep_token": "[SEP]", "unk_token": "[UNK]", "model_input_names": ["input_ids", "attention_mask"]})


def train_pieces(texts, out, size, rules):
    lines = os.path.join(out, "lines.txt")
    with open(lines, "w", encoding="utf-8") as file:
        file.write("\n".join(texts))

    def train(name, file_name, model_type, rule, **ids):
        folder = folder_of(out, name, model_type)
        prefix = os.path.join(folder, file_name)
        normal = {"normalization_rule_tsv": rules} if rules else {"normalization_rule_name": rule}
        sentencepiece.SentencePieceTrainer.train(input=lines, model_prefix=prefix, vocab_size=size, minloglevel=2, num_threads=1,
                                                 character_coverage=0.9995, **normal, **ids)
        os.rename(prefix + ".model", prefix)
        os.remove(prefix + ".vocab")
        return folder

    deberta = train("deberta-v3-files", "spm.model", "deberta-v2", "nmt_nfkc", pad_id=0, bos_id=1, eos_id=2, unk_id=3,
                    pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]")
    write_json(os.path.join(deberta, "tokenizer_config.json"), {"do_lower_case": False, "vocab_type": "spm"})
    save_as_json(deberta, out, "deberta-v3", "deberta-v2")
    t5 = train("t5-files", "spiece.model", "t5", "nmt_nfkc", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    save_as_json(t5, out, "t5", "t5")
    # mT5: pieces for bytes, which tokenizers has no use for, and no tokens behind the model's own.
    mt5 = train("mt5-files", "spiece.model", "mt5", "nmt_nfkc", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, byte_fallback=True)
    write_json(os.path.join(mt5, "tokenizer_config.json"), {"tokenizer_class": "T5Tokenizer", "extra_ids": 0})
    save_as_json(mt5, out, "mt5", "mt5")
    # A decoder of all the other steps, as Llama's is.
    steps = Tokenizer.from_file(os.path.join(out, "mt5", "tokenizer.json"))
    steps.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    steps.save(os.path.join(folder_of(out, "mt5-steps", "mt5"), "tokenizer.json"))
    xlm = train("xlm-roberta-files", "sentencepiece.bpe.model", "xlm-roberta", "nmt_nfkc_cf", unk_id=0, bos_id=1, eos_id=2)
    save_as_json(xlm, out, "xlm-roberta", "xlm-roberta")
    # As transformers 4 converted DeBERTa v3: its charsmap, and [UNK] looked for after normalisation.
    older = Tokenizer.from_file(os.path.join(out, "deberta-v3", "tokenizer.json"))
    charsmap = Tokenizer.from_file(os.path.join(out, "t5", "tokenizer.json")).normalizer
    older.normalizer = normalizers.Sequence([normalizers.Strip(), charsmap, normalizers.Replace(Regex(" {2,}"), " ")])
    older.add_special_tokens([AddedToken("[UNK]", normalized=True)])
    older.save(os.path.join(folder_of(out, "deberta-v3-charsmap", "deberta-v2"), "tokenizer.json"))
    os.remove(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", required=True, nargs="+", help="corpus.txt.gz files: id, tab, text")
    parser.add_argument("--out", required=True)
    parser.add_argument("--size", type=int, default=20000, help="entries of each vocabulary")
    parser.add_argument("--count", type=int, default=0, help="train on the first COUNT texts; 0: on all")
    parser.add_argument("--rules", help="TSV of normalisation rules instead of SentencePiece's nmt_nfkc, which takes 200 KB in every model")
    arguments = parser.parse_args()
    texts = read_texts(arguments.lines)
    texts = texts[:arguments.count or len(texts)]
    os.makedirs(arguments.out, exist_ok=True)
    train_wordpiece(texts, arguments.out, arguments.size)
    train_bpe(texts, arguments.out, arguments.size)
    train_modern(texts, arguments.out, arguments.size)
    train_pieces(texts, arguments.out, arguments.size, arguments.rules)
    print(f"{len(texts)} texts; folders in {arguments.out}: {' '.join(sorted(os.listdir(arguments.out)))}")


if __name__ == "__main__":
    main()

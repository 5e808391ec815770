"""Opens token shards written by `gpuhpc prepare` with h5py and compares them with Hugging Face's tokenizer.

    python bench/peers/read_shards.py --shards runs/x/shards --corpus data/train/corpus.txt --model .deps/models/all-MiniLM-L6-v2

The corpus is `id<TAB>text`. Checks types, layout, ids, the tokens of every document (without specials) and, where
they are kept, the texts. Exit code 0 only when all agree.
"""
import argparse
import json
import sys
from pathlib import Path

import h5py
import numpy as np
from tokenizers import Tokenizer


def documents(path):
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            if line.strip("\r\n"):
                yield line.rstrip("\r\n").split("\t", 1)


def check_layout(file, path):
    arrays = [("tokens", np.int32), ("offsets", np.int64), ("ids", None)]
    if "text" in file:
        arrays += [("text", np.uint8), ("text_offsets", np.int64)]
    for name, kind in arrays:
        data = file[name]
        assert data.ndim == 1 and (kind is None or data.dtype == kind), f"{path}: {name} is {data.dtype} {data.shape}"
        assert data.chunks is None and data.compression is None, f"{path}: {name} is not contiguous"
        offset = data.id.get_offset()
        assert data.size == 0 or offset % 4096 == 0, f"{path}: {name} begins at byte {offset}"
        assert data.size == 0 or file[name + ".xxh3"].dtype == np.uint64, f"{path}: {name} has no checksums"
    assert h5py.check_string_dtype(file["ids"].dtype).encoding == "utf-8", f"{path}: ids are not UTF-8"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    options = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(options.model / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    manifest = json.loads((options.shards / "manifest.json").read_text())
    expected = documents(options.corpus)
    seen = tokens_seen = different = 0
    for entry in manifest["shards"]:
        path = options.shards / entry["file"]
        with h5py.File(path, "r") as file:
            check_layout(file, path)
            assert file.attrs["tokenizer"] == manifest["tokenizer"], f"{path}: another tokenizer"
            tokens, offsets, ids = file["tokens"][:], file["offsets"][:], file["ids"].asstr()[:]
            assert len(ids) == entry["documents"] == len(offsets) - 1 and len(tokens) == entry["tokens"] == offsets[-1], f"{path}: sizes differ"
            rows = [next(expected) for _ in ids]
            if "text" in file:
                text, ends = file["text"][:].tobytes(), file["text_offsets"][:]
                kept = [text[a:b].decode() for a, b in zip(ends[:-1], ends[1:])]
                assert kept == [row[1] for row in rows], f"{path}: the texts differ"
            for i, (row, encoded) in enumerate(zip(rows, tokenizer.encode_batch([row[1] for row in rows], add_special_tokens=False))):
                assert ids[i] == row[0], f"{path}: document {i} is {ids[i]!r}, the corpus has {row[0]!r}"
                different += encoded.ids != tokens[offsets[i]:offsets[i + 1]].tolist()
            seen, tokens_seen = seen + len(ids), tokens_seen + len(tokens)
    assert next(expected, None) is None, "the corpus has more documents than the shards"
    assert (seen, tokens_seen) == (manifest["documents"], manifest["tokens"]), "the manifest's sums differ"
    print(f"{len(manifest['shards'])} shards, {seen:,} documents, {tokens_seen:,} tokens read with h5py; "
          f"{different} documents differ from tokenizers'")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

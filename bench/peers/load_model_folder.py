"""Proves that a folder written by gpuhpc loads unchanged in transformers and sentence-transformers.

    python bench/peers/load_model_folder.py --model runs/demo/model [--source .deps/models/all-MiniLM-L6-v2] [--texts corpus.txt]
        [--program build/release/gpuhpc]

Checks that no weight is missing, left over or misshaped, that the tokenizer gives the same ids as the source's, and that both libraries
compute the same vectors; with --program, that `gpuhpc encode` computes those of sentence-transformers from the folder, its Dense and Normalize
modules included, and stores them as quantize_embeddings does. Prints how far the vectors have moved from the source's. Exit code 0 only when every check holds.
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.quantization import quantize_embeddings
from transformers import AutoModel, AutoTokenizer

TEXTS = ["gcc", "A compiler for C and C++.", "Play chess against the computer, or over the network with friends.", "naïve café 東京 " * 40]


def read_texts(path, count=50):
    lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()[:count]
    return [line.split("\t", 1)[-1] for line in lines]


def mean_pooled(model, tokenizer, texts, limit):
    batch = tokenizer(texts, padding=True, truncation=True, max_length=limit, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"][:, :, None]
    return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1).numpy()


def encoded(program, folder, texts, kind="none"):
    """What `gpuhpc encode` writes, in fp32 on the processor, perhaps in bytes or bits."""
    with tempfile.TemporaryDirectory() as scratch:
        lines, output = Path(scratch) / "texts.jsonl", Path(scratch) / "vectors.jsonl"
        lines.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        subprocess.run([program, "encode", "--device.kind", "cpu", "--infer.precision", "fp32", "--model.encoder", str(folder), "--input.file",
                        str(lines), "--input.text-field", "text", "--output.quantize", kind, "--output.file", str(output)],
                       check=True, stdout=subprocess.DEVNULL)
        return np.array([json.loads(line)["embedding"] for line in output.read_text(encoding="utf-8").splitlines()])


def check(folder, source, texts, program):
    """Yields (what, holds, detail)."""
    model, info = AutoModel.from_pretrained(folder, output_loading_info=True)
    model.eval()
    wrong = {key: sorted(map(str, value)) for key, value in info.items() if value and key != "error_msgs"}
    # A pooler head that the source never had is made up by transformers; nothing that gpuhpc computes reads it.
    missing = [key for key in wrong.pop("missing_keys", []) if not key.startswith("pooler.")]
    yield "transformers finds every weight", not wrong and not missing, str(wrong or missing or f"{sum(1 for _ in model.parameters())} tensors")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    sentence = SentenceTransformer(str(folder), device="cpu")
    vectors = sentence.encode(texts, batch_size=8, normalize_embeddings=True)
    yield "sentence-transformers gives finite unit vectors", bool(np.isfinite(vectors).all()), str(vectors.shape)
    modes = [module.pooling_mode for module in sentence if hasattr(module, "pooling_mode")]
    names = [type(module).__name__ for module in sentence]
    if modes == ["mean"] and "Dense" not in names:
        difference = float(np.abs(mean_pooled(model, tokenizer, texts, sentence.max_seq_length) - vectors).max())
        yield "both libraries agree", difference <= 2e-5, f"largest difference {difference:.1e}"
    if program:
        raw = sentence.encode(texts, batch_size=8).astype(np.float64)  # as the last module leaves them
        found = encoded(program, folder, texts)
        same = raw.shape == found.shape
        lengths = np.linalg.norm(raw, axis=1) * np.linalg.norm(found, axis=1) if same else 0
        cosine = float(((raw * found).sum(1) / lengths).min()) if same else 0
        yield f"gpuhpc encode gives sentence-transformers' vectors ({', '.join(names)})", cosine >= 0.99999, f"smallest cosine {cosine:.8f} of {found.shape}"
        for kind in ("int8", "uint8", "binary", "ubinary"):
            theirs, ours = quantize_embeddings(found.astype(np.float32), precision=kind), encoded(program, folder, texts, kind)
            equal = theirs.shape == ours.shape and bool((theirs == ours).all())
            yield f"gpuhpc encode --output.quantize {kind} gives quantize_embeddings' numbers", equal, str(ours.shape)
    if source is None:
        return
    original = SentenceTransformer(str(source), device="cpu")
    same_ids = original.tokenizer(texts)["input_ids"] == sentence.tokenizer(texts)["input_ids"]
    yield "token ids equal the source's", same_ids, f"{len(texts)} texts"
    print(f"length limit {sentence.max_seq_length}, the source's {original.max_seq_length}")
    moved = (original.encode(texts, batch_size=8, normalize_embeddings=True) * vectors).sum(1)
    print(f"cosine with the source's vectors: smallest {moved.min():.4f}, mean {moved.mean():.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, type=Path, help="folder to check")
    parser.add_argument("--source", type=Path, help="folder that it was trained from")
    parser.add_argument("--texts", help="id<TAB>text lines; 50 are used")
    parser.add_argument("--program", help="gpuhpc, whose encode is compared")
    arguments = parser.parse_args()
    texts = TEXTS + (read_texts(arguments.texts) if arguments.texts else [])
    held = True
    for what, holds, detail in check(arguments.model, arguments.source, texts, arguments.program):
        print(f"{'ok  ' if holds else 'FAIL'} {what}: {detail}")
        held = held and holds
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()

"""Embeddings of gpuhpc against sentence-transformers on the same texts: fp32 within 2e-5, bf16 cosine at least 0.999.

    python bench/peers/embeddings.py --model .deps/models/all-MiniLM-L6-v2 --corpus data/debtags-topical/test/corpus.txt \\
        --program build/release/gpuhpc [--documents 2000]

Other scripts import reference_vectors(), read_vectors() and compare().
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

LARGEST_DIFFERENCE_FP32 = 2e-5
SMALLEST_COSINE_BF16 = 0.999


def read_corpus(path, documents):
    """(ids, texts) of the first id<TAB>text lines."""
    with open(path, encoding="utf-8", errors="replace") as file:
        pairs = [line.rstrip("\n").split("\t", 1) for _, line in zip(range(documents), file)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def reference_vectors(model_folder, texts, batch_size=32, dtype=None):
    """sentence-transformers on the CPU; dtype None is fp32."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(model_folder), device="cpu", model_kwargs={} if dtype is None else {"dtype": dtype})
    return np.asarray(model.encode(texts, batch_size=batch_size, convert_to_tensor=True).float().cpu().numpy())


def read_vectors(path):
    """(ids or None, vectors) of what `gpuhpc encode` wrote: JSON lines or HDF5."""
    if str(path).endswith((".h5", ".hdf5")):
        import h5py

        with h5py.File(path, "r") as file:
            ids = [name.decode() for name in file["ids"][()].tobytes().rstrip(b"\n").split(b"\n")] if "ids" in file else None
            return ids, file["values"][()].astype(np.float32)
    rows = [json.loads(line) for line in open(path, encoding="utf-8")]
    return [row["id"] for row in rows], np.asarray([row["embedding"] for row in rows], dtype=np.float32)


def compare(ours, reference):
    """Largest absolute difference and smallest cosine between rows."""
    if ours.shape != reference.shape:
        raise SystemExit(f"shapes differ: {ours.shape} and {reference.shape}")
    a, b = ours.astype(np.float64), reference.astype(np.float64)
    cosine = (a * b).sum(1) / np.maximum(np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1), 1e-30)
    return {"largest_difference": float(np.abs(a - b).max()), "smallest_cosine": float(cosine.min()), "mean_cosine": float(cosine.mean())}


def holds(figures, precision):
    if precision == "fp32":
        return figures["largest_difference"] <= LARGEST_DIFFERENCE_FP32
    return figures["smallest_cosine"] >= SMALLEST_COSINE_BF16


def show(name, figures, precision):
    good = holds(figures, precision)
    print(f"{'ok  ' if good else 'FAIL'} {name} {precision}: largest difference {figures['largest_difference']:.2e}, "
          f"cosine smallest {figures['smallest_cosine']:.6f} mean {figures['mean_cosine']:.6f}")
    return good


def run_program(program, option, model, ids, texts, precision):
    with tempfile.TemporaryDirectory() as folder:
        source, result = Path(folder) / "texts.jsonl", Path(folder) / "vectors.jsonl"
        with open(source, "w", encoding="utf-8") as file:
            for name, text in zip(ids, texts):
                file.write(json.dumps({"id": name, "text": text}) + "\n")
        command = [str(program), "encode", "--model.encoder", str(model), "--input.file", str(source), "--output.file", str(result),
                   "--device.kind", "cpu", f"--{option}", precision]
        subprocess.run(command, check=True)
        got, vectors = read_vectors(result)
    if got != ids:
        raise SystemExit("the program wrote other ids, or another order")
    return vectors


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, type=Path, help="sentence-transformers folder")
    parser.add_argument("--corpus", required=True, type=Path, help="id<TAB>text lines")
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--program", required=True, type=Path, help="the gpuhpc binary")
    parser.add_argument("--precision-option", default="infer.precision", help="option of the program that takes fp32 or bf16")
    arguments = parser.parse_args()
    ids, texts = read_corpus(arguments.corpus, arguments.documents)
    reference = reference_vectors(arguments.model, texts)
    print(f"{len(texts)} documents, width {reference.shape[1]}, reference sentence-transformers fp32")
    good = True
    for precision in ("fp32", "bf16"):
        ours = run_program(arguments.program, arguments.precision_option, arguments.model, ids, texts, precision)
        good = show("gpuhpc", compare(ours, reference), precision) and good
    import torch

    show("sentence-transformers (for scale)", compare(reference_vectors(arguments.model, texts, dtype=torch.bfloat16), reference), "bf16")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()

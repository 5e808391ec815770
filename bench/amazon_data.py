"""amazon_data.py FOLDER   The Amazon taxonomy with its LLM-written reviews as test texts (gold: the path each was written for). They are removed from
every input: only the taxonomy and the class terms remain, and no training corpus."""
import gzip
import json
import shutil
import sys
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "data/amazon-531"


def make(folder):
    for part in ("train", "test"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for name in ("labels.txt", "label_hierarchy.txt", "train/llm_enrichment.txt"):
        shutil.copyfile(SOURCE / name, folder / name)
    (folder / "test/corpus.txt").write_bytes(gzip.open(SOURCE / "train/generated_docs.txt.gz").read())
    labels = json.load(gzip.open(SOURCE / "train/generated_doc2label.json.gz"))
    (folder / "test/doc2labels.txt").write_text("".join(f"{name}\t{','.join(entry['with ancestors'])}\n" for name, entry in labels.items()))
    return folder


if __name__ == "__main__":
    make(Path(sys.argv[1]))

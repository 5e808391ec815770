"""A sentence-transformers folder of a well-known shape with random weights, for measurements where answers do not matter but agree.

    python bench/peers/random_model.py minilm|bert-base|bert-large FOLDER --tokenizer .deps/models/all-MiniLM-L6-v2 [--max-length 128]
"""
import argparse
import json
import shutil
from pathlib import Path

import numpy as np

SHAPES = {"minilm": (6, 384, 12), "bert-base": (12, 768, 12), "bert-large": (24, 1024, 16)}  # layers, width, heads


def tensors(layers, width):
    """Name, shape and mean of every weight, in BertModel's names."""
    norm = lambda name: [(f"{name}.LayerNorm.weight", (width,), 1), (f"{name}.LayerNorm.bias", (width,), 0)]
    linear = lambda name, out, inside: [(f"{name}.weight", (out, inside), 0), (f"{name}.bias", (out,), 0)]
    result = [("embeddings.word_embeddings.weight", (30522, width), 0), ("embeddings.position_embeddings.weight", (512, width), 0),
              ("embeddings.token_type_embeddings.weight", (2, width), 0)] + norm("embeddings")
    for layer in range(layers):
        at = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            result += linear(f"{at}.attention.self.{part}", width, width)
        result += linear(f"{at}.attention.output.dense", width, width) + norm(f"{at}.attention.output")
        result += linear(f"{at}.intermediate.dense", 4 * width, width) + linear(f"{at}.output.dense", width, 4 * width) + norm(f"{at}.output")
    return result + linear("pooler.dense", width, width)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--max-length", type=int, default=128)
    arguments = parser.parse_args()
    layers, width, heads = SHAPES[arguments.shape]
    folder = arguments.folder
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape, _ in tensors(layers, width):
        size = 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(0)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, shape, mean in tensors(layers, width):
            file.write((random.standard_normal(shape, dtype=np.float32) * np.float32(.02) + np.float32(mean)).tobytes())
    config = {"architectures": ["BertModel"], "model_type": "bert", "vocab_size": 30522, "hidden_size": width, "num_hidden_layers": layers,
              "num_attention_heads": heads, "intermediate_size": 4 * width, "max_position_embeddings": 512, "type_vocab_size": 2,
              "hidden_act": "gelu", "layer_norm_eps": 1e-12, "pad_token_id": 0}
    modules = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
               for i, (path, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")))]
    pooling = {"word_embedding_dimension": width, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True,
               "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False}
    for name, content in (("config.json", config), ("modules.json", modules), ("1_Pooling/config.json", pooling),
                          ("sentence_bert_config.json", {"max_seq_length": arguments.max_length, "do_lower_case": False})):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(arguments.tokenizer / name, folder / name)


if __name__ == "__main__":
    main()

"""A sentence-transformers folder of a well-known shape with random weights, for measurements where answers do not matter but agree.

    python bench/peers/random_model.py minilm|bert-base|bert-large|modernbert-base FOLDER --tokenizer .deps/models/all-MiniLM-L6-v2 [--max-length 128]

deberta-large-mnli instead is a cross-encoder in the shape of microsoft/deberta-large-mnli, with the tokenizer that is given.
"""
import argparse
import json
import shutil
from pathlib import Path

import numpy as np

SHAPES = {"minilm": (6, 384, 12), "bert-base": (12, 768, 12), "bert-large": (24, 1024, 16),
          "modernbert-base": (22, 768, 12), "deberta-large-mnli": (24, 1024, 16)}  # layers, width, heads


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


def modern_tensors(layers, width):
    """The same in ModernBertModel's names."""
    wide = 3 * width // 2
    result = [("embeddings.tok_embeddings.weight", (30522, width), 0), ("embeddings.norm.weight", (width,), 1)]
    for layer in range(layers):
        at = f"layers.{layer}"
        if layer > 0:
            result.append((f"{at}.attn_norm.weight", (width,), 1))
        result += [(f"{at}.attn.Wqkv.weight", (3 * width, width), 0), (f"{at}.attn.Wo.weight", (width, width), 0), (f"{at}.mlp_norm.weight", (width,), 1),
                   (f"{at}.mlp.Wi.weight", (2 * wide, width), 0), (f"{at}.mlp.Wo.weight", (width, wide), 0)]
    return result + [("final_norm.weight", (width,), 1)]


def modern_config(layers, width, heads):
    return {"architectures": ["ModernBertModel"], "model_type": "modernbert", "vocab_size": 30522, "hidden_size": width, "num_hidden_layers": layers,
            "num_attention_heads": heads, "intermediate_size": 3 * width // 2, "max_position_embeddings": 8192, "hidden_activation": "gelu",
            "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "local_attention": 128, "norm_eps": 1e-5,
            "pad_token_id": 0, "bos_token_id": 101, "cls_token_id": 101, "eos_token_id": 102, "sep_token_id": 102}


def deberta_tensors(layers, width):
    """The same in DebertaForSequenceClassification's names, three labels."""
    norm = lambda name: [(f"{name}.LayerNorm.weight", (width,), 1), (f"{name}.LayerNorm.bias", (width,), 0)]
    linear = lambda name, out, inside: [(f"{name}.weight", (out, inside), 0), (f"{name}.bias", (out,), 0)]
    result = [("deberta.embeddings.word_embeddings.weight", (50265, width), 0)] + norm("deberta.embeddings")
    for layer in range(layers):
        at = f"deberta.encoder.layer.{layer}"
        own = f"{at}.attention.self"
        result += [(f"{own}.in_proj.weight", (3 * width, width), 0), (f"{own}.q_bias", (width,), 0), (f"{own}.v_bias", (width,), 0),
                   (f"{own}.pos_proj.weight", (width, width), 0)] + linear(f"{own}.pos_q_proj", width, width)
        result += linear(f"{at}.attention.output.dense", width, width) + norm(f"{at}.attention.output")
        result += linear(f"{at}.intermediate.dense", 4 * width, width) + linear(f"{at}.output.dense", width, 4 * width) + norm(f"{at}.output")
    result.append(("deberta.encoder.rel_embeddings.weight", (1024, width), 0))
    return result + linear("pooler.dense", width, width) + linear("classifier", 3, width)


def deberta_config(layers, width, heads):
    labels = ["CONTRADICTION", "NEUTRAL", "ENTAILMENT"]
    return {"architectures": ["DebertaForSequenceClassification"], "model_type": "deberta", "vocab_size": 50265, "hidden_size": width,
            "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": 4 * width, "max_position_embeddings": 512,
            "max_relative_positions": -1, "relative_attention": True, "position_biased_input": False, "pos_att_type": ["c2p", "p2c"],
            "type_vocab_size": 0, "hidden_act": "gelu", "layer_norm_eps": 1e-7, "pad_token_id": 0, "pooler_dropout": 0, "pooler_hidden_act": "gelu",
            "pooler_hidden_size": width, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1,
            "id2label": {str(i): label for i, label in enumerate(labels)}, "label2id": {label: i for i, label in enumerate(labels)}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--max-length", type=int, default=128)
    arguments = parser.parse_args()
    layers, width, heads = SHAPES[arguments.shape]
    modern, pairs = arguments.shape.startswith("modernbert"), arguments.shape.startswith("deberta")
    weights = (modern_tensors if modern else deberta_tensors if pairs else tensors)(layers, width)
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, shape, _ in weights:
        size = 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(0)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, shape, mean in weights:
            file.write((random.standard_normal(shape, dtype=np.float32) * np.float32(.02) + np.float32(mean)).tobytes())
    config = {"architectures": ["BertModel"], "model_type": "bert", "vocab_size": 30522, "hidden_size": width, "num_hidden_layers": layers,
              "num_attention_heads": heads, "intermediate_size": 4 * width, "max_position_embeddings": 512, "type_vocab_size": 2,
              "hidden_act": "gelu", "layer_norm_eps": 1e-12, "pad_token_id": 0}
    if modern:
        config = modern_config(layers, width, heads)
    elif pairs:
        config = deberta_config(layers, width, heads)
    modules = [{"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
               for i, (path, kind) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")))]
    pooling = {"word_embedding_dimension": width, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True,
               "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False}
    files = [("config.json", config)]
    if not pairs:  # else a plain Hugging Face folder
        (folder / "1_Pooling").mkdir(exist_ok=True)
        files += [("modules.json", modules), ("1_Pooling/config.json", pooling),
                  ("sentence_bert_config.json", {"max_seq_length": arguments.max_length, "do_lower_case": False})]
    for name, content in files:
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(arguments.tokenizer / name, folder / name)


if __name__ == "__main__":
    main()

"""The quality recipe in NumPy and scikit-learn: an independent answer to what the `recommended` preset computes, step by step.

    python bench/peers/recipe_reference.py --model .deps/models/all-MiniLM-L6-v2 --data data/debtags-topical \\
        --cache DIR [--dump DIR] [--supervised] [--json FILE]

Prints every row of bench/quality.sh that needs no training of an encoder; gold is read for the figures only. --cache keeps
embeddings as .npy (a few minutes to make). --dump writes each intermediate as .npy so that a C++ stage can be compared with it.
No student (step 11) here. Arithmetic is float64 on float32 embeddings; sorts are stable: ties go to the lower index.
"""
import argparse
import gzip
import hashlib
import json
import math
import re
from pathlib import Path

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from sklearn.feature_extraction.text import TfidfVectorizer

TEMPERATURE, CSLS, CSLS_FIT, CENTRING, NAME_WEIGHT, NEIGHBOURS = 20.0, .25, .5, .5, 3.0, 10
STOP_WORDS = set("and or of the for with a an in on to other general".split())


# ---- input -------------------------------------------------------------------------------------------------------------------

def read_rows(path):
    """[(id, rest)] of an `id<TAB>rest` file or its .gz; None when there is none."""
    for name, opener in ((path, open), (path.with_name(path.name + ".gz"), gzip.open)):
        if name.exists():
            with opener(name, "rt", encoding="utf-8", newline="\n") as file:
                return [tuple(line.rstrip("\r\n").split("\t", 1)) for line in file if line.strip()]
    return None


class Data:
    def __init__(self, folder):
        folder = Path(folder)
        self.names = [name.lower().replace("_", " ").replace("::", " ") for _, name in read_rows(folder / "labels.txt")]
        self.parents, self.children = ([[] for _ in self.names] for _ in range(2))
        for parent, child in read_rows(folder / "label_hierarchy.txt"):
            self.parents[int(child)].append(int(parent))
            self.children[int(parent)].append(int(child))
        self.descriptions = {int(c): text for c, text in read_rows(folder / "label_descriptions.txt") or []}
        self.test = [text for _, text in read_rows(folder / "test/corpus.txt")]
        train = read_rows(folder / "train/corpus.txt")
        self.has_train = train is not None
        self.train = [text for _, text in train] if train else self.test  # no train corpus: the test texts serve
        self.gold = [set(map(int, labels.split(","))) for _, labels in read_rows(folder / "test/doc2labels.txt")]
        self.classes = len(self.names)
        self.roots = [c for c in range(self.classes) if not self.parents[c]]
        self.paths = [path for root in self.roots for path in self._walk([root])]
        self.leaf = [path[-1] for path in self.paths]
        self.membership = np.zeros((len(self.paths), self.classes))  # (K, C): 1 where c lies on path k
        for k, path in enumerate(self.paths):
            self.membership[k, path] = 1

    def _walk(self, path):
        if not self.children[path[-1]]:
            return [path]
        return [full for child in self.children[path[-1]] for full in self._walk(path + [child])]

    def root_path(self, c):
        """The first root path: the first parent at every step."""
        path = [c]
        while self.parents[path[0]]:
            path.insert(0, self.parents[path[0]][0])
        return path

    def closed(self, classes):
        return {a for c in classes for a in self._ancestors(c)}

    def _ancestors(self, c):
        return {c}.union(*(self._ancestors(p) for p in self.parents[c]))


# ---- steps -------------------------------------------------------------------------------------------------------------------

def unit(x):
    return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12)


def centring_share(mean, wanted=CENTRING):
    """Of the mean of unit rows: what is wanted, or as much more as leaves a quarter of the spread around it."""
    length = np.linalg.norm(mean)
    return max(wanted, 1 - .25 * math.sqrt(max(0, 1 - length ** 2)) / length) if wanted and length else wanted


def softmax(z):
    z = np.exp(z - z.max(1, keepdims=True))
    return z / z.sum(1, keepdims=True)


def five_texts(data, c):
    path = [data.names[i] for i in data.root_path(c)]
    name, above = path[-1], path[-2::-1]
    kind = f", a kind of {', '.join(above[:2])}" if above else ""  # a root has no parent to name
    texts = [name, " > ".join(path), f"{above[0]} {name}" if above else name, f"this is about {name}.", f"this is about {name}{kind}."]
    return texts + [data.descriptions[c]] if data.descriptions.get(c) else texts


class Encoder:
    """sentence-transformers embeddings, unit length, 256 tokens; kept in `cache` under a hash of the texts."""

    def __init__(self, model, cache):
        self.folder, self.cache, self.model = model, cache, None

    def __call__(self, name, texts):
        digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]
        path = self.cache / f"{name}-{digest}.npy" if self.cache else None
        if path and path.exists():
            return np.load(path).astype(np.float64)
        if self.model is None:
            from sentence_transformers import SentenceTransformer
            self.model = SentenceTransformer(str(self.folder), device="cpu")
            self.model.max_seq_length = 256
        rows = self.model.encode(texts, batch_size=32, normalize_embeddings=True, convert_to_numpy=True).astype(np.float32)
        if path:
            self.cache.mkdir(parents=True, exist_ok=True)
            np.save(path, rows)
        return rows.astype(np.float64)


def stem(token):
    for ending, put in (("ies", "y"), ("es", ""), ("s", ""), ("ing", ""), ("ion", ""), ("ed", "")):
        if token.endswith(ending) and len(token) - len(ending) + len(put) >= 3:
            return token[:len(token) - len(ending)] + put
    return token


def tokens(text):
    return {stem(t) for t in re.findall(r"[a-z0-9]+", text.lower()) if len(t) > 1 and t not in STOP_WORDS}


def fitted_csls(scores, whole, r, temperature, csls=CSLS, fit=CSLS_FIT):
    """The share of r moved towards that under which texts which hold one class's whole name alone are likeliest."""
    scores, named = (rows[whole.sum(1) == 1] for rows in (scores, whole.argmax(1)))
    if not len(named):
        return csls

    def loss(share):
        z = temperature * (scores - share * r)
        return (logsumexp(z, axis=1) - z[np.arange(len(z)), named]).sum()

    best = minimize_scalar(loss, bounds=(0, 1), method="bounded", options={"xatol": 1e-9}).x
    return csls + fit * len(named) / (len(named) + 100) * (best - csls)


def lexical_evidence(data):
    """Step 5 for (train, test): (documents, K); document frequencies over training documents."""
    train, test = [tokens(t) for t in data.train], [tokens(t) for t in data.test]
    of_leaf = [sorted(tokens(data.names[leaf])) for leaf in data.leaf]
    vocabulary = sorted({t for leaf in of_leaf for t in leaf})
    idf = {t: math.log((len(train) + 1) / (sum(t in d for d in train) + 1)) + .1 for t in vocabulary}
    column = {t: i for i, t in enumerate(vocabulary)}
    weights = np.zeros((len(vocabulary), len(of_leaf)))
    for k, leaf in enumerate(of_leaf):
        for t in leaf:  # a name of stop words only has no evidence
            weights[column[t], k] = idf[t] / sum(idf[u] for u in leaf)
    has = [np.array([[t in d for t in vocabulary] for d in part], dtype=float) for part in (train, test)]
    return has[0] @ weights, has[1] @ weights


def nearest(queries, indexed, same):
    """(indices, cosines), (n, 10): exact, self excluded when the sets are the same, negative cosines set to 0."""
    indices, values = [], []
    for first in range(0, queries.shape[0], 1024):
        block = queries[first:first + 1024] @ indexed.T
        block = block.toarray() if hasattr(block, "toarray") else block
        if same:
            block[np.arange(len(block)), first + np.arange(len(block))] = -np.inf
        order = np.argsort(-block, axis=1, kind="stable")[:, :NEIGHBOURS]
        indices.append(order)
        values.append(np.maximum(np.take_along_axis(block, order, 1), 0))
    return np.concatenate(indices), np.concatenate(values)


def average(sets, columns):
    """A: mean of the neighbour sets, rows summing to 1; a row without neighbours in one set takes the other alone."""
    total = np.zeros((len(sets[0][0]), columns), dtype=np.float32)
    for indices, values in sets:
        sums = values.sum(1, keepdims=True)
        part = np.zeros_like(total)
        np.put_along_axis(part, indices, values / np.where(sums > 0, sums, 1), 1)
        total += part
    sums = total.sum(1, keepdims=True)
    return total / np.where(sums > 0, sums, 1)


class Recipe:
    temperature, share = TEMPERATURE, None  # share: of the means that centring takes off; None: the rule

    def __init__(self, data, encode):
        self.data = data
        self.train, self.test = encode("train", data.train), encode("test", data.test)
        self.name_vectors = encode("names", data.names)
        texts = [five_texts(data, c) for c in range(data.classes)]
        rows = encode("five-texts", [t for group in texts for t in group])
        ends = np.cumsum([0] + [len(group) for group in texts])
        self.class_vectors = unit(np.stack([rows[a:b].sum(0) for a, b in zip(ends[:-1], ends[1:])]))
        self.described = encode("described", [f"{name}: {data.descriptions.get(c, '')}" for c, name in enumerate(data.names)])
        self.lexical = lexical_evidence(data)
        self.sparse = None

    def centred(self, vectors):
        documents, classes = (m * (centring_share(m) if self.share is None else self.share) for m in (self.train.mean(0), vectors.mean(0)))
        return unit(self.train - documents), unit(self.test - documents), unit(vectors - classes)

    def tfidf_neighbours(self):
        if self.sparse is None:  # fitted on the training documents
            model = TfidfVectorizer(ngram_range=(1, 2), stop_words="english", sublinear_tf=True, min_df=2, max_df=.2)
            train = model.fit_transform(self.data.train)
            self.sparse = nearest(train, train, True), nearest(model.transform(self.data.test), train, False)
        return self.sparse

    def posterior(self, vectors=None, centre=True, csls=CSLS, lexical=True, refine=True, smooth=True, keep=None):
        """(test documents, K) after the chosen steps; csls: a share, or "fitted"; `keep` collects the intermediates by name."""
        keep = {} if keep is None else keep
        vectors = self.class_vectors if vectors is None else vectors
        x, y, e = self.centred(vectors) if centre else (self.train, self.test, vectors)
        paths = e[self.data.leaf]
        lex = self.lexical if lexical else (0, 0)
        scores = x @ paths.T
        r = np.sort(scores, axis=0)[-NEIGHBOURS:].mean(0)
        share = fitted_csls(scores, self.lexical[0] > .999, r, self.temperature) if csls == "fitted" else csls
        p, q = (softmax(self.temperature * (docs @ paths.T - share * r) + evidence) for docs, evidence in zip((x, y), lex))
        keep.update(train_centred=x, test_centred=y, classes_centred=e, scores=scores, r=r, P0=p, P0_test=q)
        if refine:
            c = unit(NAME_WEIGHT * paths + p.T @ x)
            p, q = (softmax(self.temperature * (docs @ c.T - share * r) + evidence) for docs, evidence in zip((x, y), lex))
            keep.update(c=c, P1=p, P1_test=q)
        if smooth:
            sparse, dense = self.tfidf_neighbours(), (nearest(x, x, True), nearest(y, x, False))
            f = self.propagate(p, average((sparse[0], dense[0]), len(x)), keep)
            if self.data.has_train:
                to_train = average((sparse[1], dense[1]), len(x))
                q = np.where(to_train.any(1)[:, None], .5 * q + .5 * to_train @ f, q)
            else:
                q = f
            for name, (indices, values) in (("tfidf", sparse[0]), ("tfidf_test", sparse[1]), ("dense", dense[0]), ("dense_test", dense[1])):
                keep.update({f"{name}_neighbours": indices.astype(np.int32), f"{name}_cosines": values})
            keep.update(F=f, F_test=q)
        return q

    @staticmethod
    def propagate(p, graph, keep):
        linked = graph.any(1)[:, None]  # a document without neighbours keeps its own posterior
        f = p
        for i in range(3):
            f = np.where(linked, .5 * p + .5 * graph @ f, p)
            keep[f"F{i + 1}"] = f
        return f

    def marginals(self, posterior):
        return posterior @ self.data.membership


# ---- decoders ----------------------------------------------------------------------------------------------------------------

def membership_probability(marginals, leaves):
    return 1 - (1 - np.clip(marginals, 0, 1)) ** leaves


def probability(marginals, leaves):
    """Scores in files: odds of the membership to a miss of about one leaf."""
    p = membership_probability(marginals, leaves)
    return p / (p + (1 - np.clip(marginals, 0, 1)) ** leaves ** .25)


def expected_f1(data, marginals, leaves, least=2, most=12):
    p = membership_probability(marginals, leaves)
    order = np.argsort(-p, axis=1, kind="stable")[:, :most]
    longest = np.array([max(len(path) for path in data.paths if c in path) for c in range(p.shape[1])])[order[:, 0]]
    k = np.arange(1, order.shape[1] + 1)
    value = 2 * np.cumsum(np.take_along_axis(p, order, 1), 1) / (k + p.sum(1, keepdims=True))
    value[k[None, :] < np.minimum(least, longest)[:, None]] = -1
    return [set(row[:n + 1].tolist()) for row, n in zip(order, value.argmax(1))]


def best_chain(data, marginals, leaves):
    """The prefix of one path with the best expected F1."""
    p = membership_probability(marginals, leaves)
    prefixes = sorted({tuple(path[:n]) for path in data.paths for n in range(1, len(path) + 1)})
    value = np.stack([2 * p[:, prefix].sum(1) / (len(prefix) + p.sum(1)) for prefix in prefixes], 1)
    return [set(prefixes[i]) for i in value.argmax(1)]


def top(scores, k):
    return [set(row.tolist()) for row in np.argsort(-scores, axis=1, kind="stable")[:, :k]]


# ---- metrics -----------------------------------------------------------------------------------------------------------------

def metrics(data, scores, predicted):
    """Filtered MRR: 1 + non-gold classes scoring at least as much, averaged over labels; raw MRR: plain ranks, averaged over documents."""
    gold, count = data.gold, data.classes
    hits, said, true = np.zeros(count), np.zeros(count), np.zeros(count)
    example, p1, p3, filtered, raw = [], [], [], [], []
    for i, (t, p) in enumerate(zip(gold, predicted)):
        example.append(2 * len(t & p) / (len(t) + len(p)))
        hits[list(t & p)] += 1
        said[list(p)] += 1
        true[list(t)] += 1
        order = np.argsort(-scores[i], kind="stable")
        rank = np.empty(count, dtype=int)
        rank[order] = np.arange(1, count + 1)
        p1.append(order[0] in t)
        p3.append(len(t & set(order[:3].tolist())) / min(3, len(t)))
        others = np.delete(scores[i], list(t))
        filtered += [1 / (1 + (others >= scores[i, c]).sum()) for c in t]
        raw.append(np.mean([1 / rank[c] for c in t]))
    per_class = 2 * hits / np.maximum(said + true, 1)
    return {"example_f1": np.mean(example), "precision_at_1": np.mean(p1), "precision_at_3": np.mean(p3), "mrr_filtered": np.mean(filtered),
            "macro_f1": per_class.mean(), "micro_f1": 2 * hits.sum() / (said.sum() + true.sum()), "mrr_raw": np.mean(raw)}


class Table:
    def __init__(self, data):
        self.data, self.rows = data, {}
        print(f"{'':66s} ex-F1   P@1   P@3   MRR macro micro  MRR raw   (published)")

    def add(self, name, scores, predicted, published=""):
        values = {key: round(float(value), 6) for key, value in metrics(self.data, scores, predicted).items()}
        self.rows[name] = values
        print(f"{name:66s} " + " ".join(f"{value:5.3f}" for value in values.values()) + f"     {published}", flush=True)

    def decoded(self, name, marginals, leaves, published=""):
        self.add(f"{name}, L = {leaves:g}", marginals, expected_f1(self.data, marginals, leaves), published)


# ---- rows of the table -------------------------------------------------------------------------------------------------------

def top_down(data, cosines):
    """Probability of a class = its parent's times the softmax among its siblings."""
    p = np.zeros_like(cosines)
    p[:, data.roots] = softmax(TEMPERATURE * cosines[:, data.roots])
    waiting = list(data.roots)
    while waiting:
        c = waiting.pop(0)
        children = [child for child in data.children[c] if data.root_path(child)[-2] == c]
        if children:
            p[:, children] = p[:, [c]] * softmax(TEMPERATURE * cosines[:, children])
            waiting += children
    return p


def top_twenty_means(recipe, rounds=3, size=20):
    """Multi-GPU TELEClass: a class vector becomes the mean of its 20 most similar documents, three times."""
    x, y, e = recipe.centred(recipe.class_vectors)
    vectors = e[recipe.data.leaf]
    for _ in range(rounds):
        best = np.argsort(-(x @ vectors.T), axis=0, kind="stable")[:size]
        vectors = unit(x[best].mean(0))
    return softmax(TEMPERATURE * (y @ vectors.T))


def published_rows(recipe, table):
    data, names = recipe.data, recipe.test @ recipe.name_vectors.T
    table.add("name cosine, flat top 3", names, top(names, 3), ".230 .415 .311 .216 .296")
    table.decoded("name, top-down local softmax", top_down(data, names), 2, ".274 .409 .351 .265 .183")
    sums = np.stack([names[:, path].sum(1) for path in data.paths], 1)
    table.decoded("name, sum of cosines over the path", recipe.marginals(softmax(TEMPERATURE * sums)), 2, ".349 .576 .459 .351 .244")
    table.decoded("multi-GPU refinement, our texts and decode", recipe.marginals(top_twenty_means(recipe)), 2, ".477 .685 .605 .470 .337")
    off = dict(centre=False, csls=0, lexical=False, refine=False, smooth=False)
    for name, vectors, options, published in (
            ("leaf softmax, names, summed upwards", recipe.name_vectors, off, ".422 .596 .537 .417 .326"),
            ("+ five texts + description", None, off, ".439 .618 .555 .434 .343"),
            ("+ centring", None, off | dict(centre=True), ".460 .639 .583 .455 .360"),
            ("+ lexical + half CSLS", None, dict(refine=False, smooth=False), ".473 .668 .609 .480 .384")):
        table.decoded(name, recipe.marginals(recipe.posterior(vectors, **options)), 2, published)


def recommended_rows(recipe, table, dump):
    keep = {"lexical": recipe.lexical[0], "lexical_test": recipe.lexical[1], "train": recipe.train, "test": recipe.test,
            "classes": recipe.class_vectors}
    full = recipe.marginals(recipe.posterior(keep=keep))
    for leaves, published in ((1, ""), (1.5, ""), (2, ".524 .712 .669 .528 .423"), (3, ".535 .714 .668 .529 .431")):
        table.decoded("recommended without the student", full, leaves, published)
    for name, options, published in (
            ("five texts", dict(vectors=recipe.name_vectors), ".525"), ("lexical", dict(lexical=False), ".534"),
            ("half CSLS", dict(csls=0), ".525"), ("centring", dict(centre=False), ".534"),
            ("refinement", dict(refine=False), ".518"), ("smoothing", dict(smooth=False), ".508")):
        table.decoded(f"recommended less {name}", recipe.marginals(recipe.posterior(**options)), 3, published)
    table.add("recommended, one chain only, L = 1", full, best_chain(recipe.data, full, 1), ".430")
    table.add("recommended, one chain only, L = 3", full, best_chain(recipe.data, full, 3), ".430")
    if dump:
        dump.mkdir(parents=True, exist_ok=True)
        for name, values in (keep | {"marginals_test": full}).items():
            np.save(dump / f"{name}.npy", values if values.dtype == np.int32 else values.astype(np.float32))


def zero_shot_rows(recipe, table):
    data, described, names = recipe.data, recipe.test @ recipe.described.T, recipe.test @ recipe.name_vectors.T
    leaves = sorted(set(data.leaf))
    best = [data.closed([leaves[i]]) for i in described[:, leaves].argmax(1)]
    table.add('zero-shot "name: description", best leaf + ancestors', described, best, ".338 .423     - .225 .282 .332")
    # An inner class scores what its best leaf scores, a trace more: before the leaf in the ranking.
    up = np.full_like(names, -np.inf)
    for path in data.paths:
        for above, c in enumerate(path[::-1]):
            up[:, c] = np.maximum(up[:, c], names[:, path[-1]] + 1e-3 * above)
    best = [data.closed(leaves[i] for i in row) for row in np.argsort(-names[:, leaves], axis=1, kind="stable")[:, :2]]
    table.add('zero-shot "name", best 2 leaves + ancestors, scores upwards', up, best, ".383 .572     - .402 .322 .388")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cache", type=Path, help="folder that keeps embeddings")
    parser.add_argument("--dump", type=Path, help="folder for the intermediates of the full recipe")
    parser.add_argument("--supervised", action="store_true", help="also the rows that learn from train/doc2labels.txt (minutes)")
    parser.add_argument("--json", type=Path, help="the table as {row: {metric: value}}")
    arguments = parser.parse_args()
    data = Data(arguments.data)
    recipe = Recipe(data, Encoder(arguments.model, arguments.cache))
    table = Table(data)
    published_rows(recipe, table)
    recommended_rows(recipe, table, arguments.dump)
    zero_shot_rows(recipe, table)
    if arguments.supervised:
        from supervised_reference import supervised_rows
        supervised_rows(recipe, table, read_rows(arguments.data / "train/doc2labels.txt"))
    if arguments.json:
        arguments.json.write_text(json.dumps(table.rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

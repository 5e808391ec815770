#include "gpuhpc/pipelines/label/taxoclass/backends/pair_examples.hpp"

#include <algorithm>

#include "gpuhpc/base/random.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/infer/encode.hpp"
#include "gpuhpc/io/lines.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/decoding.hpp"
#include "gpuhpc/pipelines/corpus_blocks.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t nearest_classes = 6, random_classes = 2,
                       a_document = nearest_classes + random_classes + 2;
constexpr std::int64_t title_words = 12, title_tokens = 48;  // at most
constexpr float agreed = .5f;  // probabilities on the same side of it agree

// The first sentence without its full stop, at most `title_words` words, and what follows.
std::pair<std::string, std::string> split_title(const std::string& text) {
  std::size_t end = 0;
  for (std::int64_t words = 0; words < title_words && end < text.size(); ++words) {
    end = std::min(text.find(' ', end + 1), text.size());
    if (text.find_last_of(".!?", end - 1) == end - 1)
      return {text.substr(0, end - 1), text.substr(end)};
  }
  return {text.substr(0, end), text.substr(end)};
}

// What the documents of one rank give; the pieces of all ranks, one behind the other, are those of
// the corpus.
struct Drawn {
  std::vector<std::int64_t>
      lengths;  // tokens of each document's text, body, statement of its title
  std::vector<std::int32_t> tokens, classes;
  std::vector<std::int64_t> class_counts;
  std::vector<float> targets;  // of the classes

  void add_tokens(const TokenIds& ids) {
    lengths.push_back(std::ssize(ids));
    tokens.insert(tokens.end(), ids.begin(), ids.end());
  }
  void gather(Communicator& comm) {
    const auto all = [&](auto& values) {
      values = comm.all_gather_v(
          std::span<const typename std::remove_reference_t<decltype(values)>::value_type>(values));
    };
    all(lengths), all(tokens), all(classes), all(class_counts), all(targets);
  }
};

class Drawing {
 public:
  Drawing(const PairSources& sources, const Taxonomy& taxonomy, const Tokenizer& tokenizer)
      : sources_(sources),
        taxonomy_(taxonomy),
        tokenizer_(tokenizer),
        first_(sources.posterior.first),
        smoothed_(sources.posterior.posterior),
        documents_(smoothed_.view().rows),
        wanted_(std::clamp<std::int64_t>(sources.options.examples / a_document, 1, documents_)) {}

  std::int64_t documents() const { return documents_; }
  bool chosen(std::int64_t document) const {
    return (document + 1) * wanted_ / documents_ > document * wanted_ / documents_;
  }

  void add(std::int64_t document, const std::string& text) {
    const std::string whole = as_premise(text);
    const auto [title, body] = split_title(whole);
    drawn.add_tokens(premise(whole));
    drawn.add_tokens(premise(body));
    drawn.add_tokens(ids_of(tokenizer_, statement(sources_.statements.hypothesis, title)));
    add_classes(document);
  }

  Drawn drawn;

 private:
  TokenIds premise(const std::string& text) const {
    TokenIds ids = ids_of(tokenizer_, text);
    ids.resize(std::min(ids.size(), static_cast<std::size_t>(sources_.statements.premise_tokens)));
    return ids;
  }

  // The classes nearest to the document and some others.
  void add_classes(std::int64_t document) {
    Matrix before(1, taxonomy_.size()), after(1, taxonomy_.size());
    leaf_probabilities(taxonomy_, sources_.expected_leaves.value, first_.view().slice(document, 1),
                       before.view());
    leaf_probabilities(taxonomy_, sources_.expected_leaves.value,
                       smoothed_.view().slice(document, 1), after.view());
    std::vector<ClassId> agreeing;
    for (ClassId c = 0; c < taxonomy_.size(); ++c)
      if ((value(before, c) > agreed) == (value(after, c) > agreed)) agreeing.push_back(c);
    std::ranges::stable_sort(agreeing, std::greater{}, [&](ClassId c) { return value(after, c); });
    const auto near = std::min<std::ptrdiff_t>(nearest_classes, std::ssize(agreeing));
    RandomStream random(static_cast<std::uint64_t>(sources_.seed.value),
                        static_cast<std::uint64_t>(document));
    const auto some = std::min<std::ptrdiff_t>(random_classes, std::ssize(agreeing) - near);
    for (std::ptrdiff_t i = near; i < near + some; ++i)  // the first places of a shuffle
      std::swap(agreeing[static_cast<std::size_t>(i)],
                agreeing[static_cast<std::size_t>(i) +
                         random.below(agreeing.size() - static_cast<std::size_t>(i))]);
    agreeing.resize(static_cast<std::size_t>(near + some));
    drawn.class_counts.push_back(std::ssize(agreeing));
    for (const ClassId c : agreeing)
      drawn.classes.push_back(c), drawn.targets.push_back(value(after, c));
  }
  static float value(const Matrix& row, ClassId c) {
    return row.values[static_cast<std::size_t>(c)];
  }

  const PairSources& sources_;
  const Taxonomy& taxonomy_;
  const Tokenizer& tokenizer_;
  MappedMatrix first_, smoothed_;
  std::int64_t documents_, wanted_;
};

// Premises, titles' statements and examples of the drawn documents.
void add_documents(const Drawn& drawn, std::uint64_t seed, PairExamples& pairs) {
  const std::int64_t documents = std::ssize(drawn.class_counts),
                     statements = std::ssize(pairs.hypotheses);
  auto next = drawn.tokens.begin();
  for (std::size_t i = 0; i < drawn.lengths.size(); ++i) {
    auto& list = i % 3 == 2 ? pairs.hypotheses : pairs.premises;
    list.emplace_back(next, next + drawn.lengths[i]);
    next += drawn.lengths[i];
  }
  const auto short_enough = [&](std::int64_t title) {
    return std::ssize(pairs.hypotheses[static_cast<std::size_t>(title)]) <= title_tokens;
  };
  std::size_t place = 0;
  for (std::int64_t d = 0; d < documents; ++d) {
    const std::int64_t text = 2 * d, body = 2 * d + 1, title = statements + d;
    for (std::int64_t i = 0; i < drawn.class_counts[static_cast<std::size_t>(d)]; ++i, ++place)
      pairs.examples.push_back({{text, drawn.classes[place]}, drawn.targets[place]});
    if (pairs.premises[static_cast<std::size_t>(body)].empty() || documents < 2) continue;
    RandomStream random(seed, static_cast<std::uint64_t>(d));
    const std::int64_t other =
        statements +
        (d + 1 +
         static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(documents - 1)))) %
            documents;
    if (short_enough(title)) pairs.examples.push_back({{body, title}, 1});
    if (short_enough(other)) pairs.examples.push_back({{body, other}, 0});
  }
}

// What stands for each class: positive with the class, negative with one that lies neither above
// nor below it.
void add_class_texts(const std::filesystem::path& file, const Taxonomy& taxonomy,
                     const Tokenizer& tokenizer, std::uint64_t seed, PairExamples& pairs) {
  LineReader lines(file);
  std::uint64_t number = 0;
  for (std::string line; lines.next(line); ++number) {
    const std::size_t tab = line.find('\t');
    const ClassId own = taxonomy.find(line.substr(0, tab)).value();
    pairs.premises.push_back(ids_of(tokenizer, as_premise(line.substr(tab + 1))));
    const std::int64_t text = std::ssize(pairs.premises) - 1;
    pairs.examples.push_back({{text, own}, 1});
    std::vector<ClassId> related(taxonomy.ancestors(own).begin(), taxonomy.ancestors(own).end());
    related.insert(related.end(), taxonomy.descendants(own).begin(),
                   taxonomy.descendants(own).end());
    related.push_back(own);
    RandomStream random(seed, number);
    const auto other =
        static_cast<ClassId>(random.below(static_cast<std::uint64_t>(taxonomy.size())));
    if (std::ranges::find(related, other) == related.end())
      pairs.examples.push_back({{text, other}, 0});
  }
}

}  // namespace

PairExamples make_pair_examples(const StageContext& c, const PairSources& sources,
                                const Taxonomy& taxonomy, const Tokenizer& tokenizer) {
  Drawn drawn;
  run_collectively(c.comm, [&] {
    Drawing drawing(sources, taxonomy, tokenizer);
    const TokenDataset corpus(sources.encoding.tokens);
    const Range own = own_documents(drawing.documents(), c.comm);
    for (std::int64_t d = own.first; d < own.last; ++d) {
      if (!drawing.chosen(d)) continue;
      drawing.add(d, std::string(corpus.text(d)));
      c.leave_if_asked();
    }
    drawn = std::move(drawing.drawn);
  });
  drawn.gather(c.comm);
  PairExamples pairs;
  run_collectively(c.comm, [&] {
    pairs.hypotheses = tokenize(
        tokenizer, class_statements(taxonomy, sources.statements.hypothesis), c.device.threads);
    const auto seed = static_cast<std::uint64_t>(sources.seed.value);
    add_documents(drawn, seed, pairs);
    add_class_texts(sources.encoding.class_texts, taxonomy, tokenizer, seed, pairs);
  });
  if (c.comm.is_root())
    c.log->info("{} pairs to learn from: {} documents, {} classes", pairs.examples.size(),
                drawn.class_counts.size(), taxonomy.size());
  return pairs;
}

std::int64_t PairTask::cost(std::int64_t item) const {
  const TextPair& p = pair(item);
  return std::min(longest_, std::ssize(premise(p)) + std::ssize(hypothesis(p)) + form_.specials());
}

PackedIds PairTask::pack(std::span<const std::int64_t> items) const {
  PackedIds packed;
  for (const std::int64_t item : items) {
    const TokenPair tokens = paired(form_, premise(pair(item)), hypothesis(pair(item)), longest_);
    packed.add_pair(item, tokens.ids, tokens.segments);
  }
  return packed;
}

std::string as_premise(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

std::string statement(const std::string& form, const std::string& words) {
  std::string text = form;
  return text.replace(text.find("{}"), 2, words);
}

std::vector<std::string> class_statements(const Taxonomy& taxonomy, const std::string& form) {
  std::vector<std::string> statements;
  for (ClassId c = 0; c < taxonomy.size(); ++c)
    statements.push_back(statement(form, taxonomy.title(c)));
  return statements;
}

}  // namespace gpuhpc

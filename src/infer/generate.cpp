#include "gpuhpc/infer/generate.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numeric>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "search.hpp"

namespace gpuhpc {
namespace {

at::ScalarType compute_type(const InferPlan& plan) {
  if (plan.cuda) return plan.forward.compute;
  return plan.precision == CpuPrecision::bf16 ? at::kBFloat16 : at::kFloat;
}

}  // namespace

T5Generator::T5Generator(const T5& model, TextTemplate form, std::int64_t source_length,
                         const GenerateOptions& options, const InferOptions& infer,
                         const DeviceChoice& device)
    : model_(model),
      form_(std::move(form)),
      source_length_(source_length),
      options_(options),
      plan_(infer, device),
      decoder_(model, compute_type(plan_)) {
  options_.check();
  // A step reads all weights, for however few texts: more of them at once than an encoder's.
  if (infer.token_budget == 0 && !plan_.cuda) plan_.budget = 8192;
  if (2 * options_.beams > model.config().vocabulary_size)
    throw usage_error("--generate.beams {} are too many for a vocabulary of {}", options_.beams,
                      model.config().vocabulary_size);
  if (source_length_ <= form_.specials())
    throw usage_error("--seq2seq.source-length {} leaves no room beside {} special tokens",
                      source_length_, form_.specials());
}

std::string T5Generator::describe() const {
  const at::ScalarType type = compute_type(plan_);
  return fmt::format("{} by LibTorch, {}",
                     type == at::kBFloat16 ? "bf16"
                     : type == at::kHalf   ? "fp16"
                                           : "fp32",
                     plan_.cuda ? "cuda" : fmt::format("{} threads", plan_.threads));
}

std::vector<TokenList> T5Generator::generate(const PackedIds& sources) const {
  const at::NoGradGuard no_grad;
  const PackedTokens packed = pack_tokens(sources, model_.device());
  ForwardOptions forward = plan_.forward;
  forward.compute = compute_type(plan_);
  T5Decoder::Rows rows =
      decoder_.begin(model_.encode(packed, forward), packed, options_.max_length);
  std::vector<TextSearch> searches;
  for (const std::int64_t document : sources.documents)
    searches.emplace_back(options_, model_.config(), document);
  std::vector<std::int64_t> running(searches.size());  // searches that go on, as the rows stand
  std::iota(running.begin(), running.end(), 0);
  TokenList tokens(searches.size(), model_.config().start);
  while (true) {
    const at::Tensor scores = decoder_.step(rows, tokens).cpu().contiguous();
    const std::int64_t each = rows.per_document, words = scores.size(1);
    std::vector<std::int64_t> from, stay, next;  // rows; places in `running`; searches
    tokens.clear();
    for (std::size_t i = 0; i < running.size(); ++i) {
      const std::int64_t first = static_cast<std::int64_t>(i) * each;
      TextSearch& search = searches[static_cast<std::size_t>(running[i])];
      search.advance(
          {scores.data_ptr<float>() + first * words, static_cast<std::size_t>(each * words)}, each);
      if (search.over()) continue;
      stay.push_back(static_cast<std::int64_t>(i)), next.push_back(running[i]);
      for (const TextSearch::Text& text : search.running())
        from.push_back(first + text.parent), tokens.push_back(text.tokens.back());
    }
    if (next.empty()) break;
    std::vector<std::int64_t> as_they_are(static_cast<std::size_t>(scores.size(0)));
    std::iota(as_they_are.begin(), as_they_are.end(), 0);
    if (from != as_they_are) decoder_.select(rows, from, stay);
    running = std::move(next);
  }
  std::vector<TokenList> texts;
  for (const TextSearch& search : searches) texts.push_back(search.best());
  return texts;
}

std::vector<TokenList> T5Generator::generate_together(
    const TokenSource& sources, std::int64_t first, Communicator& comm,
    const std::function<void(std::int64_t)>& progress) const {
  const auto content = static_cast<std::size_t>(source_length_ - form_.specials());
  std::vector<std::int64_t> order(static_cast<std::size_t>(sources.size)), lengths;
  const auto cut = [&](std::int64_t document) {
    const auto all = sources.tokens(document);
    return all.first(std::min(all.size(), content));
  };
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::int64_t d) { return cut(d).size(); });
  for (const std::int64_t document : order)
    lengths.push_back(std::ssize(cut(document)) + form_.specials());
  const auto batches = cut_batches(lengths, plan_.budget, model_.config().hidden_size, plan_.most);
  std::vector<TokenList> mine;
  std::vector<std::int64_t> places;  // the source of each
  run_collectively(comm, [&] {
    for (const ItemBatch& batch : share_of_rank(batches, comm.rank(), comm.size())) {
      PackedIds packed;
      for (std::int64_t i = batch.first; i < batch.last; ++i) {
        const std::int64_t document = order[static_cast<std::size_t>(i)];
        packed.add(first + document, cut(document), form_);
      }
      const std::vector<TokenList> texts = generate(packed);
      mine.insert(mine.end(), texts.begin(), texts.end());
      for (const std::int64_t document : packed.documents) places.push_back(document - first);
      if (progress) progress(std::ssize(texts));
    }
  });
  mine = comm.all_gather_lists(std::span<const TokenList>(mine));
  places = comm.all_gather_v(std::span<const std::int64_t>(places));
  std::vector<TokenList> texts(mine.size());
  for (std::size_t i = 0; i < mine.size(); ++i)
    texts[static_cast<std::size_t>(places[i])] = std::move(mine[i]);
  return texts;
}

}  // namespace gpuhpc

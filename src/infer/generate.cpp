#include "gpuhpc/infer/generate.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "search.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t tokens_at_once = 384;  // of sources that a thread encodes together

}  // namespace

// Sources of one rank: their places among all, shortest first. `pack` and `use` are called by one
// thread at a time.
struct T5Generator::Work {
  std::span<const std::int64_t> places;
  std::function<void(std::int64_t, PackedIds&)> pack;
  std::function<void(std::int64_t, TokenList)> use;
};

T5Generator::T5Generator(const T5& model, TextTemplate form, std::int64_t source_length,
                         const GenerateOptions& options, const InferOptions& infer,
                         const DeviceChoice& device)
    : model_(model),
      form_(std::move(form)),
      source_length_(source_length),
      options_(options),
      plan_(infer, device),
      words_(kernels::word_kernels(kernels::best_isa())) {
  options_.check();
  // A step reads all weights, for however few texts: more of them at once than an encoder's.
  if (infer.token_budget == 0 && !plan_.cuda) plan_.budget = 8192;
  if (2 * options_.beams > model.config().vocabulary_size)
    throw usage_error("--generate.beams {} are too many for a vocabulary of {}", options_.beams,
                      model.config().vocabulary_size);
  if (source_length_ <= form_.specials())
    throw usage_error("--seq2seq.source-length {} leaves no room beside {} special tokens",
                      source_length_, form_.specials());
  if (plan_.cuda) {
    on_device_.emplace(model, plan_.forward.compute);
    return;
  }
  if (plan_.precision == CpuPrecision::int8)
    throw configuration_error(
        "--infer.precision int8 is for encoders; to generate texts use bf16, fp32 or auto");
  if (plan_.precision == CpuPrecision::tf32) {
    plan_.precision = CpuPrecision::fp32;
    plan_.numbers = fmt::format("fp32 on {} (tf32 is for encoders)", to_string(plan_.isa));
  }
  on_processors_ =
      make_cpu_t5(model, plan_.precision, plan_.isa, source_length_, options_.max_length);
}

std::string T5Generator::describe() const { return plan_.describe(); }

// The texts of one thread: what is finished makes room for the next source.
class T5Generator::Writer {
 public:
  Writer(const T5Generator& generator, std::int64_t most)
      : g_(generator),
        most_(most),
        texts_(generator.on_processors_->make_texts(generator.options_.beams)) {}

  bool idle() const { return running_.empty(); }
  // Is it worth to encode more? Few sources at a time would read the encoder's weights for little.
  bool hungry() const { return std::ssize(running_) <= enough_; }
  bool has_room() const {
    return packed_.offsets.back() < tokens_at_once &&
           std::ssize(running_) + std::ssize(waiting_) < most_ &&
           (tokens_ == 0 || tokens_ < g_.plan_.budget);
  }
  // `pack` adds the source at that place.
  void take(std::int64_t place, const std::function<void(std::int64_t, PackedIds&)>& pack) {
    pack(place, packed_);
    tokens_ += packed_.length(packed_.size() - 1);
    waiting_.push_back(place);
  }
  // What was taken. False: nothing.
  bool encode() {
    if (waiting_.empty()) return false;
    const std::vector<std::int64_t> numbers = texts_->add(packed_);
    for (std::size_t i = 0; i < numbers.size(); ++i)
      running_.push_back({{g_.options_, g_.model_.config(), packed_.documents[i]},
                          waiting_[i],
                          numbers[i],
                          packed_.length(static_cast<std::int64_t>(i))});
    packed_.clear(), waiting_.clear();
    enough_ = std::ssize(running_) * 3 / 4;
    return true;
  }
  // One more token of each; finished(place, text).
  template <typename Finished>
  void step(const Finished& finished) {
    rows_.clear();
    for (const Running& text : running_)
      for (const TextSearch::Text& row : text.search.running())
        rows_.push_back({text.source, row.parent,
                         row.tokens.empty() ? g_.model_.config().start : row.tokens.back()});
    CpuT5Texts::Scores scores = texts_->step(rows_);
    for (Running& text : running_) {
      const std::int64_t rows = std::ssize(text.search.running());
      text.search.advance(g_.words_, scores.data, scores.stride);
      scores.data += rows * scores.stride;
      if (!text.search.over()) continue;
      tokens_ -= text.tokens;
      texts_->remove(text.source);
      finished(text.place, text.search.best());
    }
    std::erase_if(running_, [](const Running& text) { return text.search.over(); });
  }

 private:
  struct Running {
    TextSearch search;
    std::int64_t place, source, tokens;
  };
  const T5Generator& g_;
  std::int64_t most_, enough_ = 0, tokens_ = 0;  // texts; texts below which others are taken
  std::unique_ptr<CpuT5Texts> texts_;
  std::vector<Running> running_;
  PackedIds packed_;  // taken, not yet encoded
  std::vector<std::int64_t> waiting_;
  std::vector<CpuT5Texts::Row> rows_;
};

void T5Generator::write_on_processors(const Work& work) const {
  std::mutex mutex;
  std::int64_t left = std::ssize(work.places);  // the longest ones first: none is begun at the end
  const std::int64_t most = std::clamp<std::int64_t>((left + plan_.threads - 1) / plan_.threads, 1,
                                                     plan_.most);  // all threads have some
  const auto write = [&] {
    Writer writer(*this, most);
    while (true) {
      const auto take = [&] {
        const std::lock_guard lock(mutex);
        while (left > 0 && writer.has_room())
          writer.take(work.places[static_cast<std::size_t>(--left)], work.pack);
      };
      // A little at a time, so that all threads get long ones and short ones.
      for (bool more = writer.hungry(); more; more = writer.encode()) take();
      if (writer.idle()) break;
      writer.step([&](std::int64_t place, TokenList text) {
        const std::lock_guard lock(mutex);
        work.use(place, std::move(text));
      });
    }
  };
  parallel_for(0, plan_.threads, plan_.threads, [&](std::int64_t, int) {
    try {
      write();
    } catch (...) {  // the other threads finish what they have
      const std::lock_guard lock(mutex);
      left = 0;
      throw;
    }
  });
}

// Texts that are written together, on a GPU: those that are finished leave.
std::vector<TokenList> T5Generator::generate_batch(const PackedIds& sources) const {
  const at::NoGradGuard no_grad;
  const PackedTokens packed = pack_tokens(sources, model_.device());
  T5Decoder::Rows rows =
      on_device_->begin(model_.encode(packed, plan_.forward), packed, options_.max_length);
  std::vector<TextSearch> searches;
  for (const std::int64_t document : sources.documents)
    searches.emplace_back(options_, model_.config(), document);
  std::vector<std::int64_t> running(searches.size());  // searches that go on, as the rows stand
  std::iota(running.begin(), running.end(), 0);
  TokenList tokens(searches.size(), model_.config().start);
  while (true) {
    const at::Tensor scores = HostCopy(on_device_->step(rows, tokens)).wait();
    const std::int64_t each = rows.per_document, words = scores.size(1);
    std::vector<std::int64_t> from, stay, next;  // rows; places in `running`; searches
    tokens.clear();
    for (std::size_t i = 0; i < running.size(); ++i) {
      const std::int64_t first = static_cast<std::int64_t>(i) * each;
      TextSearch& search = searches[static_cast<std::size_t>(running[i])];
      search.advance(words_, scores.data_ptr<float>() + first * words, words);
      if (search.over()) continue;
      stay.push_back(static_cast<std::int64_t>(i)), next.push_back(running[i]);
      for (const TextSearch::Text& text : search.running())
        from.push_back(first + text.parent), tokens.push_back(text.tokens.back());
    }
    if (next.empty()) break;
    std::vector<std::int64_t> as_they_are(static_cast<std::size_t>(scores.size(0)));
    std::iota(as_they_are.begin(), as_they_are.end(), 0);
    if (from != as_they_are) on_device_->select(rows, from, stay);
    running = std::move(next);
  }
  std::vector<TokenList> texts;
  for (const TextSearch& search : searches) texts.push_back(search.best());
  return texts;
}

std::vector<TokenList> T5Generator::generate_together(
    const TokenSource& sources, std::int64_t first, Communicator& comm,
    const std::function<void(std::int64_t)>& progress) const {
  check_one_precision(comm, plan_);
  const auto content = static_cast<std::size_t>(source_length_ - form_.specials());
  std::vector<std::int64_t> order(static_cast<std::size_t>(sources.size)), lengths;
  const auto cut = [&](std::int64_t document) {
    const auto all = sources.tokens(document);
    return all.first(std::min(all.size(), content));
  };
  std::iota(order.begin(), order.end(), 0);
  // On a GPU there is room for all tokens that a text may get, in every beam, from its first one on
  // (T5Decoder::begin): they count as its source's do.
  const std::int64_t written = plan_.cuda ? options_.beams * options_.max_length : 0;
  for (const std::int64_t document : order)
    lengths.push_back(std::ssize(cut(document)) + form_.specials() + written);
  std::ranges::stable_sort(order, {},
                           [&](std::int64_t d) { return lengths[static_cast<std::size_t>(d)]; });
  std::ranges::sort(lengths);
  // Threads of a processor take sources one by one.
  const auto batches =
      cut_batches(lengths, plan_.budget, model_.config().hidden_size, plan_.cuda ? plan_.most : 1);
  std::vector<TokenList> mine;
  std::vector<std::int64_t> places;  // the source of each
  run_collectively(comm, [&] {
    const auto pack = [&](std::int64_t document, PackedIds& packed) {
      packed.add(first + document, cut(document), form_);
    };
    const auto use = [&](std::int64_t document, TokenList text) {
      places.push_back(document), mine.push_back(std::move(text));
      if (progress) progress(1);
    };
    const auto of_rank = share_of_rank(batches, comm.rank(), comm.size());
    const auto documents = [&](const ItemBatch& from, const ItemBatch& to) {
      return std::span(order).subspan(static_cast<std::size_t>(from.first),
                                      static_cast<std::size_t>(to.last - from.first));
    };
    if (!plan_.cuda) {
      if (!of_rank.empty())
        write_on_processors({documents(of_rank.front(), of_rank.back()), pack, use});
      return;
    }
    for (const ItemBatch& batch : of_rank) {
      PackedIds packed;
      for (const std::int64_t document : documents(batch, batch)) pack(document, packed);
      std::vector<TokenList> texts = generate_batch(packed);
      for (std::size_t i = 0; i < texts.size(); ++i)
        use(packed.documents[i] - first, std::move(texts[i]));
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

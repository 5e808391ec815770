#include "gpuhpc/pipelines/pretrain/task.hpp"

#include <algorithm>
#include <cmath>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/text/tokenizer.hpp"
#include "gpuhpc/train/sampler.hpp"

namespace gpuhpc {

std::vector<bool> continuing_ids(const Tokenizer& tokenizer) {
  const std::vector<std::int32_t> word = ids_of(tokenizer, "a");
  const std::string alone = tokenizer.decode(word, false);
  std::vector<bool> continues(static_cast<std::size_t>(tokenizer.vocabulary_size()));
  bool marked =
      false;  // WordPiece: exactly what begins with ##, whose decoder also joins punctuation
  for (std::int64_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
    const auto one = static_cast<std::int32_t>(id);
    const bool mark = tokenizer.decode({&one, 1}, false).starts_with("##");
    if (mark && !marked) continues.assign(continues.size(), false);
    marked = marked || mark;
    std::vector<std::int32_t> behind = word;
    behind.push_back(one);
    continues[static_cast<std::size_t>(id)] =
        marked ? mark : !tokenizer.decode(behind, false).starts_with(alone + " ");
  }
  return continues;
}

MaskedLanguageTask::MaskedLanguageTask(const std::vector<TokenDataset>& files,
                                       std::int64_t max_length, const SpecialTokens& special,
                                       std::int64_t vocabulary, double share,
                                       std::vector<bool> continues, std::uint64_t seed, Loss loss)
    : files_(files),
      content_(max_length - special.single.specials()),
      form_(special.single),
      mask_(special.mask),
      vocabulary_(vocabulary),
      share_(share),
      continues_(std::move(continues)),
      seed_(seed),
      loss_(std::move(loss)) {
  if (content_ < 1)
    throw usage_error("--train.max-length {} leaves no room beside {} special tokens", max_length,
                      special.single.specials());
  for (const TokenDataset& file : files_) {
    first_document_.push_back(first_document_.back() + file.size());
    for (std::int64_t d = 0; d < file.size(); ++d)
      first_piece_.push_back(first_piece_.back() + (file.length(d) + content_ - 1) / content_);
  }
  std::int64_t document = 0;
  for (std::int64_t piece = 0; piece < size(); piece += landmark_pieces) {
    while (pieces(document).last <= piece) ++document;
    landmarks_.push_back(document);
  }
  landmarks_.push_back(documents() - 1);
}

MaskedLanguageTask::Place MaskedLanguageTask::place_of(std::int64_t item) const {
  // Between two landmarks: a search in few cache lines instead of over all documents.
  const auto landmark = static_cast<std::size_t>(item / landmark_pieces);
  const auto behind = std::upper_bound(first_piece_.begin() + landmarks_[landmark],
                                       first_piece_.begin() + landmarks_[landmark + 1] + 1, item);
  const std::int64_t document = behind - first_piece_.begin() - 1,
                     piece = item - first_piece_[static_cast<std::size_t>(document)];
  const auto after = std::ranges::upper_bound(first_document_, document);
  const auto file = static_cast<std::size_t>(after - first_document_.begin() - 1);
  return {&files_[file], document - first_document_[file], piece};
}

std::span<const std::int32_t> MaskedLanguageTask::tokens(std::int64_t item) const {
  const Place place = place_of(item);
  const auto all = place.file->tokens(place.document);
  const auto begin = static_cast<std::size_t>(place.piece * content_);
  return all.subspan(begin, std::min(static_cast<std::size_t>(content_), all.size() - begin));
}

std::int64_t MaskedLanguageTask::cost(std::int64_t item) const {
  return std::ssize(tokens(item)) + form_.specials();
}

PackedIds MaskedLanguageTask::packed(std::span<const std::int64_t> items) const {
  PackedIds batch;
  batch.reserve(std::ssize(items) * (content_ + form_.specials()), std::ssize(items));
  for (const std::int64_t item : items) {
    const auto own = tokens(item);
    const auto strange = [&](std::int32_t id) { return id < 0 || id >= vocabulary_; };
    if (std::ranges::any_of(own, strange)) {
      const Place place = place_of(item);
      (void)place.file->sound_tokens(place.document);  // names it
      throw internal_error("a token is none of the model's {}", vocabulary_);
    }
    batch.add(item, own, form_);
  }
  return batch;
}

MaskedPlaces MaskedLanguageTask::mask(PackedIds& batch, std::int64_t step) const {
  MaskedPlaces masked;
  std::vector<std::pair<std::int64_t, std::int64_t>> words;  // first place, tokens
  for (std::int64_t b = 0; b < batch.size(); ++b) {
    const std::int64_t first =
                           batch.offsets[static_cast<std::size_t>(b)] + std::ssize(form_.before),
                       count = batch.length(b) - form_.specials();
    words.clear();
    for (std::int64_t place = first; place < first + count; ++place) {
      const auto id = static_cast<std::size_t>(batch.token_ids[static_cast<std::size_t>(place)]);
      if (!continues_.empty() && continues_[id] && !words.empty())
        ++words.back().second;
      else
        words.emplace_back(place, 1);
    }
    RandomStream random(micro_batch_seed(~seed_, step, 0),  // not the one of dropout
                        static_cast<std::uint64_t>(batch.documents[static_cast<std::size_t>(b)]));
    std::int64_t wanted =
        std::max<std::int64_t>(1, std::llround(share_ * static_cast<double>(count)));
    for (std::size_t i = 0, of_item = masked.places.size(); i < words.size() && wanted > 0; ++i) {
      std::swap(words[i], words[i + random.below(words.size() - i)]);
      const auto [place, tokens] = words[i];
      const bool last_chance = masked.places.size() == of_item && i + 1 == words.size();
      if (tokens > wanted && !last_chance) continue;
      wanted -= tokens;
      for (std::int64_t p = place; p < place + tokens; ++p) {
        std::int32_t& id = batch.token_ids[static_cast<std::size_t>(p)];
        masked.places.push_back(p), masked.targets.push_back(id);
        if (const double draw = random.uniform(); draw < .8)
          id = mask_;
        else if (draw < .9)
          id = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary_)));
      }
    }
  }
  return masked;
}

std::any MaskedLanguageTask::load(std::span<const std::int64_t> items,
                                  std::optional<std::int64_t> step) const {
  MaskedBatch batch{packed(items), {}};
  batch.masked = mask(batch.ids, step.value_or(-1));
  return batch;
}

LossSum MaskedLanguageTask::loss(std::span<const std::int64_t>, DropoutSeed seed) {
  const auto& [ids, masked] = *batch_;
  return {loss_(ids, masked, seed), static_cast<double>(masked.places.size())};
}

}  // namespace gpuhpc

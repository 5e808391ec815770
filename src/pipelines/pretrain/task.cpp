#include "gpuhpc/pipelines/pretrain/task.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/train/sampler.hpp"

namespace gpuhpc {

MaskedLanguageTask::MaskedLanguageTask(const std::vector<TokenDataset>& files,
                                       std::int64_t max_length, const SpecialTokens& special,
                                       std::int64_t vocabulary, double share, std::uint64_t seed,
                                       Loss loss)
    : files_(files),
      content_(max_length - special.single.specials()),
      form_(special.single),
      mask_(special.mask),
      vocabulary_(vocabulary),
      share_(share),
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
}

std::span<const std::int32_t> MaskedLanguageTask::tokens(std::int64_t item) const {
  const auto behind = std::ranges::upper_bound(first_piece_, item);
  const std::int64_t document = behind - first_piece_.begin() - 1,
                     piece = item - first_piece_[static_cast<std::size_t>(document)];
  const auto after = std::ranges::upper_bound(first_document_, document);
  const auto file = static_cast<std::size_t>(after - first_document_.begin() - 1);
  const auto all = files_[file].tokens(document - first_document_[file]);
  const auto begin = static_cast<std::size_t>(piece * content_);
  return all.subspan(begin, std::min(static_cast<std::size_t>(content_), all.size() - begin));
}

std::int64_t MaskedLanguageTask::cost(std::int64_t item) const {
  return std::ssize(tokens(item)) + form_.specials();
}

PackedIds MaskedLanguageTask::packed(std::span<const std::int64_t> items) const {
  PackedIds batch;
  for (const std::int64_t item : items) batch.add(item, tokens(item), form_);
  return batch;
}

MaskedPlaces MaskedLanguageTask::mask(PackedIds& batch, std::int64_t step) const {
  MaskedPlaces masked;
  std::vector<std::int64_t> order;
  for (std::int64_t b = 0; b < batch.size(); ++b) {
    const std::int64_t first =
                           batch.offsets[static_cast<std::size_t>(b)] + std::ssize(form_.before),
                       count = batch.length(b) - form_.specials();
    RandomStream random(micro_batch_seed(~seed_, step, 0),  // not the one of dropout

                        static_cast<std::uint64_t>(batch.documents[static_cast<std::size_t>(b)]));
    order.resize(static_cast<std::size_t>(count));
    std::iota(order.begin(), order.end(), first);
    const auto wanted =
        std::max<std::int64_t>(1, std::llround(share_ * static_cast<double>(count)));
    for (std::int64_t i = 0; i < wanted; ++i) {
      const auto other =
          i + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(count - i)));
      std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(other)]);
      const std::int64_t place = order[static_cast<std::size_t>(i)];
      std::int32_t& id = batch.token_ids[static_cast<std::size_t>(place)];
      masked.places.push_back(place), masked.targets.push_back(id);
      if (const double draw = random.uniform(); draw < .8)
        id = mask_;
      else if (draw < .9)
        id = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary_)));
    }
  }
  return masked;
}

LossSum MaskedLanguageTask::loss(std::span<const std::int64_t>, DropoutSeed seed) {
  PackedIds batch = packed_;
  const MaskedPlaces masked = mask(batch, seed ? step_ : -1);
  return {loss_(batch, masked, seed), static_cast<double>(masked.places.size())};
}

}  // namespace gpuhpc

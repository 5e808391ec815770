#pragma once
// Masked-language modelling on pieces of texts. An item is a piece: as many tokens as the length
// leaves beside the special ones; no attention crosses from one to another, nothing is padded.
#include <functional>
#include <vector>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/train/task.hpp"

namespace gpuhpc {

// What has to be found: `places` in the packed ids, `targets` what stood there. Both (M).
struct MaskedPlaces {
  std::vector<std::int64_t> places, targets;
};

// Which ids go on with the word before them: those that Hugging Face's decoder joins to it.
std::vector<bool> continuing_ids(const Tokenizer& tokenizer);

class MaskedLanguageTask : public Task {
 public:
  // The sum of -log p(target) over the places, with its graph.
  using Loss = std::function<at::Tensor(const PackedIds&, const MaskedPlaces&, DropoutSeed)>;
  // `special`: of the tokenizer, which must have a mask; `vocabulary`: ids are below it.
  // `continues` (vocabulary): the ids that go on with a word, all pieces of which are masked then;
  // empty: each token is a word.
  MaskedLanguageTask(const std::vector<TokenDataset>& files, std::int64_t max_length,
                     const SpecialTokens& special, std::int64_t vocabulary, double share,
                     std::vector<bool> continues, std::uint64_t seed, Loss loss);
  std::int64_t size() const override { return first_piece_.back(); }
  std::int64_t cost(std::int64_t item) const override;
  std::any load(std::span<const std::int64_t> items,
                std::optional<std::int64_t> step) const override;
  void take(const std::any& loaded) override { batch_ = std::any_cast<MaskedBatch>(&loaded); }
  PackedIds packed(std::span<const std::int64_t> items) const;  // as they are, nothing masked
  LossSum loss(std::span<const std::int64_t> items, DropoutSeed seed) override;
  bool has_perplexity() const override { return true; }
  void show(std::function<Json()> samples) { samples_ = std::move(samples); }
  Json samples() override { return samples_ ? samples_() : Json(); }
  // The pieces of a document; documents are numbered over all files.
  Range pieces(std::int64_t document) const {
    const auto d = static_cast<std::size_t>(document);
    return {first_piece_[d], first_piece_[d + 1]};
  }
  // The pieces of some files.
  Range pieces_of(Range files) const {
    const auto piece = [&](std::int64_t file) {
      const std::int64_t document = first_document_[static_cast<std::size_t>(file)];
      return first_piece_[static_cast<std::size_t>(document)];
    };
    return {piece(files.first), piece(files.last)};
  }
  std::int64_t documents() const { return std::ssize(first_piece_) - 1; }

  // Chooses max(1, round(share * n)) of an item's n tokens and masks them (whole words: as many of
  // them as fit into that number, at least one word): 8 of 10 become the mask,
  // 1 any token, 1 stays (Devlin et al. 2019, section 3.1). A function of seed, step and item: a
  // new choice in each epoch, whoever computes it. Validation has the one of step -1.
  MaskedPlaces mask(PackedIds& batch, std::int64_t step) const;

 private:
  struct Place {
    const TokenDataset* file;
    std::int64_t document, piece;  // in the file, in the document
  };
  Place place_of(std::int64_t item) const;
  std::span<const std::int32_t> tokens(std::int64_t item) const;  // without specials
  const std::vector<TokenDataset>& files_;
  static constexpr std::int64_t landmark_pieces = 64;
  std::vector<std::int64_t> first_document_{0}, first_piece_{0};
  std::vector<std::int64_t> landmarks_;  // the document of each 64th piece, and the last one
  std::int64_t content_;                 // tokens of a piece at most
  TextTemplate form_;
  std::int32_t mask_;
  std::int64_t vocabulary_;
  double share_;
  std::vector<bool> continues_;
  std::uint64_t seed_;
  Loss loss_;
  std::function<Json()> samples_;
  struct MaskedBatch {
    PackedIds ids;
    MaskedPlaces masked;
  };
  const MaskedBatch* batch_ = nullptr;
};

}  // namespace gpuhpc

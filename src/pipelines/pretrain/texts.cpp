#include "gpuhpc/pipelines/pretrain/texts.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/progress.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/text/tokenizer.hpp"
#include "gpuhpc/train/sampler.hpp"

namespace gpuhpc {
namespace {

const SpecialTokens& checked(const Tokenizer& tokenizer, const std::filesystem::path& folder) {
  if (tokenizer.special().mask < 0)
    throw input_error("{}: its tokenizer has no mask token; take a model of the BERT family",
                      folder.string());
  return tokenizer.special();
}

}  // namespace

std::uint64_t seed_of(const FineTuning& training) {
  return static_cast<std::uint64_t>(training.trainer.train.seed);
}

LearntTexts::LearntTexts(const Pretraining& p, const std::filesystem::path& tokenizer_folder,
                         std::int64_t longest, MaskedLanguageTask::Loss loss)
    : tokenizer(load_tokenizer(tokenizer_folder)),
      files(open_datasets(p.texts.tokens)),
      length(std::min(p.training.encoder.max_length, longest)),
      task(files, length, checked(*tokenizer, tokenizer_folder), tokenizer->vocabulary_size(),
           p.masking.share,
           p.masking.whole_words ? continuing_ids(*tokenizer) : std::vector<bool>{},
           seed_of(p.training), std::move(loss)),
      course(p.training.trainer.train.course()) {
  for (const TokenDataset& file : files) file.check_tokenizer(*tokenizer);
  const HeldOut documents = hold_out(task.documents(), course.validation, seed_of(p.training));
  require_held_out(p.training.trainer.train, documents.learnt.size(), documents.validation.size());
  for (const std::int64_t document : documents.validation)
    for (std::int64_t piece = task.pieces(document).first; piece < task.pieces(document).last;
         ++piece)
      course.validation_items.push_back(piece);
  course.validation = 0;
  for (const MixedCorpora::Corpus& corpus : p.mixed.corpora)
    course.corpora.push_back({task.pieces_of(corpus.files), corpus.weight, corpus.name});
}

DataPath measure_data_path(const Pretraining& p, const std::filesystem::path& tokenizer,
                           Communicator& comm, const Log& log) {
  std::optional<LearntTexts> texts;
  run_collectively(comm, [&] {
    texts.emplace(p, tokenizer, p.training.encoder.max_length, MaskedLanguageTask::Loss());
  });
  const TrainOptions& train = p.training.trainer.train;
  Sampler sampler(texts->task, train, texts->course, train.global_batch(comm.size()));
  Progress progress(log, "reading", sampler.total_steps(), "batches", comm.is_root());
  comm.barrier();
  const auto start = std::chrono::steady_clock::now();
  DataPath path;
  for (; path.batches < sampler.total_steps(); ++path.batches) {
    const std::vector<std::int64_t> batch = sampler.next();
    const std::int64_t count = piece_count(std::ssize(batch), train.micro_batch, comm.size());
    const auto pieces = cut_micro_batches(texts->task, batch, train.micro_batch, comm.size());
    const Range mine = micro_batches_of_rank(count, comm.rank(), comm.size());
    for (std::int64_t i = mine.first; i < mine.last; ++i) {
      PackedIds packed = texts->task.packed(pieces[static_cast<std::size_t>(i)]);
      path.masked += std::ssize(texts->task.mask(packed, path.batches).places);
      path.tokens += std::ssize(packed.token_ids);
    }
    progress.advance(1);
  }
  path.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  progress.finish();
  path.tokens = comm.all_reduce_value(path.tokens);
  path.masked = comm.all_reduce_value(path.masked);
  path.seconds = comm.all_reduce_value(path.seconds, Reduce::max);
  return path;
}

}  // namespace gpuhpc

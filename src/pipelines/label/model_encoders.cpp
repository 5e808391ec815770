#include "gpuhpc/pipelines/label/model_encoders.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

fs::path vectors_of(const fs::path& folder, std::size_t encoder) {
  return folder / fmt::format("encoder-{}.h5", encoder + 1);
}

}  // namespace

ModelEncoders::ModelEncoders(const fs::path& model, const ClassifierSettings& settings,
                             const InferOptions& infer, const DeviceChoice& device,
                             Communicator& comm, Log log)
    : model_(model) {
  const std::vector<fs::path> folders = settings.encoders(model);
  for (const fs::path& folder : folders)
    encoders_.push_back(std::make_unique<TextEncoder>(folder, infer, device, comm, log));
  run_collectively(comm, [&] {
    if (encoders_.back()->tokenizer().fingerprint() != tokenizer().fingerprint())
      throw input_error("{}: its tokenizer is not that of {}; train the model again",
                        folders.back().string(), folders.front().string());
  });
}

const Tokenizer& ModelEncoders::tokenizer() const { return encoders_.front()->tokenizer(); }

void ModelEncoders::check_width(std::int64_t columns) const {
  for (const auto& encoder : encoders_) encoder->check_width(columns, model_ / "gpuhpc");
}

std::vector<Matrix> ModelEncoders::encode(const DocumentChunk& documents,
                                          Communicator& comm) const {
  std::vector<Matrix> vectors;
  for (const auto& encoder : encoders_) {
    const Matrix all = encoder->encode(documents.tokens, comm);
    vectors.emplace_back(all.view().slice(documents.own.first, documents.own.size()));
  }
  return vectors;
}

void ModelEncoders::encode(const TokenDataset& documents, const fs::path& folder,
                           Communicator& comm, const std::function<void()>& after_batch) const {
  for (std::size_t i = 0; i < encoders_.size(); ++i)
    encoders_[i]->encode(documents, vectors_of(folder, i), comm, after_batch);
}

KeptVectors::KeptVectors(const fs::path& folder, std::size_t encoders, std::int64_t documents,
                         std::int64_t width) {
  for (std::size_t i = 0; i < encoders; ++i) {
    files_.emplace_back(vectors_of(folder, i));
    files_.back().file().expect("values", {documents, width});
  }
}

std::vector<Matrix> KeptVectors::of(const DocumentChunk& documents) const {
  std::vector<Matrix> vectors;
  const std::int64_t first = documents.first + documents.own.first;
  for (const MappedMatrix& file : files_)
    vectors.emplace_back(file.view().slice(first, documents.own.size()));
  return vectors;
}

}  // namespace gpuhpc

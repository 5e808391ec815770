#pragma once
// The encoders of a finished model/ folder, and the vectors that its classifier takes.
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/pipelines/document_chunks.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"
#include "gpuhpc/pipelines/text_encoder.hpp"

namespace gpuhpc {

class ModelEncoders {
 public:
  // Collective. `settings`: of open_model().
  ModelEncoders(const std::filesystem::path& model, const ClassifierSettings& settings,
                const InferOptions& infer, const DeviceChoice& device, Communicator& comm, Log log);
  const Tokenizer& tokenizer() const;  // of all of them
  // input_error unless they give as many values as the classifier takes.
  void check_width(std::int64_t columns) const;
  // Of this rank's rows, as Classifier::score() takes them. Collective.
  std::vector<Matrix> encode(const DocumentChunk& documents, Communicator& comm) const;
  // Of all documents to files in a folder, for KeptVectors. Collective; `after_batch` may throw, on
  // any rank: then all ranks do.
  void encode(const TokenDataset& documents, const std::filesystem::path& folder,
              Communicator& comm, const std::function<void()>& after_batch) const;

 private:
  std::filesystem::path model_;
  std::vector<std::unique_ptr<TextEncoder>> encoders_;  // in the order of settings.encoders()
};

// What ModelEncoders left in a folder.
class KeptVectors {
 public:
  KeptVectors(const std::filesystem::path& folder, std::size_t encoders, std::int64_t documents,
              std::int64_t width);
  // Of this rank's rows, as Classifier::score() takes them.
  std::vector<Matrix> of(const DocumentChunk& documents) const;

 private:
  std::vector<MappedMatrix> files_;
};

}  // namespace gpuhpc

#pragma once
// What `pretrain` reads from outside, and what its stages leave for each other.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gpuhpc/base/block.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/data/token_shards.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/stage.hpp"

namespace gpuhpc {

struct PretrainInputs {
  std::vector<CorpusScan> files;          // by name
  std::vector<std::string> corpora = {};  // of each file: the file or folder of --input.dir it is
  std::int64_t documents() const;
  std::vector<std::string> settings() const;
};
// All files of the folder and of those in it (or the one file): .txt and names without an ending
// hold a text per line, others what --input.format says. Reads them whole and throws the first
// error. Collective.
PretrainInputs find_texts(const std::filesystem::path& folder, const CorpusOptions& format,
                          Communicator& comm);

// Corpora that are learnt from in turn, each batch from one of them; none: all as one.
struct MixedCorpora {
  struct Corpus {
    std::string name;
    double weight = 1;
    Range files;  // of PretrainInputs
  };
  std::vector<Corpus> corpora;
  std::vector<std::string> settings() const;
};
// `weights` as CorpusWeightOptions has them. usage_error for a name that is none of a corpus.
MixedCorpora mix_corpora(const PretrainInputs& inputs, const std::string& weights);

struct VocabularyFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path tokenizer = output("tokenizer");  // a folder, as load_tokenizer reads it
};
// The tokenizer of the texts: one learnt here, or that of a folder of the user's.
struct TokenizerSource {
  std::optional<VocabularyFiles> made;
  ModelFiles given;
  const std::filesystem::path& folder() const { return made ? made->tokenizer : given.path; }
};

struct TextTokenFiles : StageFiles {
  using StageFiles::StageFiles;
  std::filesystem::path tokens = output("tokens");  // a folder of shards for each file: 0, 1, ..
};

}  // namespace gpuhpc

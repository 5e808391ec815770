#pragma once
// The input folder of the labelling job, looked through before anything is computed.
#include <filesystem>
#include <string>
#include <vector>

#include "gpuhpc/comm/communicator.hpp"
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/options.hpp"

namespace gpuhpc {

struct LabelInputs {
  TaxonomyFiles taxonomy;
  ClassFiles classes;
  ScannedCorpus train, test;
  LabelsFile labels;
  std::vector<std::string> labelled;  // on the root: the documents of `labels`
  std::filesystem::path gold;         // of the test texts, or empty; only `evaluate` opens it
  std::string description;            // one sentence for the log
  std::vector<std::string> warnings;
};

// Reads every file whole and throws its first error: taxonomy, class files, both corpora.
// Collective.
// `labels_text`: the run goes on to its last stage, which needs test texts.
LabelInputs find_inputs(const InputOptions& input, const CorpusOptions& format, bool labels_text,
                        Communicator& comm);

}  // namespace gpuhpc

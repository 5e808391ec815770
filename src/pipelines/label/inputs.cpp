#include "gpuhpc/pipelines/label/inputs.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/data/class_files.hpp"

namespace gpuhpc {
namespace {

void check_classes(const TaxonomyFiles& taxonomy, const ClassFiles& classes) {
  const Taxonomy names = taxonomy.load();
  if (!classes.descriptions.empty()) read_class_descriptions(classes.descriptions, names.names());
  if (!classes.keywords.empty()) read_class_terms(classes.keywords, names.names());
  if (!classes.generated_docs.empty())
    read_generated_documents(classes.generated_docs, classes.generated_labels, names.names());
}

void check_corpus(const CorpusFile& corpus, const CorpusOptions& format) {
  CorpusReader reader(corpus.path, format);
  for (Document document; reader.next(document);) {
  }
}

}  // namespace

LabelInputs find_inputs(const InputOptions& input, const CorpusOptions& format,
                        Communicator& comm) {
  InputLayout layout;
  together(comm, [&] { layout = resolve_layout(input.dir); });
  LabelInputs inputs{
      {layout.labels, layout.hierarchy},
      {layout.descriptions, layout.keywords, layout.generated_docs, layout.generated_labels},
      {layout.train_corpus, layout.test_serves_as_train},
      {layout.test_corpus},
      layout.test_gold,
      describe(layout),
      {}};
  if (layout.test_serves_as_train)
    inputs.warnings.push_back(
        "No training corpus was given: the test texts were used in its place, without labels.");
  on_root(comm, [&] {
    check_classes(inputs.taxonomy, inputs.classes);
    check_corpus(inputs.train, format);
    if (!layout.test_serves_as_train) check_corpus(inputs.test, format);
  });
  return inputs;
}

}  // namespace gpuhpc

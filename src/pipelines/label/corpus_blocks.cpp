#include "gpuhpc/pipelines/label/corpus_blocks.hpp"

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {

void for_own_blocks(const std::filesystem::path& corpus, const CorpusOptions& options,
                    std::int64_t documents, const Communicator& comm,
                    const std::function<void(Range, std::span<const std::string>)>& work) {
  const Range own = own_documents(documents, comm);
  CorpusOptions once = options;
  once.check_duplicates = false;  // the encoding phase has looked at every id
  CorpusReader reader(corpus, once);
  Document document;
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < own.last; ++i) {
    if (!reader.next(document))
      throw input_error("{}: ends after {} documents; it has changed since the encoding phase",
                        corpus.string(), i);
    if (i < own.first) continue;
    texts.push_back(std::move(document.text));
    if (std::ssize(texts) == document_block || i + 1 == own.last) {
      work({i + 1 - std::ssize(texts), i + 1}, texts);
      texts.clear();
    }
  }
}

}  // namespace gpuhpc

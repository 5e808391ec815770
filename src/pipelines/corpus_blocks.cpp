#include "gpuhpc/pipelines/corpus_blocks.hpp"

namespace gpuhpc {

std::vector<std::string> texts_of(const TokenDataset& documents, Range rows) {
  std::vector<std::string> texts;
  for (std::int64_t i = rows.first; i < rows.last; ++i) texts.emplace_back(documents.text(i));
  return texts;
}

void for_own_blocks(const TokenDataset& documents, const Communicator& comm,
                    const std::function<void(Range, std::span<const std::string>)>& work) {
  const Range own = own_documents(documents.size(), comm);
  for (std::int64_t first = own.first; first < own.last; first += document_block) {
    const Range rows{first, std::min(own.last, first + document_block)};
    work(rows, texts_of(documents, rows));
  }
}

}  // namespace gpuhpc

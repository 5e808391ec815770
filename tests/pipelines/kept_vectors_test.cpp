#include <gmock/gmock.h>

#include "../data/word_tokenizer.hpp"
#include "../io/expect_error.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/pipelines/label/model_encoders.hpp"

namespace gpuhpc {
namespace {

// More documents than a chunk has: document i is the text "word<i>", its vectors are (i, .3) by one
// encoder and (-i, .7) by the other.
class KeptVectorsOfDocuments : public ::testing::Test {
 protected:
  KeptVectorsOfDocuments() {
    std::string text;
    Matrix first(count_, 2), second(count_, 2);
    for (std::int64_t i = 0; i < count_; ++i) {
      text += fmt::format("{}\tword{}\n", i, i);
      const auto number = static_cast<float>(i);
      first.row(i)[0] = number, first.row(i)[1] = .3F;
      second.row(i)[0] = -number, second.row(i)[1] = .7F;
    }
    write_unsynced(folder_ / "corpus.txt", text);
    write_matrix(folder_ / "encoder-1.h5", first.view());
    write_matrix(folder_ / "encoder-2.h5", second.view());
  }
  // Every row of the chunks is that of its document.
  void expect_rows(const ChunkSource& source) const {
    const KeptVectors kept(folder_.path(), 2, count_, 2);
    std::int64_t documents = 0, chunks = 0;
    for (DocumentChunk chunk; source(chunk); ++chunks) {
      const std::vector<Matrix> vectors = kept.of(chunk);
      ASSERT_EQ(vectors.size(), 2u);
      ASSERT_EQ(vectors[0].rows, chunk.own.size());
      for (std::int64_t i = 0; i < chunk.own.size(); ++i, ++documents) {
        const auto place = static_cast<std::size_t>(i);
        const float number = std::stof(chunk.texts[place].substr(4));
        EXPECT_THAT(vectors[0].row(i), testing::ElementsAre(number, .3F));
        EXPECT_THAT(vectors[1].row(i), testing::ElementsAre(-number, .7F));
      }
    }
    EXPECT_EQ(documents, count_);
    EXPECT_EQ(chunks, 2);
  }

  const std::int64_t count_ = chunk_documents + 37;
  ScratchFolder folder_;
  std::unique_ptr<Communicator> comm_ = make_single_communicator();
};

TEST_F(KeptVectorsOfDocuments, AreThoseOfTheChunksRows) {
  const WordTokenizer tokenizer;
  prepare_shards(scan_corpus(folder_ / "corpus.txt", {}, *comm_), tokenizer, folder_ / "shards", {},
                 Texts::keep, *comm_, 1);
  const TokenDataset shards(folder_ / "shards");
  expect_rows(chunks_of(shards, *comm_));
  expect_rows(chunks_of(folder_ / "corpus.txt", {}, tokenizer, *comm_, 1, {}));
}

TEST_F(KeptVectorsOfDocuments, OfOtherDocumentsOrAnotherEncoderAreRefused) {
  const auto refused = [&](std::int64_t documents, std::int64_t width) {
    return error_of(ExitCode::bad_data, [&] { KeptVectors(folder_.path(), 2, documents, width); });
  };
  EXPECT_THAT(refused(count_ - 1, 2), testing::HasSubstr("encoder-1.h5"));
  EXPECT_THAT(refused(count_, 3), testing::HasSubstr("encoder-1.h5"));
}

}  // namespace
}  // namespace gpuhpc

#include "gpuhpc/infer/encode.hpp"
#include "gpuhpc/infer/runner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/thread.hpp"
#include "gpuhpc/nn/folder.hpp"

namespace gpuhpc {
namespace {

std::string model_folder() { return std::string(GPUHPC_MODELS) + "/all-MiniLM-L6-v2"; }
const LoadedEncoder& model() {
  static const LoadedEncoder loaded = load_encoder(model_folder());
  return loaded;
}
const Tokenizer& tokenizer() {
  static const auto loaded = load_tokenizer(model_folder());
  return *loaded;
}

std::vector<std::vector<std::int32_t>> documents(std::initializer_list<std::int64_t> lengths) {
  std::mt19937 random(11);
  std::vector<std::vector<std::int32_t>> all;
  for (const std::int64_t length : lengths) {
    auto& ids = all.emplace_back();
    for (std::int64_t i = 0; i < length; ++i)
      ids.push_back(static_cast<std::int32_t>(1000 + random() % 20000));
  }
  return all;
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

TEST(CutBatches, NeighboursUpToTheBudget) {
  const std::vector<std::int64_t> lengths{50, 50, 10, 300, 5, 5, 90};
  const auto batches = cut_batches(lengths, 100, 384, 1000);
  ASSERT_EQ(batches.size(), 4U);
  EXPECT_EQ(batches[0].last, 2);
  EXPECT_EQ(batches[1].first, 2);
  EXPECT_EQ(batches[1].last, 3);
  EXPECT_EQ(batches[2].last, 4);  // the long one alone
  EXPECT_EQ(batches[3].last, 7);
  EXPECT_GT(batches[2].work, 300);
  EXPECT_TRUE(cut_batches({}, 100, 384, 1000).empty());
}

TEST(CutBatches, NoMoreItemsThanAsked) {
  const auto batches = cut_batches(std::vector<std::int64_t>{9, 9, 9, 9, 99}, 100, 384, 3);
  ASSERT_EQ(batches.size(), 3U);
  EXPECT_EQ(batches[0].last, 3);
  EXPECT_EQ(batches[1].last, 4);  // the tokens of the next are too many
}

// A GPU's way, on the processor: no more than the budget at once, however many windows a document
// has. Its row of a sequence is the first token.
TEST(BatchRunner, CutsTheWindowsOfALongDocumentIntoPiecesOfTheBudget) {
  InferPlan plan({.precision = "fp32", .token_budget = 10}, {});
  plan.cuda = true;
  std::vector<std::int64_t> at_once;
  const BatchRunner runner(
      plan, {.hidden_size = 4, .columns = 1, .on_device = [&](const PackedTokens& batch) {
               at_once.push_back(batch.tokens());
               return batch.token_ids
                   .index_select(0, batch.cumulative.narrow(0, 0, batch.documents()))
                   .unsqueeze(1);
             }});
  const auto pack = [](const ItemBatch& batch) {
    PackedIds packed;
    for (std::int64_t d = batch.first; d < batch.last; ++d)
      for (std::int32_t window = 0; window < (d == 0 ? 7 : 1); ++window)
        packed.add(d, std::vector<std::int32_t>{10 + window, 1, 2, 3}, {});
    return packed;
  };
  std::vector<float> rows;
  runner.run(runner.cut(std::vector<std::int64_t>{28, 4}), pack,
             [&](const ItemBatch&, const PackedIds&, const Matrix& found) {
               rows.insert(rows.end(), found.values.begin(), found.values.end());
             });
  EXPECT_THAT(at_once, testing::ElementsAre(8, 8, 8, 4, 4));
  EXPECT_THAT(rows, testing::ElementsAre(10, 11, 12, 13, 14, 15, 16, 10));
}

TEST(ShareOfRank, EveryBatchOnceAndBalanced) {
  std::mt19937 random(1);
  for (const std::int64_t count : {0, 1, 3, 40, 1000}) {
    std::vector<ItemBatch> batches;
    double total = 0, largest = 0;
    for (std::int64_t b = 0; b < count; ++b) {
      batches.push_back({b, b + 1, 1.0 + static_cast<double>(random() % 100)});
      total += batches.back().work;
      largest = std::max(largest, batches.back().work);
    }
    for (const int size : {1, 2, 3, 7}) {
      std::int64_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        double work = 0;
        for (const ItemBatch& batch : share_of_rank(batches, rank, size)) {
          EXPECT_EQ(batch.first, next);
          next = batch.last;
          work += batch.work;
        }
        EXPECT_LE(work, total / size + largest);
      }
      EXPECT_EQ(next, count);
    }
  }
}

TEST(DocumentEncoder, ADocumentWhoseVectorIsNotFiniteIsNamed) {
  const LoadedEncoder damaged = load_encoder(model_folder());
  for (const auto& [name, value] : damaged.encoder.parameters())
    if (name == "embeddings.word_embeddings.weight") value.detach()[1017][5] = NAN;
  const std::vector<std::vector<std::int32_t>> all{{1016, 1018}, {1016}, {1018, 1017}};
  const DocumentEncoder encoder(damaged, tokenizer(), {}, {false, 0, 1});
  const auto names = [](std::int64_t i) { return fmt::format("text {}", i); };
  EXPECT_EQ(encoder.encode(token_source(all, names), {0, 2}).rows, 2);
  try {
    encoder.encode(token_source(all, names));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::diverged);
    EXPECT_NE(std::string(error.what()).find("text 2: the encoder gives"), std::string::npos)
        << error.what();
  }
}

TEST(DocumentEncoder, ThreadsAndBatchSizesDoNotMatter) {
  const auto all = documents({5, 100, 0, 31, 254, 7, 7, 64, 80, 12, 3});
  InferOptions options;
  const Matrix expected =
      DocumentEncoder(model(), tokenizer(), options, {false, 0, 1}).encode(token_source(all));
  EXPECT_NEAR(dot(expected.row(2), expected.row(2)), 1,
              1e-5);  // an empty document still has a vector
  for (const std::int64_t budget : {1, 128, 100000}) {
    options.token_budget = budget;
    const DocumentEncoder encoder(model(), tokenizer(), options, {false, 0, 3});
    EXPECT_EQ(encoder.encode(token_source(all)).values, expected.values) << budget;
    const Matrix part = encoder.encode(token_source(all), {3, 6});
    EXPECT_TRUE(std::equal(part.values.begin(), part.values.end(), expected.row(3).data()));
  }
}

TEST(DocumentEncoder, LongDocumentsAreCutOrAveraged) {
  auto all = documents({70});
  all.push_back({all[0].begin(), all[0].begin() + 30});
  all.push_back({all[0].begin() + 30, all[0].begin() + 60});
  all.push_back({all[0].begin() + 60, all[0].end()});
  InferOptions options;
  options.precision = "fp32";
  options.max_length = 32;
  const Matrix cut =
      DocumentEncoder(model(), tokenizer(), options, {false, 0, 1}).encode(token_source(all));
  EXPECT_TRUE(std::equal(cut.row(0).begin(), cut.row(0).end(), cut.row(1).begin()));
  options.long_documents = "mean";
  const Matrix mean =
      DocumentEncoder(model(), tokenizer(), options, {false, 0, 1}).encode(token_source(all));
  EXPECT_NEAR(dot(mean.row(0), mean.row(0)), 1, 1e-5);
  // The mean of the windows is nearer to each of them than they are to each other, and short
  // documents are as before.
  EXPECT_GT(dot(mean.row(0), mean.row(2)), dot(mean.row(1), mean.row(2)));
  EXPECT_TRUE(std::equal(mean.row(1).begin(), mean.row(1).end(), cut.row(1).begin()));
}

TEST(DocumentEncoder, SaysWhatIsWrongWithItsOptions) {
  InferOptions options;
  options.max_length = 1000;
  EXPECT_THROW(DocumentEncoder(model(), tokenizer(), options, {false, 0, 1}), Error);
  options.max_length = 2;
  EXPECT_THROW(DocumentEncoder(model(), tokenizer(), options, {false, 0, 1}), Error);
}

TEST(DocumentEncoder, Bf16FallsBackWhereTheLevelHasNone) {
  InferOptions options;
  options.precision = "bf16";
  options.kernels = "generic";
  const DocumentEncoder encoder(model(), tokenizer(), options, {false, 0, 2});
  EXPECT_EQ(encoder.describe(), "fp32 on generic (which does not multiply bf16), 2 threads");
}

TEST(DocumentEncoder, AutoTakesBf16WhereAGpuHasItAndFp16Elsewhere) {
  InferOptions options;
  EXPECT_EQ(options.gpu_precision(true), "bf16");
  EXPECT_EQ(options.gpu_precision(false), "fp16");
  options.precision = "fp16";
  options.kernels = "generic";
  EXPECT_EQ(options.gpu_precision(true), "fp16");
  EXPECT_EQ(DocumentEncoder(model(), tokenizer(), options, {false, 0, 1}).describe(),
            "fp32 on generic (which does not multiply fp16), 1 thread");
}

TEST(DocumentEncoder, Bf16IsRefusedOnAGpuWithout) {
  InferOptions options;
  options.precision = "bf16";
  EXPECT_EQ(options.gpu_precision(true), "bf16");
  try {
    options.gpu_precision(false);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::configuration);
    EXPECT_THAT(error.what(), testing::HasSubstr("use --infer.precision fp16, or auto"));
  }
}

// As ranks of "auto" would on GPUs of two kinds.
TEST(DocumentEncoder, RanksOfTwoPrecisionsAreRefused) {
  std::vector<std::string> ends(3);
  run_thread_ranks(3, {}, [&](Communicator& comm) {
    InferOptions options;
    options.precision = comm.rank() == 1 ? "fp16" : "bf16";
    check_one_precision(comm, {{.precision = "fp16"}, {true, 0, 1}});
    try {
      check_one_precision(comm, {options, {true, 0, 1}});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::configuration);
      ends[static_cast<std::size_t>(comm.rank())] = error.what();
    }
  });
  for (const std::string& end : ends)
    EXPECT_THAT(end, testing::HasSubstr("is bf16 on rank 0 and fp16 on rank 1"));
}

TEST(DocumentEncoder, Tf32IsFp32WhereThereIsNoAmx) {
  InferOptions options;
  options.precision = "tf32";
  EXPECT_EQ(options.gpu_precision(true), "tf32");
  options.kernels = "generic";
  EXPECT_EQ(DocumentEncoder(model(), tokenizer(), options, {false, 0, 1}).describe(),
            "fp32 on generic, 1 thread");
  if (!kernels::supported(kernels::Isa::amx)) return;
  options.kernels = "amx";
  EXPECT_EQ(DocumentEncoder(model(), tokenizer(), options, {false, 0, 1}).describe(),
            "tf32 on amx, 1 thread");
}

TEST(DocumentEncoder, Int8IsRefusedWhereItIsNot) {
  InferOptions options;
  options.precision = "int8";
  const auto refusal = [](const auto& use) -> std::string {
    try {
      use();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::configuration);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal([&] { options.gpu_precision(true); }), testing::HasSubstr("processors"));
  options.kernels = "generic";
  EXPECT_THAT(refusal([&] {
                DocumentEncoder(model(), tokenizer(), options, {false, 0, 1});
              }),
              testing::HasSubstr("use --infer.precision fp32, or auto"));
  if (!kernels::supported(kernels::Isa::avx512_bf16)) return;
  options.kernels = "avx512-bf16";
  EXPECT_EQ(DocumentEncoder(model(), tokenizer(), options, {false, 0, 1}).describe(),
            "int8 on avx512-bf16, 1 thread");
}

}  // namespace
}  // namespace gpuhpc

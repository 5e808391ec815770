// T5 token by token, on the kernels of every level and by LibTorch, against transformers' logits
// and against T5::logits(), which sees whole texts at once.
#include <gpuhpc/nn/cpu_t5.hpp>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "fixture.hpp"
#include "gpuhpc/nn/t5_decoder.hpp"

namespace gpuhpc {
namespace {

using kernels::Isa;
using TokenList = std::vector<std::int32_t>;

PackedIds packed(std::vector<std::int32_t> ids, std::vector<std::int32_t> offsets) {
  return {std::move(ids), {}, std::move(offsets), {}};
}
std::vector<TokenList> lists(const SafeTensors& file, const std::string& name) {
  const TokenList ids = read_ints(file, name + "_ids"),
                  offsets = read_ints(file, name + "_offsets");
  std::vector<TokenList> all;
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i)
    all.emplace_back(ids.begin() + offsets[i], ids.begin() + offsets[i + 1]);
  return all;
}

// Of whole texts, without the start's id, the scores behind each of their tokens but the last, and
// behind the start.
at::Tensor whole_texts(const T5& model, const PackedIds& sources,
                       const std::vector<TokenList>& texts, std::int64_t each) {
  const at::NoGradGuard no_grad;
  std::vector<std::int32_t> inputs, offsets{0}, ids, source_offsets{0};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    inputs.push_back(model.config().start);
    inputs.insert(inputs.end(), texts[i].begin(), texts[i].end() - 1);
    offsets.push_back(static_cast<std::int32_t>(inputs.size()));
    const std::size_t source = i / static_cast<std::size_t>(each);
    ids.insert(ids.end(), sources.token_ids.begin() + sources.offsets[source],
               sources.token_ids.begin() + sources.offsets[source + 1]);
    source_offsets.push_back(static_cast<std::int32_t>(ids.size()));
  }
  const PackedTokens source = pack_tokens(ids, source_offsets, at::kCPU);
  return model.logits(pack_tokens(inputs, offsets, at::kCPU), model.encode(source), source);
}

double row_difference(CpuT5Texts::Scores scores, std::int64_t row, const at::Tensor& wanted) {
  double most = 0;
  for (std::int64_t v = 0; v < wanted.numel(); ++v)
    most = std::max(most, std::abs(static_cast<double>(scores.data[row * scores.stride + v]) -
                                   wanted.const_data_ptr<float>()[v]));
  return most;
}

class CpuT5Test : public ::testing::TestWithParam<Isa> {};

struct Difference {
  double largest, typical;  // by the largest score; roots of mean squares by each other
};
// Texts of different lengths; the second source comes two tokens after the others.
Difference difference_from_transformers(const std::string& name, CpuPrecision precision, Isa isa) {
  const SafeTensors expected(fixture_path(name + "_expected.safetensors"));
  const T5 model = load_t5(fixture_path(name)).model;
  const std::vector<TokenList> texts = lists(expected, "target");
  const TokenList ids = read_ints(expected, "source_ids"),
                  offsets = read_ints(expected, "source_offsets"),
                  places = read_ints(expected, "target_offsets");
  const at::Tensor wanted = read_floats(expected, "logits");
  const auto t5 = make_cpu_t5(model, precision, isa, 64, 17);
  const auto written = t5->make_texts(1);
  const auto sources = [&](std::initializer_list<std::size_t> which) {
    PackedIds some = packed({}, {0});
    for (const std::size_t b : which) {
      some.token_ids.insert(some.token_ids.end(), ids.begin() + offsets[b],
                            ids.begin() + offsets[b + 1]);
      some.offsets.push_back(static_cast<std::int32_t>(some.token_ids.size()));
    }
    return written->add(some);
  };
  std::vector<std::int64_t> numbers = sources({0, 2, 3});
  std::vector<std::size_t> documents{0, 2, 3}, lengths(texts.size());
  at::Tensor found = at::zeros_like(wanted);
  for (int step = 0; !documents.empty(); ++step) {
    std::vector<CpuT5Texts::Row> rows;
    for (std::size_t i = 0; i < documents.size(); ++i) {
      const std::size_t d = documents[i], length = lengths[d];
      rows.push_back({numbers[i], 0, length == 0 ? model.config().start : texts[d][length - 1]});
    }
    const CpuT5Texts::Scores scores = written->step(rows);
    for (std::size_t i = documents.size(); i-- > 0;) {
      const std::size_t d = documents[i];
      const std::int64_t row = places[d] + static_cast<std::int64_t>(lengths[d]);
      std::copy_n(scores.data + static_cast<std::int64_t>(i) * scores.stride, found.size(1),
                  found[row].data_ptr<float>());
      if (++lengths[d] < texts[d].size()) continue;
      written->remove(numbers[i]);
      documents.erase(documents.begin() + static_cast<std::ptrdiff_t>(i));
      numbers.erase(numbers.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (step == 1) documents.push_back(1), numbers.push_back(sources({1}).front());
  }
  EXPECT_EQ(lengths[1], texts[1].size());
  return {largest_difference(found, wanted) / wanted.abs().max().item<double>(),
          ((found - wanted).norm() / wanted.norm()).item<double>()};
}

TEST_P(CpuT5Test, LogitsAreThoseOfTransformers) {
  for (const char* name : {"t5_plain", "t5_gated", "t5_multilingual"})
    EXPECT_LE(difference_from_transformers(name, CpuPrecision::fp32, GetParam()).largest, 1e-5)
        << name;
}

TEST_P(CpuT5Test, Bf16IsCloseToTransformers) {
  for (const char* name : {"t5_plain", "t5_gated", "t5_multilingual"})
    EXPECT_LE(difference_from_transformers(name, CpuPrecision::bf16, GetParam()).typical, .025)
        << name;
}

// Weights, rows and sources of more than one slice, block and page; heads that are padded. Rows go
// on from each other, as beams do.
class Beams {
 public:
  static constexpr std::int64_t beams = 3, length = 35, documents = 36;
  Beams() : model(config()) {
    model.initialise(5);
    std::mt19937 random(1);
    const auto token = [&] { return static_cast<std::int32_t>(random() % 900); };
    for (std::int64_t d = 0; d < documents; ++d) {
      for (std::int64_t t = 0; t < 3 + d * 7 % 20; ++t) sources.token_ids.push_back(token());
      sources.offsets.push_back(static_cast<std::int32_t>(sources.token_ids.size()));
    }
    for (std::int64_t step = 0; step + 1 < length; ++step)
      for (std::int64_t row = 0; row < documents * beams; ++row)
        steps.push_back(
            {row / beams, step == 0 ? 0 : static_cast<std::int64_t>(random() % beams), token()});
    texts.resize(documents * beams);
    for (std::int64_t step = 0; step + 1 < length; ++step) {
      const std::vector<TokenList> before = texts;
      for (std::int64_t row = 0; row < documents * beams; ++row) {
        const CpuT5Texts::Row& made = at(step, row);
        TokenList& text = texts[static_cast<std::size_t>(row)];
        text = before[static_cast<std::size_t>(row / beams * beams + made.parent)];
        text.push_back(made.token);
      }
    }
    for (TokenList& text : texts) text.push_back(0);  // whose scores nobody asks for
    wanted = whole_texts(model, sources, texts, beams).view({documents * beams, length, -1});
  }
  const CpuT5Texts::Row& at(std::int64_t step, std::int64_t row) const {
    return steps[static_cast<std::size_t>(step * documents * beams + row)];
  }
  static T5Config config() {
    T5Config c;
    c.vocabulary_size = 900, c.hidden_size = 90, c.head_size = 40, c.heads = 3;
    c.intermediate_size = 1800, c.layers = 1, c.decoder_layers = 2;
    return c;
  }

  T5 model;
  PackedIds sources;
  std::vector<CpuT5Texts::Row> steps;  // behind the start's
  std::vector<TokenList> texts;        // where all rows' ways end
  at::Tensor wanted;                   // (rows, length, V)
};

TEST_P(CpuT5Test, BeamsGoOnFromEachOther) {
  const Beams beams;
  const auto t5 = make_cpu_t5(beams.model, CpuPrecision::fp32, GetParam(), 64, Beams::length);
  const auto written = t5->make_texts(Beams::beams);
  const std::vector<std::int64_t> numbers = written->add(beams.sources);
  ASSERT_EQ(std::ssize(numbers), Beams::documents);
  const double slack = 1e-5 * beams.wanted.abs().max().item<double>();
  std::vector<CpuT5Texts::Row> rows;
  for (const std::int64_t number : numbers) rows.push_back({number, 0, 0});
  CpuT5Texts::Scores scores = written->step(rows);
  for (std::int64_t d = 0; d < Beams::documents; ++d)
    ASSERT_LE(row_difference(scores, d, beams.wanted[d * Beams::beams][0]), slack) << d;
  for (std::int64_t step = 0; step + 1 < Beams::length; ++step) {
    rows.clear();
    for (std::int64_t row = 0; row < Beams::documents * Beams::beams; ++row) {
      rows.push_back(beams.at(step, row));
      rows.back().source = numbers[static_cast<std::size_t>(row / Beams::beams)];
    }
    scores = written->step(rows);
  }
  for (std::int64_t row = 0; row < Beams::documents * Beams::beams; ++row)
    ASSERT_LE(row_difference(scores, row, beams.wanted[row][Beams::length - 1]), slack) << row;
}

INSTANTIATE_TEST_SUITE_P(Levels, CpuT5Test, testing::ValuesIn(kernels::supported_isas()),
                         [](const auto& level) {
                           std::string name(to_string(level.param));
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

// What CUDA uses.
TEST(T5Decoder, BeamsGoOnFromEachOther) {
  const Beams beams;
  const T5Decoder decoder(beams.model, at::kFloat);
  const PackedTokens source = pack_tokens(beams.sources.token_ids, beams.sources.offsets, at::kCPU);
  const at::NoGradGuard no_grad;
  auto rows = decoder.begin(beams.model.encode(source), source, Beams::length);
  decoder.step(rows, TokenList(Beams::documents, 0));
  at::Tensor scores;
  std::vector<std::int64_t> all(Beams::documents);
  for (std::int64_t d = 0; d < Beams::documents; ++d) all[static_cast<std::size_t>(d)] = d;
  for (std::int64_t step = 0; step + 1 < Beams::length; ++step) {
    std::vector<std::int64_t> from;
    TokenList tokens;
    for (std::int64_t row = 0; row < Beams::documents * Beams::beams; ++row) {
      const std::int64_t document = row / Beams::beams;
      from.push_back(step == 0 ? document : document * Beams::beams + beams.at(step, row).parent);
      tokens.push_back(beams.at(step, row).token);
    }
    decoder.select(rows, from, all);
    scores = decoder.step(rows, tokens);
  }
  EXPECT_LE(largest_difference(scores, beams.wanted.select(1, Beams::length - 1)),
            1e-5 * beams.wanted.abs().max().item<double>());
}

}  // namespace
}  // namespace gpuhpc

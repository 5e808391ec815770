#include "gpuhpc/io/safetensors.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "expect_error.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "scratch_folder.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const fs::path every_type = fs::path(GPUHPC_FIXTURES) / "every_type.safetensors";

std::string with_header(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t size = header.size();
  std::string file(reinterpret_cast<const char*>(&size), sizeof size);
  return file + header + std::string(data_bytes, '\1');
}

void parse(const std::string& file) {
  parse_safetensors(std::as_bytes(std::span(file)), "w.safetensors");
}

TEST(SafeTensors, ReadsWhatTheLibraryWrote) {
  const SafeTensors file(every_type);
  EXPECT_EQ(file.metadata().at("note"), "made by the safetensors library");
  EXPECT_EQ(file.tensors().size(), 12U);
  const TensorView& f32 = *file.find("f32");
  EXPECT_EQ(f32.type, TensorType::float32);
  EXPECT_THAT(f32.shape, ElementsAre(2, 4));
  const std::vector<float> exact{0.F, -0.F, 1.5F, -2.25F, 65504.F, 6e-8F, 1e-5F, INFINITY};
  EXPECT_EQ(to_floats(f32), exact);
  EXPECT_TRUE(std::signbit(to_floats(f32)[1]));
  const std::vector<float> half = to_floats(*file.find("f16"));
  EXPECT_THAT(half, ElementsAre(0.F, -0.F, 1.5F, -2.25F, 65504.F, 0x1p-24F, 0x1.5p-17F, INFINITY));
  EXPECT_TRUE(std::signbit(half[1]));
  const std::vector<float> brain = to_floats(*file.find("bf16"));
  EXPECT_EQ(brain[2], 1.5F);
  EXPECT_EQ(brain[4], 65536.F);
  EXPECT_EQ(brain[7], INFINITY);
  EXPECT_EQ(file.find("scalar")->count(), 1);
  EXPECT_TRUE(file.find("scalar")->shape.empty());
  EXPECT_EQ(file.find("empty")->count(), 0);
  EXPECT_EQ(name_of(file.find("flag")->type), "BOOL");
  EXPECT_EQ(file.find("none"), nullptr);
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { to_floats(*file.find("i64")); }),
              HasSubstr("`i64` is I64"));
}

TEST(SafeTensors, ComeBackAsWritten) {
  const ScratchFolder folder;
  const SafeTensors file(every_type);
  write_safetensors(folder / "again.safetensors", file.tensors(), file.metadata());
  const SafeTensors again(folder / "again.safetensors");
  ASSERT_EQ(again.tensors().size(), file.tensors().size());
  for (const auto& tensor : file.tensors()) {
    const TensorView* back = again.find(tensor.name);
    ASSERT_NE(back, nullptr) << tensor.name;
    EXPECT_EQ(back->shape, tensor.shape);
    EXPECT_EQ(back->type, tensor.type);
    EXPECT_TRUE(
        std::equal(back->data.begin(), back->data.end(), tensor.data.begin(), tensor.data.end()));
  }
  std::vector<TensorView> reversed(file.tensors().rbegin(), file.tensors().rend());
  write_safetensors(folder / "reversed.safetensors", reversed, file.metadata());
  EXPECT_EQ(read_text_file(folder / "again.safetensors"),
            read_text_file(folder / "reversed.safetensors"));
  error_of(ExitCode::internal, [&] {
    reversed.push_back(reversed.front());
    write_safetensors(folder / "twice.safetensors", reversed);
  });
  EXPECT_FALSE(fs::exists(folder / "twice.safetensors"));
}

TEST(SafeTensors, EveryMalformedHeaderIsRefused) {
  const std::string good =
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})";
  EXPECT_NO_THROW(parse(with_header(good, 11)));
  EXPECT_NO_THROW(parse(with_header("{}", 0)));
  struct Case {
    std::string header;
    std::size_t data;
    std::string message;
  };
  const std::vector<Case> wrong{
      {good, 10, "lies outside the file"},
      {good, 12, "1 bytes after the last tensor"},
      {"{}", 1, "1 bytes after the last tensor"},
      {"[]", 0, "does not begin with {"},
      {" {}", 0, "does not begin with {"},
      {"{", 0, "not valid JSON"},
      {"{\"a\":1}", 0, "needs exactly dtype, shape and data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       8, "given twice"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[3],"data_offsets":[7,10]}})",
       10, "overlaps"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[3],"data_offsets":[9,12]}})",
       12, "a hole before tensor `b`"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})", 9, "a hole before tensor `a`"},
      {R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8, "unknown type"},
      {R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", 8, "unknown type"},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8,
       "has 8 bytes, its type and shape say 12"},
      {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "not a whole number"},
      {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8, "not a whole number"},
      {R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", 8, "a shape that is not a list"},
      {R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "impossible size"},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0,
       "impossible size"},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})", 8,
       "impossible size"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "lies outside"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}})", 8, "two data_offsets"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"extra":1}})", 8, "needs exactly"},
      {R"({"__metadata__":{"a":1}})", 0, "something other than strings"},
      {R"({"__metadata__":[]})", 0, "not an object"},
      {"{\"\xFF\":1}", 0, "not valid JSON"},
  };
  for (const Case& each : wrong) {
    EXPECT_THAT(error_of(ExitCode::bad_data, [&] { parse(with_header(each.header, each.data)); }),
                HasSubstr(each.message))
        << each.header;
  }
}

TEST(SafeTensors, HeaderLengthsAreChecked) {
  EXPECT_THAT(error_of(ExitCode::bad_data, [] { parse(""); }), HasSubstr("shorter than 8 bytes"));
  EXPECT_THAT(error_of(ExitCode::bad_data, [] { parse("1234567"); }),
              HasSubstr("shorter than 8 bytes"));
  const auto claim = [](std::uint64_t size) {
    return std::string(reinterpret_cast<const char*>(&size), sizeof size) + "{}";
  };
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { parse(claim(100'000'001)); }),
              HasSubstr("at most 100000000 are allowed"));
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { parse(claim(~std::uint64_t{0})); }),
              HasSubstr("at most"));
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { parse(claim(3)); }),
              HasSubstr("its header claims 3 bytes, the file has 10"));
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { parse(claim(0)); }),
              HasSubstr("does not begin with {"));
}

TEST(SafeTensors, CutsAreRefusedAndFlipsNeverCrash) {
  const std::string whole = read_text_file(every_type);
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    EXPECT_NE(error_of(ExitCode::bad_data, [&] { parse(whole.substr(0, cut)); }), "") << cut;
  }
  RandomStream random(2, 1);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string bent = whole;
    bent[random.below(whole.size())] ^= static_cast<char>(1 << random.below(8));
    try {
      const auto content = parse_safetensors(std::as_bytes(std::span(bent)), "bent");
      for (const auto& tensor : content.tensors)
        ASSERT_EQ(std::ssize(tensor.data), tensor.count() * size_of(tensor.type));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_data);
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);  // flips in names and values go unseen: the format has no checksum
}

class WeightFolder : public ::testing::Test {
 protected:
  WeightFolder() : a_(1000, 1.F), b_(1000, 2.F) {}
  std::vector<TensorView> tensors() const {
    return {{"layer.a", TensorType::float32, {10, 100}, std::as_bytes(std::span(a_))},
            {"layer.b", TensorType::float32, {1000}, std::as_bytes(std::span(b_))}};
  }
  const ScratchFolder folder;
  std::vector<float> a_, b_;
};

TEST_F(WeightFolder, OneFileOrShards) {
  write_model_weights(folder.path(), tensors());
  EXPECT_TRUE(fs::exists(folder / "model.safetensors"));
  EXPECT_THAT(ModelWeights(folder.path()).names(), ElementsAre("layer.a", "layer.b"));
  write_model_weights(folder.path(), tensors(), 5000);
  EXPECT_FALSE(fs::exists(folder / "model.safetensors"));
  const ModelWeights sharded(folder.path());
  EXPECT_EQ(sharded.path(), folder / "model.safetensors.index.json");
  EXPECT_EQ(to_floats(sharded.at("layer.b")), b_);
  EXPECT_EQ(to_floats(sharded.at("layer.a")), a_);
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { sharded.at("layer.c"); }),
              HasSubstr("there is no tensor `layer.c`"));
}

TEST_F(WeightFolder, IndexAndShardsMustAgree) {
  write_model_weights(folder.path(), tensors(), 5000);
  const fs::path index = folder / "model.safetensors.index.json";
  const Json sound = read_json(index);
  const auto refused = [&](const Json& value) {
    write_json(index, value);
    return error_of(ExitCode::bad_data, [&] { const ModelWeights weights(folder.path()); });
  };
  Json wrong = sound;
  wrong["weight_map"]["layer.c"] = "model-00001-of-00002.safetensors";
  EXPECT_THAT(refused(wrong), HasSubstr("tensor `layer.c` should be in"));
  wrong = sound;
  wrong["weight_map"].erase("layer.a");
  wrong["weight_map"]["layer.b"] = "model-00002-of-00002.safetensors";
  EXPECT_NO_THROW({
    write_json(index, wrong);
    const ModelWeights weights(folder.path());
  });
  wrong = sound;
  wrong["weight_map"]["layer.a"] = "../model-00001-of-00002.safetensors";
  EXPECT_THAT(refused(wrong), HasSubstr("not mapped to a file of this folder"));
  wrong = sound;
  wrong["weight_map"]["layer.a"] = "pytorch_model-00001-of-00002.bin";
  EXPECT_NE(refused(wrong), "");
  EXPECT_THAT(refused(Json::array()), HasSubstr("weight_map"));
  wrong = sound;
  wrong["weight_map"]["layer.a"] = "missing.safetensors";
  write_json(index, wrong);
  error_of(ExitCode::io, [&] { const ModelWeights weights(folder.path()); });
}

TEST_F(WeightFolder, PickleFilesAreRefusedWithTheCommand) {
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { const ModelWeights weights(folder.path()); }),
              HasSubstr("neither model.safetensors nor"));
  write_text_file(folder / "pytorch_model.bin", "PK");
  write_text_file(folder / "colbert_linear.pt", "PK");  // as BAAI/bge-m3 has it
  const auto message = [&] {
    return error_of(ExitCode::bad_data, [&] { const ModelWeights weights(folder.path()); });
  };
  // A folder without a model's config.json is a module's.
  EXPECT_THAT(message(), HasSubstr("SentenceTransformer as S; S('" +
                                   folder.path().parent_path().string() + "')"));
  write_text_file(folder / "config.json",
                  R"({"model_type": "mt5", "architectures": ["MT5ForConditionalGeneration"]})");
  EXPECT_THAT(message(), HasSubstr((folder / "pytorch_model.bin").string() +
                                   ": these weights are a pickle file"));
  EXPECT_THAT(message(), HasSubstr("import AutoModelForSeq2SeqLM as A"));  // keeps the head
  EXPECT_THAT(message(), HasSubstr("save_pretrained('" + folder.path().string() +
                                   "', safe_serialization=True)"));
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { const ModelWeights weights(folder / "none"); }),
              HasSubstr("no such folder"));
}

}  // namespace
}  // namespace gpuhpc

// The same rows and the same file bytes on any number of ranks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "gpuhpc/comm/mpi.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/infer/encode.hpp"
#include "gpuhpc/nn/folder.hpp"

namespace gpuhpc {
namespace {

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(EncodeOverRanks, SameRowsAndSameFile) {
  const auto comm = MpiSession::world();
  std::mt19937 random(5);
  std::vector<std::vector<std::int32_t>> documents(23);
  for (auto& ids : documents)
    for (std::uint64_t i = 0, length = random() % 120; i < length; ++i)
      ids.push_back(static_cast<std::int32_t>(1000 + random() % 20000));
  const std::string folder = std::string(GPUHPC_MODELS) + "/all-MiniLM-L6-v2";
  const LoadedEncoder model = load_encoder(folder);
  const auto tokenizer = load_tokenizer(folder);
  InferOptions options;
  options.token_budget = 200;
  const DocumentEncoder encoder(model, *tokenizer, options, {false, 0, 1});
  const TokenSource source = token_source(documents);
  const Matrix alone = encoder.encode(source);
  EXPECT_EQ(encoder.encode_together(source, *comm).values, alone.values);

  const auto scratch = std::filesystem::temp_directory_path() /
                       comm->broadcast_string("gpuhpc_encode_" + std::to_string(::getpid()));
  on_root(*comm, [&] { std::filesystem::create_directories(scratch); });
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < documents.size(); ++i) ids.push_back("doc-" + std::to_string(i));
  const Log log = make_console_log(comm->rank());
  const auto id = [&](std::int64_t i) {
    return std::string_view(ids[static_cast<std::size_t>(i)]);
  };
  encoder.encode_to_file(source, *comm, scratch / "together.h5", {{"encoder", "MiniLM"}}, id, log);
  const auto single = make_single_communicator();
  on_root(*comm, [&] {
    encoder.encode_to_file(source, *single, scratch / "alone.h5", {{"encoder", "MiniLM"}}, id, log);
  });
  EXPECT_EQ(bytes_of(scratch / "together.h5"), bytes_of(scratch / "alone.h5"));
  EXPECT_EQ(read_matrix(scratch / "together.h5").values, alone.values);
  comm->barrier();
  on_root(*comm, [&] { std::filesystem::remove_all(scratch); });
}

}  // namespace
}  // namespace gpuhpc

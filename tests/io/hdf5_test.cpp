#include "gpuhpc/io/hdf5.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "expect_error.hpp"
#include "gpuhpc/base/random.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "scratch_folder.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void write_sample(const fs::path& path, std::int64_t rows = 300'000) {
  Hdf5Writer file(path);
  std::vector<float> floats(static_cast<std::size_t>(rows * 3));
  for (std::size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(i) * .5F;
  const std::vector<std::int64_t> numbers{-1, 2, 3};
  const std::vector<std::uint8_t> bytes{7, 8, 9, 10, 11};
  const std::vector<std::string> ids{"a", "", "longer é"};
  const std::vector<std::string> texts{"a text", "", std::string(5000, 'x')};
  file.attribute("maker", "a test: é");
  file.attribute("empty", "");
  file.dataset<std::uint8_t>("bytes", bytes);
  file.matrix("floats", {floats.data(), rows, 3});
  file.dataset<std::int64_t>("numbers", numbers);
  file.strings("ids", ids);
  file.variable_strings("texts", texts);
  file.dataset<float>("nothing", std::span<const float>{});
  file.commit();
}

TEST(Hdf5, ComesBackAsWritten) {
  const ScratchFolder folder;
  write_sample(folder / "a.h5");
  const Hdf5File file(folder / "a.h5");
  EXPECT_THAT(file.names(), ElementsAre("bytes", "floats", "ids", "nothing", "numbers", "texts"));
  EXPECT_EQ(file.attribute("maker"), "a test: é");
  EXPECT_EQ(file.attribute("empty"), "");
  const MatrixView floats = file.matrix("floats");
  EXPECT_EQ(floats.rows, 300'000);
  EXPECT_EQ(floats.columns, 3);
  EXPECT_EQ(floats.row(299'999)[2], 899'999 * .5F);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(floats.data) % 4096, 0U);
  EXPECT_THAT(file.dataset<std::int64_t>("numbers"), ElementsAre(-1, 2, 3));
  EXPECT_THAT(file.dataset<std::uint8_t>("bytes"), ElementsAre(7, 8, 9, 10, 11));
  EXPECT_TRUE(file.dataset<float>("nothing").empty());
  const StringColumn ids = file.strings("ids");
  EXPECT_EQ(ids.size(), 3);
  EXPECT_EQ(ids[0], "a");
  EXPECT_EQ(ids[1], "");
  EXPECT_EQ(ids[2], "longer é");
  EXPECT_THAT(file.variable_strings("texts"), ElementsAre("a text", "", std::string(5000, 'x')));
}

TEST(Hdf5, SameBytesEveryTime) {
  const ScratchFolder folder;
  write_sample(folder / "a.h5");
  write_sample(folder / "b.h5");
  EXPECT_TRUE(read_text_file(folder / "a.h5") == read_text_file(folder / "b.h5"));
}

TEST(Hdf5, WrongNamesTypesAndShapesAreNamed) {
  const ScratchFolder folder;
  write_sample(folder / "a.h5");
  const Hdf5File file(folder / "a.h5");
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { file.dataset<float>("none"); }),
              HasSubstr("a.h5: there is no dataset `none`"));
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { file.dataset<std::int32_t>("numbers"); }),
              HasSubstr("`numbers` holds int64, int32 was expected"));
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { file.array2d<std::int64_t>("numbers"); }),
              HasSubstr("`numbers` is no matrix"));
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { file.strings("texts"); }), HasSubstr("texts"));
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { file.attribute("none"); }),
              HasSubstr("no attribute `none`"));
}

TEST(Hdf5, EveryCutIsDetected) {
  const ScratchFolder folder;
  write_sample(folder / "a.h5", 2000);
  const std::string whole = read_text_file(folder / "a.h5");
  for (std::size_t cut = 0; cut < whole.size(); cut += cut < 5000 ? 97 : 1013) {
    write_unsynced(folder / "b.h5", whole.substr(0, cut));
    error_of(ExitCode::bad_data, [&] { const Hdf5File file(folder / "b.h5"); });
  }
  write_text_file(folder / "b.h5", whole + "x");
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { const Hdf5File file(folder / "b.h5"); }),
              HasSubstr("cut short or added to"));
}

TEST(Hdf5, EveryFlippedBitIsDetected) {
  const ScratchFolder folder;
  write_sample(folder / "a.h5", 2000);
  const std::string whole = read_text_file(folder / "a.h5");
  RandomStream random(1, 1);
  for (int round = 0; round < 3000; ++round) {
    std::string bent = whole;
    const std::size_t at =
        round < 1000 ? static_cast<std::size_t>(round) * 5 : random.below(whole.size());
    bent[at] = static_cast<char>(bent[at] ^ (1 << random.below(8)));
    write_unsynced(folder / "b.h5", bent);
    EXPECT_NE(error_of(ExitCode::bad_data, [&] { const Hdf5File file(folder / "b.h5"); }), "")
        << at;
  }
}

TEST(Hdf5, DataCanBeVerifiedLater) {
  const ScratchFolder folder;
  write_sample(folder / "a.h5");
  std::int64_t at = 0;
  {
    const Hdf5File file(folder / "a.h5");
    const std::string whole = read_text_file(folder / "a.h5");
    const auto floats = file.dataset<float>("floats").subspan(500'000, 64);
    at = static_cast<std::int64_t>(
        whole.find(std::string(reinterpret_cast<const char*>(floats.data()), floats.size_bytes())));
    std::string bent = whole;
    bent[static_cast<std::size_t>(at)] ^= 1;
    write_unsynced(folder / "b.h5", bent);
  }
  const Hdf5File file(folder / "b.h5", Hdf5File::Verify::structure);
  file.verify("numbers");
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { file.verify("floats"); }),
              HasSubstr("dataset `floats` is damaged between bytes"));
}

TEST(Hdf5, ForeignFilesAreRefused) {
  const ScratchFolder folder;
  write_text_file(folder / "a.h5", "\x89HDF\r\n\x1a\n" + std::string(10'000, 'x'));
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { const Hdf5File file(folder / "a.h5"); }),
              HasSubstr("not an HDF5 file written by gpuhpc"));
  error_of(ExitCode::io, [&] { const Hdf5File file(folder / "none.h5"); });
}

TEST(Hdf5, NothingStaysWithoutCommit) {
  const ScratchFolder folder;
  {
    Hdf5Writer file(folder / "a.h5");
    file.reserve({"values", ElementType::float32, {1000}});
    EXPECT_THAT(error_of(ExitCode::io, [&] { const Hdf5Writer second(folder / "a.h5"); }),
                HasSubstr("another process"));
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_THAT(error_of(ExitCode::io, [&] { const Hdf5Writer file(folder / "no" / "a.h5"); }),
              HasSubstr("no such file or folder"));
}

TEST(Hdf5, ReservedRowsAreWrittenInAnyOrder) {
  const ScratchFolder folder;
  {
    Hdf5Writer file(folder / "a.h5");
    file.reserve({"values", ElementType::int32, {4, 2}});
    const std::vector<std::int32_t> late{5, 6, 7, 8}, early{1, 2, 3, 4};
    file.write_rows("values", 2, std::as_bytes(std::span(late)));
    file.write_rows("values", 0, std::as_bytes(std::span(early)));
    error_of(ExitCode::internal,
             [&] { file.write_rows("values", 3, std::as_bytes(std::span(late))); });
    file.commit();
  }
  const Hdf5File file(folder / "a.h5");
  EXPECT_THAT(file.dataset<std::int32_t>("values"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

TEST(MatrixFile, MatricesAndSparseMatricesComeBack) {
  const ScratchFolder folder;
  Matrix m(3, 2);
  m.values = {1, 2, 3, NAN, -0.F, 6};
  write_matrix(folder / "m.h5", m.view(), {{"made_by", "test"}});
  const Matrix back = read_matrix(folder / "m.h5");
  EXPECT_EQ(back.rows, 3);
  EXPECT_TRUE(std::isnan(back.values[3]) && std::signbit(back.values[4]));
  EXPECT_EQ(MappedMatrix(folder / "m.h5").view().row(2)[1], 6.F);
  SparseMatrix s;
  s.columns_count = 5;
  s.offsets = {0, 2, 2, 3};
  s.columns = {1, 4, 0};
  s.values = {.5F, .25F, 1.F};
  write_sparse(folder / "s.h5", s);
  const SparseMatrix again = read_sparse(folder / "s.h5");
  EXPECT_EQ(again.columns_count, 5);
  EXPECT_EQ(again.offsets, s.offsets);
  EXPECT_EQ(again.columns, s.columns);
  EXPECT_EQ(again.values, s.values);
  s.columns[1] = 5;
  write_sparse(folder / "s.h5", s);
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { read_sparse(folder / "s.h5"); }),
              HasSubstr("do not fit each other"));
}

}  // namespace
}  // namespace gpuhpc

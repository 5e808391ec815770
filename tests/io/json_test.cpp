#include "gpuhpc/io/json.hpp"

#include <gmock/gmock.h>

#include <limits>

#include "expect_error.hpp"
#include "scratch_folder.hpp"

namespace gpuhpc {
namespace {
using ::testing::HasSubstr;

TEST(JsonFile, AnIntegerIsNoOtherNumber) {
  const Json numbers = Json::parse(
      R"([-3, 9223372036854775807, 9223372036854775808, 1.5, 1e300, 2.0, true, "7", null])");
  EXPECT_EQ(integer(numbers[0]), -3);
  EXPECT_EQ(integer(numbers[1]), std::numeric_limits<std::int64_t>::max());
  for (std::size_t i = 2; i < numbers.size(); ++i)
    EXPECT_THROW(integer(numbers[i]), Json::exception) << numbers[i];
}

TEST(JsonFile, WritesAndReadsBack) {
  const ScratchFolder folder;
  const Json value{{"b", 1}, {"a", {1.5, "é", nullptr}}};
  write_json(folder / "x.json", value);
  EXPECT_EQ(read_json(folder / "x.json"), value);
  EXPECT_TRUE(read_text_file(folder / "x.json").starts_with("{\n  \"a\""));
}

TEST(JsonFile, ErrorsNameFileAndLine) {
  const ScratchFolder folder;
  write_text_file(folder / "x.json", "{\n \"a\": 1,\n \"b\" 2}\n");
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { read_json(folder / "x.json"); }),
              HasSubstr("x.json:3: this is not valid JSON"));
  write_text_file(folder / "x.json", "");
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { read_json(folder / "x.json"); }),
              HasSubstr("the file is empty"));
  write_text_file(folder / "x.json", "{\"a\": 1, \"a\": 2}");
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { read_json(folder / "x.json"); }),
              HasSubstr("the key `a` is given twice"));
  write_text_file(folder / "x.json", "[1e999]");
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { read_json(folder / "x.json"); }),
              HasSubstr("x.json"));
  write_text_file(folder / "x.json", "{\"a\": \"\xFF\"}");
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { read_json(folder / "x.json"); }),
              HasSubstr("not UTF-8"));
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { parse_json(std::string(100'000, '['), "deep"); }),
              HasSubstr("deep"));
  EXPECT_THAT(
      error_of(ExitCode::bad_data,
               [&] { parse_json(std::string(1000, '[') + std::string(1000, ']'), "deep"); }),
      HasSubstr("nested deeper"));
  EXPECT_THAT(
      error_of(ExitCode::bad_data,
               [&] { parse_json("{\"a\": {\"a\": 1}, \"b\": {\"c\": 1, \"c\": 1}}", "x"); }),
      HasSubstr("`c`"));
}

TEST(Jsonl, OneObjectALineAndNothingWithoutCommit) {
  const ScratchFolder folder;
  {
    JsonlWriter lost(folder / "x.jsonl");
    lost.write(Json{{"id", "1"}});
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "x.jsonl"));
  JsonlWriter file(folder / "x.jsonl");
  file.write(Json{{"id", "1"}});
  file.write(nlohmann::ordered_json{{"z", "é\n"}, {"a", 2}});
  file.commit();
  EXPECT_EQ(read_text_file(folder / "x.jsonl"), "{\"id\":\"1\"}\n{\"z\":\"é\\n\",\"a\":2}\n");
}

}  // namespace
}  // namespace gpuhpc

// libFuzzer target: any bytes as a config file either give values within their declared limits or a
// usage error. Seeds: tests/config/fixtures/options_seeds.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/config/options.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int file = memfd_create("options", 0);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  bool flag = false;
  std::int64_t count = 3;
  double rate = .5;
  std::string mode = "fast", text;
  gpuhpc::config::OptionSet set;
  gpuhpc::config::Section& section = set.section("demo", "an example");
  section.option("flag", flag, "a switch");
  section.option("count", count, "how many").range(0, 10);
  section.option("rate", rate, "a number").range(0, 1);
  section.option("mode", mode, "a word").one_of({"fast", "slow"});
  section.option("text", text, "anything");
  try {
    set.parse("/proc/self/fd/" + std::to_string(file), {});
  } catch (const gpuhpc::Error& e) {
    if (e.code() != gpuhpc::ExitCode::usage) std::abort();
  }
  if (count < 0 || count > 10 || !(rate >= 0 && rate <= 1) || (mode != "fast" && mode != "slow"))
    std::abort();
  close(file);
  return 0;
}

// libFuzzer target: any bytes, read as every format (plain or gzip), either give documents that
// obey the promises of CorpusReader or an input_error. Seeds: tests/data/fixtures/corpus_seeds.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <set>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/data/corpus.hpp"
#include "gpuhpc/io/lines.hpp"

namespace {

void read_all(const std::string& path, const std::string& format, bool ids_optional) {
  gpuhpc::CorpusOptions options;
  options.format = format;
  options.ids_optional = ids_optional;
  try {
    gpuhpc::CorpusReader reader(path, options);
    gpuhpc::Document document;
    std::set<std::string> ids;
    while (reader.next(document)) {
      const bool sound = !document.id.empty() && ids.insert(document.id).second &&
                         gpuhpc::find_invalid_utf8(document.id) == std::string::npos &&
                         gpuhpc::find_invalid_utf8(document.text) == std::string::npos;
      if (!sound) std::abort();
    }
    if (reader.count() < 1 || reader.count() != std::ssize(ids)) std::abort();
  } catch (const gpuhpc::Error& error) {
    if (error.code() != gpuhpc::ExitCode::bad_data) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int memory = ::memfd_create("corpus", 0);
  if (memory < 0 || ::write(memory, data, size) != static_cast<ssize_t>(size)) std::abort();
  const std::string path = "/proc/self/fd/" + std::to_string(memory);
  for (const char* format : {"auto", "tabbed", "jsonl", "csv", "tsv"})
    read_all(path, format, size % 2 == 1);
  ::close(memory);
  return 0;
}

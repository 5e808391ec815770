#include "gpuhpc/pipelines/label/teacher_files.hpp"

#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/matrix_file.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;

void copy_teacher(const EncodingFiles& encoding, const PosteriorFiles& posterior,
                  const LoadedEncoder& teacher, const fs::path& model) {
  for (const fs::path& file : {posterior.paths, posterior.posterior, posterior.tfidf,
                               posterior.tfidf_rows, encoding.centred, encoding.classes})
    gpuhpc::copy_file(file, model / "gpuhpc" / file.filename());
  save_encoder_folder(model / "gpuhpc" / "teacher", teacher.encoder, teacher.model.embedding,
                      teacher.model);
}

void write_text_hashes(const TokenDataset& corpus, const fs::path& path) {
  std::vector<std::int64_t> hashes;
  for (std::int64_t i = 0; i < corpus.size(); ++i)
    hashes.push_back(static_cast<std::int64_t>(xxh3(std::as_bytes(std::span(corpus.text(i))))));
  write_arrays(path, {{"hashes", std::span<const std::int64_t>(hashes)}});
}

}  // namespace gpuhpc

#include "gpuhpc/pipelines/label/model_folder.hpp"

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/matrix_file.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;

ClassifierSettings path_settings(const PathScoring& scoring, bool transductive) {
  ClassifierSettings settings;
  settings.kind = "paths";
  settings.transductive = transductive;
  settings.temperature = scoring.scores.temperature;
  settings.csls = scoring.scores.csls;
  settings.lexical = scoring.scores.lexical;
  settings.centring = scoring.centring.share;
  settings.smoothing = scoring.smoothing.rounds > 0;
  settings.neighbours = scoring.neighbours.k;
  settings.ngrams = scoring.tfidf.longest_ngram;
  settings.stop_words = scoring.tfidf.english_stop_words;
  return settings;
}

void write_settings(const std::filesystem::path& model, const ClassifierSettings& s) {
  write_json(model / "gpuhpc" / "settings.json", Json{{"kind", s.kind},
                                                      {"student", s.student},
                                                      {"transductive", s.transductive},
                                                      {"temperature", s.temperature},
                                                      {"csls", s.csls},
                                                      {"lexical", s.lexical},
                                                      {"centring", s.centring},
                                                      {"smoothing_keep", s.smoothing_keep},
                                                      {"smoothing", s.smoothing},
                                                      {"neighbours", s.neighbours},
                                                      {"ngrams", s.ngrams},
                                                      {"stop_words", s.stop_words},
                                                      {"classes", s.classes},
                                                      {"sigmoid_exp", s.sigmoid_exp}});
}

ClassifierSettings read_settings(const std::filesystem::path& model) {
  const auto path = model / "gpuhpc" / "settings.json";
  if (!std::filesystem::exists(path))
    throw input_error(
        "{}: not a finished model (no gpuhpc/settings.json); name the model/ folder of a finished "
        "run with --model.dir",
        model.string());
  const Json json = read_json(path);
  try {
    return {json.at("kind"),
            json.at("student"),
            json.at("transductive"),
            json.at("temperature"),
            json.at("csls"),
            json.at("lexical"),
            json.at("centring"),
            json.at("smoothing_keep"),
            json.at("smoothing"),
            json.at("neighbours"),
            json.at("ngrams"),
            json.at("stop_words"),
            json.value("classes", false),
            json.value("sigmoid_exp", false)};
  } catch (const Json::exception& e) {
    throw input_error("{}: {}; the file is not one of ours", path.string(), e.what());
  }
}

void copy_taxonomy(const TaxonomyFiles& taxonomy, const std::filesystem::path& model) {
  create_folder(model / "gpuhpc");
  const auto copy = [&](const std::filesystem::path& from, const char* name) {
    gpuhpc::copy_file(
        from, model / "gpuhpc" / (std::string(name) + (from.extension() == ".gz" ? ".gz" : "")));
  };
  copy(taxonomy.labels, "labels.txt");
  copy(taxonomy.hierarchy, "label_hierarchy.txt");
}

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

#include "gpuhpc/pipelines/label/model_folder.hpp"

#include <algorithm>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/checksum.hpp"
#include "gpuhpc/io/manifest.hpp"
#include "gpuhpc/io/matrix_file.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;

namespace {

constexpr const char* model_again = "copy the model folder again, or run `gpuhpc run` again";
// The options that this kind of model keeps. `settings` must outlive the set.
config::OptionSet scoring_options(ClassifierSettings& settings) {
  config::OptionSet options;
  PathScoring& scoring = settings.scoring;
  if (settings.kind == "paths") {
    options.add("", scoring.scores, scoring.centring, scoring.smoothing);
    options.add("", scoring.tfidf);
    options.add("", scoring.neighbours);
  } else if (settings.classes) {
    options.add("", scoring.centring);
  }
  return options;
}

config::OptionSet labelling_options(Labelling& labelling) {
  config::OptionSet options;
  options.add("", labelling.decode);
  options.add("", labelling.infer);
  return options;
}

Json values_of(const config::OptionSet& options) {
  Json values = Json::object();
  for (const std::string& name : options.names()) values[name] = options.value(name);
  return values;
}

void take_values(config::OptionSet options, const Json& values) {
  std::vector<std::string> arguments;
  for (const auto& [name, value] : values.items())
    arguments.push_back(fmt::format("--{}={}", name, value.get<std::string>()));
  options.parse({}, arguments);
}

}  // namespace

void write_settings(const fs::path& model, const ClassifierSettings& settings) {
  ClassifierSettings s = settings;
  Json json{{"kind", s.kind},
            {"student", s.student},
            {"transductive", s.transductive},
            {"classes", s.classes},
            {"sigmoid_exp", s.sigmoid_exp},
            {"corrected", s.corrected},
            {"expected_leaves", s.expected_leaves},
            {"softmax_leaves", s.softmax_leaves},
            {"lift_of_middle", s.lift},
            {"smoothing_keep", s.smoothing_keep},
            {"scoring", values_of(scoring_options(s))}};
  if (s.labelling) json["labelling"] = values_of(labelling_options(*s.labelling));
  write_json(model / "gpuhpc" / "settings.json", json);
}

ClassifierSettings read_settings(const fs::path& model) {
  const fs::path path = model / "gpuhpc" / "settings.json";
  const Json json = read_json(path);
  try {
    ClassifierSettings s{
        .kind = json.at("kind"),
        .student = json.at("student"),
        .transductive = json.at("transductive"),
        .classes = json.at("classes"),
        .sigmoid_exp = json.at("sigmoid_exp"),
        .smoothing_keep = json.at("smoothing_keep"),
        .corrected = json.value("corrected", false),
        .expected_leaves = json.value("expected_leaves", DecodeOptions::default_leaves)};
    s.softmax_leaves = json.value("softmax_leaves", s.expected_leaves);
    if (s.corrected) s.lift = json.at("lift_of_middle");
    take_values(scoring_options(s), json.at("scoring"));
    if (json.contains("labelling"))
      take_values(labelling_options(s.labelling.emplace()), json.at("labelling"));
    return s;
  } catch (const std::exception& e) {  // of keys that are missing, of options out of their range
    const std::string_view what = e.what();  // several options: a line of each
    throw input_error("{}: {}; {}", path.string(), what.substr(0, what.find('\n')), model_again);
  }
}

void publish_model(const fs::path& trained, const fs::path& model,
                   const ClassifierSettings& settings, const ModelCorrection* correction) {
  Json files = read_model_manifest(trained).at("files");
  std::vector<std::string> own = {"gpuhpc/settings.json"};
  if (correction != nullptr) own.emplace_back("gpuhpc/correction.h5");
  for (const auto& [name, file] : files.items())
    if (!std::ranges::count(own, name)) link_file(trained / name, model / name);
  create_folder(model / "gpuhpc");
  write_settings(model, settings);
  if (correction != nullptr)
    write_arrays(model / own.back(),
                 {{"documents", correction->scores.documents.view()},
                  {"move_weights", correction->scores.weights.view()},
                  {"truth", correction->truth.view()},
                  {"hashes", std::span<const std::int64_t>(correction->hashes)}});
  for (const std::string& name : own) files[name] = describe_file(model / name);
  write_model_manifest(model, files);
}

ClassifierSettings open_model(const fs::path& model, Communicator& comm, const Log& log) {
  on_root(comm, [&] {
    if (!fs::exists(model / "gpuhpc" / "settings.json"))
      throw input_error(
          "{}: not a finished model (no gpuhpc/settings.json); name the model/ folder of a "
          "finished run with --model.dir",
          model.string());
  });
  check_model(model, Manifest::required, comm, log);
  ClassifierSettings settings;
  run_collectively(comm, [&] { settings = read_settings(model); });
  return settings;
}

Labelling choose_labelling(const ClassifierSettings& settings, const config::OptionSet& given,
                           Communicator& comm, const Log& log) {
  Labelling labelling = settings.labelling.value_or(Labelling{});
  if (!settings.labelling && comm.is_root())
    log->warn("the model does not say how its run labelled; the options' defaults are taken");
  run_collectively(comm, [&] {
    ClassifierSettings made = settings;
    const config::OptionSet fixed = scoring_options(made);
    for (const std::string& name : fixed.names())
      if (given.given(name) && given.value(name) != fixed.value(name))
        throw usage_error(
            "--{} {}: the model was made with {}, and its files hold what came of it; leave the "
            "option out, or run `gpuhpc run` with it",
            name, given.value(name), fixed.value(name));
    config::OptionSet options = labelling_options(labelling);
    for (const std::string& name : options.names()) {
      if (!given.given(name) || given.value(name) == options.value(name)) continue;
      if (name == "decode.expected-leaves" && settings.gives_memberships())
        throw usage_error(
            "--{} {}: this model's scores {}, which the option does not change; {}", name,
            given.value(name),
            settings.corrected ? "were corrected by labelled documents"
                               : "are probabilities of membership",
            settings.corrected ? "leave it out, or give it to `gpuhpc run`" : "leave it out");
      if (comm.is_root())
        log->info("--{} {} is taken; the model's run had {}", name, given.value(name),
                  options.value(name));
      options.set_default(name, given.value(name));
    }
    labelling.decode.refuse_unread(given);
    labelling.decode = settings.decoding(labelling.decode);
    labelling.decode.check();
  });
  return labelling;
}

void copy_taxonomy(const TaxonomyFiles& taxonomy, const fs::path& model) {
  create_folder(model / "gpuhpc");
  const auto copy = [&](const fs::path& from, const char* name) {
    gpuhpc::copy_file(
        from, model / "gpuhpc" / (std::string(name) + (from.extension() == ".gz" ? ".gz" : "")));
  };
  copy(taxonomy.labels, "labels.txt");
  copy(taxonomy.hierarchy, "label_hierarchy.txt");
}

Taxonomy load_taxonomy(const fs::path& model) {
  const auto file = [&](const std::string& name) {
    const fs::path plain = model / "gpuhpc" / name;
    return fs::exists(plain) ? plain : fs::path(plain.string() + ".gz");
  };
  return Taxonomy::load(file("labels.txt"), file("label_hierarchy.txt"));
}

void copy_teacher(const EncodingFiles& encoding, const PosteriorFiles& posterior,
                  const LoadedEncoder& teacher, const fs::path& model) {
  for (const fs::path& file : {posterior.paths, posterior.posterior, posterior.tfidf,
                               posterior.tfidf_rows, encoding.centred, encoding.classes})
    gpuhpc::copy_file(file, model / "gpuhpc" / file.filename());
  save_encoder_folder(model / "gpuhpc" / "teacher", teacher.encoder, teacher.model.embedding,
                      teacher.model);
}

void ModelCorrection::apply(const Taxonomy& taxonomy, MatrixView centred, MatrixView posterior,
                            std::span<const std::int64_t> texts, MutableMatrixView marginals,
                            std::span<char> told) const {
  scores.apply(taxonomy, centred, posterior, marginals);
  for (std::int64_t i = 0; i < marginals.rows; ++i) {
    const auto place = static_cast<std::size_t>(i);
    const auto known = std::ranges::find(hashes, texts[place]);
    told[place] = known != hashes.end();
    if (told[place] != 0)
      std::ranges::copy(truth.row(known - hashes.begin()), marginals.row(i).begin());
  }
}

ModelCorrection load_correction(const fs::path& model, const ClassifierSettings& settings,
                                std::int64_t classes, std::int64_t width) {
  const fs::path path = model / "gpuhpc" / "correction.h5";
  const Hdf5File file(path);
  const std::int64_t labelled = file.matrix("documents").rows;
  if (!file.has("move_weights") || file.matrix("documents").columns != width)
    throw input_error(
        "{}: its labels were given to another model or another version of gpuhpc; give them again "
        "with run --input.labels",
        path.string());
  file.expect("hashes", {labelled});
  const auto hashes = file.dataset<std::int64_t>("hashes");
  return {{read_matrix(path, "documents", labelled, width),
           read_matrix(path, "move_weights", classes, labelled), settings.expected_leaves,
           settings.softmax_leaves, settings.lift},
          read_matrix(path, "truth", labelled, classes),
          {hashes.begin(), hashes.end()}};
}

std::int64_t text_hash(std::string_view text) {
  return static_cast<std::int64_t>(xxh3(std::as_bytes(std::span(text))));
}

void write_text_hashes(const TokenDataset& corpus, const fs::path& path) {
  std::vector<std::int64_t> hashes;
  for (std::int64_t i = 0; i < corpus.size(); ++i) hashes.push_back(text_hash(corpus.text(i)));
  write_arrays(path, {{"hashes", std::span<const std::int64_t>(hashes)}});
}

}  // namespace gpuhpc

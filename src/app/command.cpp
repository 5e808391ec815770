#include "gpuhpc/app/command.hpp"

#include <fmt/ranges.h>

#include <sstream>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

// What most commands do not read.
const std::string labelling =
    "scoring teleclass taxoclass tfidf neighbours decode eval pipeline.method pipeline.preset "
    "pipeline.adapt pipeline.adapt-texts pipeline.adapt-epochs pipeline.adapt-batch "
    "pipeline.adapt-lr "
    "model.class-prompt ";
const std::string learning = "train data profile ";
const std::string jobs = "embedding dataset pretrain seq2seq generate mining ";
const std::string beside_runs = "report select plan ";
const std::string stages = "run pipeline stage prepare ";
const std::string vectors = "output.quantize output.calibration ";
const std::string folders = "input.dir input.labels output.dir ";

bool reads(const Command& command, const std::string& option) {
  std::istringstream unread(command.unread);
  for (std::string name; unread >> name;)
    if (option == name || option.starts_with(name + ".")) return false;
  return true;
}

}  // namespace

std::span<const Command> commands() {
  static const Command table[] = {
      {"run",
       "the staged pipeline: taxonomy and unlabelled text in, model, predictions and report out",
       run_command, labelling_preset, true,
       "input.file output.file output.dir run.export model.dir decode.review-below " + vectors +
           jobs + beside_runs},
      {"train-embedding", "pairs of texts to a sentence encoder (--embedding.train)",
       train_embedding_command, [](const Options& o) { return embedding_defaults(o.embedding); },
       true,
       "input.dir input.id-field input.text-field input.file input.labels output model.dir "
       "pretrain seq2seq generate mining " +
           labelling + beside_runs},
      {"pretrain", "texts to a masked-language model, new or learning on (--pretrain.model)",
       pretrain_command, [](const Options&) { return pretrain_defaults(); }, true,
       "input.file input.labels output model.dir model.pooling model.prompt embedding dataset "
       "seq2seq generate "
       "mining " +
           labelling + beside_runs},
      {"train-seq2seq", "pairs of texts to a T5 or mT5 that writes the second (--seq2seq.train)",
       train_seq2seq_command, [](const Options&) { return seq2seq_defaults(); }, true,
       "input.dir input.id-field input.text-field input.file input.labels output model.dir "
       "model.pooling model.prompt embedding dataset "
       "pretrain mining " +
           labelling + beside_runs},
      {"mine",
       "pairs of texts to pairs with hard negatives (--embedding.train, --mining.negatives)",
       mine_command, [](const Options&) { return Preset(); }, true,
       "input.dir input.id-field input.text-field input.file input.labels output model.dir "
       "run.export pretrain seq2seq generate " +
           learning + labelling + beside_runs},
      {"prepare", "text to tokenized HDF5 shards", prepare_command, labelling_preset, true,
       "input.dir input.labels output.file run pipeline stage model.dir model.pooling model.prompt "
       "infer " +
           vectors + jobs + learning + labelling + beside_runs},
      {"encode", "text to vectors with --model.encoder", encode_command, labelling_preset, false,
       stages + folders + jobs + learning + labelling + beside_runs},
      {"generate", "text that a T5 or mT5 writes for each text (--model.dir)", generate_command,
       labelling_preset, false,
       "model.encoder model.pooling model.prompt embedding dataset pretrain mining " + stages +
           folders + vectors + learning + labelling + beside_runs},
      {"predict", "labels for new text with a finished model (--model.dir)", predict_command,
       labelling_preset, false,
       "model.encoder model.pooling model.class-prompt teleclass taxoclass eval " + stages +
           folders + vectors + jobs + learning + beside_runs},
      {"select", "documents of a finished run that a person should label next (--run.dir)",
       select_command, labelling_preset, false,
       "input.dir input.file output.dir run.export pipeline stage model prepare infer report "
       "plan " +
           vectors + jobs + learning + labelling},
      {"evaluate", "predictions against gold (--eval.predictions, --eval.gold)", evaluate_command,
       labelling_preset, false,
       "input.file output run.export pipeline stage model prepare infer scoring teleclass "
       "taxoclass tfidf neighbours decode " +
           jobs + learning + beside_runs},
      {"report", "one HTML page of one or several run folders (--report.runs)", report_command,
       labelling_preset, false,
       "input output run.export pipeline stage model prepare infer select plan " + jobs + learning +
           labelling},
      {"plan", "what fits a GPU: memory, batches and time of a job (--plan.gpu, --plan.model)",
       plan_command, plan_preset},
      {"doctor", "checks the launch: ranks, hosts, devices, threads, all-reduce answers and rates",
       doctor_command},
  };
  return table;
}

void refuse_unread(const Command& command, const std::vector<std::string>& given) {
  for (const std::string& option : given) {
    if (reads(command, option)) continue;
    std::vector<std::string> readers;
    for (const Command& other : commands())
      if (!other.unread.empty() && reads(other, option)) readers.push_back(other.name);
    throw usage_error(
        "--{} has no meaning for {}; leave it out{}", option, command.name,
        readers.empty() ? "" : fmt::format(" (it is for {})", fmt::join(readers, ", ")));
  }
}

}  // namespace gpuhpc

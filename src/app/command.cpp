#include "gpuhpc/app/command.hpp"

namespace gpuhpc {

std::span<const Command> commands() {
  static const Command table[] = {
      {"run",
       "the staged pipeline: taxonomy and unlabelled text in, model, predictions and report out",
       run_command, labelling_preset, true},
      {"train-embedding", "pairs of texts to a sentence encoder (--embedding.train)",
       train_embedding_command, [](const Options& o) { return embedding_defaults(o.embedding); },
       true},
      {"pretrain", "texts to a masked-language model, new or learning on (--pretrain.model)",
       pretrain_command, [](const Options&) { return pretrain_defaults(); }, true},
      {"train-seq2seq", "pairs of texts to a T5 or mT5 that writes the second (--seq2seq.train)",
       train_seq2seq_command, [](const Options&) { return seq2seq_defaults(); }, true},
      {"mine",
       "pairs of texts to pairs with hard negatives (--embedding.train, --mining.negatives)",
       mine_command, [](const Options&) { return Preset(); }, true},
      {"prepare", "text to tokenized HDF5 shards", prepare_command, labelling_preset, true},
      {"encode", "text to vectors with --model.encoder", encode_command},
      {"generate", "text that a T5 or mT5 writes for each text (--model.dir)", generate_command},
      {"predict", "labels for new text with a finished model (--model.dir)", predict_command},
      {"select", "documents of a finished run that a person should label next (--run.dir)",
       select_command},
      {"evaluate", "predictions against gold (--eval.predictions, --eval.gold)", evaluate_command},
      {"report", "one HTML page of one or several run folders (--report.runs)", report_command},
      {"plan", "what fits a GPU: memory, batches and time of a job (--plan.gpu, --plan.model)",
       plan_command, plan_preset},
      {"doctor", "checks the launch: ranks, hosts, devices, threads, all-reduce answers and rates",
       doctor_command},
  };
  return table;
}

}  // namespace gpuhpc

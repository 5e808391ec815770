#include "gpuhpc/pipelines/label/taxoclass/self_training.hpp"

#include <algorithm>
#include <cmath>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/comm/run_collectively.hpp"
#include "gpuhpc/infer/encode.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/lines.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/labels/decoding.hpp"
#include "gpuhpc/labels/scoring.hpp"
#include "gpuhpc/labels/vectors.hpp"
#include "gpuhpc/nn/host_matrices.hpp"
#include "gpuhpc/nn/losses.hpp"
#include "gpuhpc/pipelines/corpus_blocks.hpp"
#include "gpuhpc/pipelines/fine_tuning.hpp"
#include "gpuhpc/pipelines/label/model_folder.hpp"
#include "gpuhpc/pipelines/label/taxoclass/ensemble.hpp"
#include "gpuhpc/pipelines/text_encoder.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;

constexpr const char* table_head = "batches\tagreement\tchanged_mass\tentropy\n";

// The classifier learns its own sharpened predictions, until held-out silver labels tell that they
// get worse.
class SelfTraining final : public DocumentTask {
 public:
  SelfTraining(const SelfTrainingStage& stage, const StageContext& c, const GraphTask& task,
               ClassGraphHead& head, ParameterArena& arena)
      : DocumentTask(task.learnt(
            /*all=*/true,
            [this](const PackedIds& batch, DropoutSeed seed) { return loss_of(batch, seed); })),
        stage_(stage),
        c_(c),
        task_(task),
        head_(head),
        arena_(arena) {}

  // Before every step: new targets when they are due; false when quality has passed its best.
  bool before_step(std::int64_t step) override {
    const std::int64_t due = step - step % stage_.options.refresh;
    if (due == step) {
      judge(step);
    } else if (targets_.rows == 0) {
      reload(due);
    } else {
      return true;
    }
    make_targets();
    return waited_ < patience;
  }

  // After the last step: what it left is judged, too, and the best state stays.
  void finish() {
    if (waited_ < patience) judge(stage_.options.batches);
    parameters().copy_(best_);
  }

 private:
  LossSum loss_of(const PackedIds& batch, DropoutSeed seed) const {
    // Not gathered ahead: they change every --taxoclass.refresh steps.
    const at::Tensor targets =
        to_device(gather_rows(targets_.view(), batch.documents), task_.encoder->encoder.device());
    return {binary_divergence(task_.logits(head_, batch, seed), targets),
            static_cast<double>(batch.size())};
  }

  static constexpr int patience = 2;  // new targets without a better agreement

  fs::path refresh_file(std::int64_t step) const {
    return c_.checkpoints / fmt::format("refresh-{:09d}.h5", step);
  }

  // Without the padding at their end, which depends on the number of ranks.
  at::Tensor parameters() const {
    return arena_.parameters().narrow(0, 0, arena_.entries().back().range.last);
  }

  // (N,C) by the model as it is now, every rank its own documents.
  Matrix corpus_probabilities() const {
    const Range own = own_documents(task_.documents->size(), c_.comm);
    Matrix mine(own.size(), task_.taxonomy.size());
    run_collectively(c_.comm, [&] {
      const DocumentEncoder encoder(*task_.encoder, *task_.tokenizer, stage_.infer, c_.device);
      Matrix rows = encoder.encode(token_source(*task_.documents), own);
      normalise_rows(rows.view());
      centre_rows(rows.view(), task_.common);
      class_probabilities(std::as_const(rows).view(), head_.class_vectors().view(), head_.bias(),
                          mine.view(), task_.inputs.graph.link_kind());
      check_scores(std::as_const(mine).view(), task_.taxonomy, [&](std::int64_t i) {
        return fmt::format("document `{}`", task_.documents->id(own.first + i));
      });
    });
    Matrix all(task_.documents->size(), task_.taxonomy.size());
    all.values = c_.comm.all_gather_v(std::span<const float>(mine.values));
    return all;
  }

  void make_targets() {
    FixedSums sums(2, probabilities_.columns);
    add_probability_sums(std::as_const(probabilities_).view(), sums);
    targets_ = Matrix(probabilities_.rows, probabilities_.columns);
    self_training_targets(std::as_const(probabilities_).view(), sums, targets_.view());
  }

  // Of each held-out document's silver classes, the share among as many of its most probable ones:
  // it rests on the order of classes alone, so it means the same under any link and any scale.
  double agreement() const {
    double sum = 0;
    for (const std::int64_t document : task_.held_out) {
      const auto silver = task_.silver.labels.positives.of(document);
      const Decoder best(task_.taxonomy, {.mode = "top-k", .k = std::ssize(silver)});
      const auto found = std::ranges::count_if(
          best.decode(std::as_const(probabilities_).row(document)),
          [&](ClassId c) { return std::ranges::find(silver, c) != silver.end(); });
      sum += static_cast<double>(found) / static_cast<double>(silver.size());
    }
    return task_.held_out.empty() ? 0 : sum / static_cast<double>(task_.held_out.size());
  }

  // New probabilities, and whether they agree better with what was held out. Every rank comes to
  // the same judgement: all hold all probabilities.
  void judge(std::int64_t step) {
    if (step > 0 && probabilities_.rows == 0)  // after a restart
      reload((step - 1) / stage_.options.refresh * stage_.options.refresh);
    probabilities_before_ = std::move(probabilities_);
    probabilities_ = corpus_probabilities();
    double change = 0, entropy = 0;
    for (std::size_t i = 0; i < probabilities_.values.size(); ++i) {
      const double p = std::clamp<double>(probabilities_.values[i], 1e-7, 1 - 1e-7);
      entropy -= p * std::log(p) + (1 - p) * std::log(1 - p);
      if (!probabilities_before_.values.empty())
        change += std::abs(p - static_cast<double>(probabilities_before_.values[i]));
    }
    const auto documents = static_cast<double>(probabilities_.rows);
    const double now = agreement();
    waited_ = now > best_agreement_ || step == 0 || task_.held_out.empty() ? 0 : waited_ + 1;
    if (waited_ == 0) best_agreement_ = now, best_ = parameters().clone();
    on_root(c_.comm, [&] {
      create_folder(c_.checkpoints);
      const fs::path table = c_.checkpoints / "self_training.tsv";
      const std::string line = fmt::format("{}\t{:.5f}\t{:.5f}\t{:.5f}\n", step, now,
                                           change / documents, entropy / documents);
      write_text_file(table,
                      (step == 0 ? std::string(table_head) : rows_before(table, step)) + line);
      const Matrix best = to_matrix(best_);
      const std::vector<double> state{best_agreement_, static_cast<double>(waited_)};
      write_arrays(refresh_file(step), {{"probabilities", std::as_const(probabilities_).view()},
                                        {"best", best.view()},
                                        {"state", std::span<const double>(state)}});
      if (step % stage_.options.refresh == 0) remove_old_refreshes(step);
    });
    if (c_.log && c_.comm.is_root())
      c_.log->info(
          "self-training after {} batches: agreement with held-out silver labels {:.4f}{}, {:.3f} "
          "changed a document, entropy {:.3f}",
          step, now, waited_ == 0 ? ", the best so far" : "", change / documents,
          entropy / documents);
  }

  // All but the newest ones and that which the oldest checkpoint goes on from: the last one before
  // its step.
  void remove_old_refreshes(std::int64_t step) const {
    const std::int64_t every = stage_.options.refresh;
    std::int64_t oldest = step;
    for (const auto& entry : fs::directory_iterator(c_.checkpoints))
      if (const std::string name = entry.path().filename().string();
          name.starts_with("step-") && name.find('.') == name.npos)
        oldest = std::min<std::int64_t>(oldest, std::stoll(name.substr(5)));
    const std::int64_t needed =
        std::min(std::max<std::int64_t>(0, oldest - 1) / every * every, step - 2 * every);
    for (std::int64_t old = needed - every; old >= 0 && fs::exists(refresh_file(old)); old -= every)
      remove_file(refresh_file(old));
  }

  // Head and rows of earlier steps: a restart may come to a step for the second time.
  static std::string rows_before(const fs::path& table, std::int64_t step) {
    std::string kept = table_head;
    LineReader lines(table);
    for (std::string line; lines.next(line);)
      if (line != std::string_view(table_head).substr(0, line.size()) && std::stoll(line) < step)
        kept += line + "\n";
    return kept;
  }

  // After a restart between two refreshes: what the last one left.
  void reload(std::int64_t step) {
    run_collectively(c_.comm, [&] {
      const fs::path path = refresh_file(step);
      const Hdf5File saved(path);
      saved.expect("state", {2});
      probabilities_ =
          read_matrix(path, "probabilities", task_.documents->size(), task_.taxonomy.size());
      const Matrix best = read_matrix(path, "best", 1, parameters().numel());
      best_ = to_tensor(best.values, arena_.parameters().device());
      const auto state = saved.dataset<double>("state");
      best_agreement_ = state[0], waited_ = static_cast<int>(state[1]);
    });
  }

  const SelfTrainingStage& stage_;
  const StageContext& c_;
  const GraphTask& task_;
  ClassGraphHead& head_;
  ParameterArena& arena_;
  Matrix probabilities_, probabilities_before_, targets_;  // (N,C)
  at::Tensor best_;                                        // of parameters()
  double best_agreement_ = -1;
  int waited_ = 0;
};

// Silver labels are those of documents that are easy to label: a head that learnt them is too sure
// of the others. By this temperature its log odds give a posterior over paths that is nearest to
// the sentence encoder's on the training texts. `model` has the encoder.
double temperature_of(const StageContext& c, const SelfTrainingStage& stage, const GraphTask& task,
                      const ClassGraphHead& head, const fs::path& model) {
  constexpr std::int64_t most = 4096;  // documents; they tell one number
  const MappedMatrix posterior(stage.posterior->posterior);
  const std::int64_t count = std::min(most, posterior.view().rows);
  const auto document = [&](std::int64_t i) { return i * posterior.view().rows / count; };
  const TokenSource all = token_source(*task.documents);
  const TokenSource sample{count, [&](std::int64_t i) { return all.tokens(document(i)); },
                           [&](std::int64_t i) { return all.name(document(i)); }};
  Matrix vectors = TextEncoder(model, stage.infer, c.device, c.comm, c.log).encode(sample, c.comm);
  centre_rows(vectors.view(), task.common);
  const Matrix class_vectors = head.class_vectors();
  const PathModel paths = leaf_odds(task.taxonomy, class_vectors.view(), head.bias());
  Matrix logits(count, paths.vectors.rows), targets(count, paths.vectors.rows);
  score_paths(std::as_const(vectors).view(), paths.vectors.view(), logits.view());
  to_logits(logits.view(), paths.hubness, paths.temperature, paths.csls);
  for (std::int64_t i = 0; i < count; ++i)
    std::ranges::copy(posterior.view().row(document(i)), targets.row(i).begin());
  return scaling_temperature(std::as_const(logits).view(), std::as_const(targets).view());
}

}  // namespace

void SelfTrainingStage::check() const {
  if (inputs.graph.link == "sigmoid-exp" && options.labels_from == "ensemble")
    throw usage_error(
        "--taxoclass.link sigmoid-exp gives every class odds above one, which the ensemble cannot "
        "share out; give --taxoclass.labels-from classifier");
}

void SelfTrainingStage::run(const StageContext& c, const SelfTrainingFiles& out) const {
  const GraphTask model(c, inputs, training, {{classifier.model}, teacher.pooling});
  ClassGraphHead head = model.head();
  restore_head(head, classifier.graph);
  if (options.batches == 0) {
    on_root(c.comm, [&] {
      gpuhpc::copy_file(classifier.metrics, out.metrics);
      gpuhpc::copy_file(classifier.ranks, out.ranks);
      write_text_file(out.table, table_head);
    });
  } else {
    ParameterArena arena(
        model.parameters(head, options.encoder_rate, options.head_rate, options.head_rate),
        c.comm.size());
    SelfTraining task(*this, c, model, head, arena);
    Trainer(arena, task, training.trainer.train, train_context(c, training.trainer, out),
            Course{.max_steps = options.batches})
        .run();
    task.finish();
    on_root(c.comm, [&] { gpuhpc::copy_file(c.checkpoints / "self_training.tsv", out.table); });
  }
  on_root(c.comm, [&] { write_graph_model(model, head, out); });
  // The ensemble takes it as it was learnt: its mean with the sentence encoder's is calibrated then
  // (debtags' training side: error of the best class .03, with a divided one .08).
  if (options.labels_from == "classifier" && posterior &&
      inputs.graph.link_kind() == Link::sigmoid) {
    const double temperature = temperature_of(c, *this, model, head, out.model);
    if (c.comm.is_root())
      c.log->info(
          "the classifier's log odds are divided by {:.2f}: as sure as the sentence encoder is of "
          "the training texts",
          temperature);
    on_root(c.comm, [&] { write_class_head(model, head, temperature, out.model); });
  }
  if (options.labels_from != "classifier") {
    std::optional<PathModel> student;
    if (options.labels_from == "ensemble")
      student = leaf_odds(model.taxonomy, head.class_vectors().view(), head.bias());
    write_ensemble(c, {inputs.encoding, *posterior, infer, scoring}, teacher, corpus.is_test,
                   student, out.model);
  }
  on_root(c.comm, [&] { seal_model(out.model); });
}

}  // namespace gpuhpc

#pragma once
// A small model with something in every section, and the most hostile texts in all of them.
#include <cmath>
#include <string>

#include "gpuhpc/report/model.hpp"

namespace gpuhpc::test {

inline const std::string hostile =
    "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)> & \xFF\xFE \x01 "
    "\xE2\x80\xAE";

inline ReportModel example_model(const std::string& text) {
  ReportModel model;
  model.title = "title " + text;
  model.facts = {{"command", "gpuhpc run " + text}, {"ranks", "2"}};
  model.warnings = {"warning " + text};
  model.config = "[eval]\nseed = 1\n# " + text;
  model.stages = {{"1 encoding " + text, 83.2, false}, {"2 refinement", 0.4, true}};
  model.documents = 5;
  model.classes = {{"tools " + text, {}, {1, 2}, 3, 2},
                   {"editors", {0}, {3}, 2, 1},
                   {"games", {0}, {3}, 1, 4},
                   {"level editors", {1, 2}, {}, 1, 0}};
  model.has_gold = true;
  Evaluation evaluation;
  evaluation.documents = 5;
  evaluation.bootstrap_samples = 1000;
  evaluation.figures = {{"example_f1", 0.5, 0.4, 0.6},
                        {"level_1_f1", 0.25, {}, {}},
                        {"mrr_raw", {}, {}, {}},
                        {"precision_at_1", 1.0, 1.0, 1.0}};
  evaluation.classes = {{2, 3, 1}, {1, 2, 1}, {4, 1, 0}, {0, 1, 0}};
  evaluation.levels = {{2, 3, 1}, {5, 3, 1}, {0, 1, 0}};
  model.evaluation = evaluation;
  model.runs = {{"run a " + text, evaluation.figures, {{"encoding " + text, 2, false}}},
                {"run b", {{"example_f1", 0.75, {}, {}}}, {}}};
  model.differences = {{"train.epochs " + text, {"3 " + text, "4"}}};
  model.splits = {{"run a " + text, {1, 2}, {{"compute", {1, 2}}, {"sum", {0.5, 0.5}}}},
                  {"run b", {1}, {{"data", {0.25}}, {"compute", {1}}}}};
  model.ranks = {{.run = "run a " + text,
                  .rank = 0,
                  .host = "node1 " + text,
                  .device = "cpu " + text,
                  .steps = 2,
                  .tokens = 100,
                  .compute = 3},
                 {.run = "run b",
                  .rank = 1,
                  .host = "node2",
                  .device = "cpu",
                  .steps = 2,
                  .tokens = 100,
                  .compute = 6,
                  .times_slower = 1.8}};
  model.histograms = ScoreHistograms{true, {}, {}};
  model.histograms->best.add(0.7f, true);
  model.histograms->best.add(0.71f, false);
  model.histograms->predicted.add(0.2f, true);
  model.confusion = {{0, {1, 2}, {1, 2, 0, 0.5, 3, 1}, 2.5}};
  model.curves = {{"loss " + text,
                   "step",
                   {{"train " + text, {1, 2, 3}, {4, NAN, 2}}, {"held out", {1, 2}, {5, 4}}}}};
  model.examples = {{"id " + text,
                     text + std::string(2000, 'x'),
                     {{{"tools", true, true}, {"editors " + text, true, false}}},
                     {0.4},
                     {{{"tools", true, true}, {"games", false, true}}}}};
  return model;
}

}  // namespace gpuhpc::test

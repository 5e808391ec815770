#pragma once
// All that report.html shows, as plain values. The app fills it; every text may be hostile, the
// page escapes it. A part that is empty leaves its section out of the page.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpuhpc/eval/metrics.hpp"
#include "gpuhpc/eval/results.hpp"

namespace gpuhpc {

struct ReportStage {
  std::string name;
  double seconds = 0;
  bool skipped = false;  // its outputs were there already; `seconds` is what it took then
};

struct ReportClass {
  std::string title;  // "science fiction"
  std::vector<std::int32_t> parents, children;
  std::int64_t predicted = 0;        // documents
  std::optional<std::int64_t> gold;  // documents; none: no gold known
};

struct ReportSeries {
  std::string name;          // "loss"
  std::vector<double> x, y;  // same length; points that are not finite are left out
};

struct ReportCurve {
  std::string title, x_label;
  std::vector<ReportSeries> series;  // share one y axis
};

// One class on the path of an example. Not predicted and not gold: an ancestor that only leads to
// the others.
struct ReportStep {
  std::string title;
  bool predicted = false, gold = false;
};

struct ReportExample {
  std::string id, text;
  std::vector<std::vector<ReportStep>>
      predicted;               // root-to-class paths that end in a predicted class
  std::vector<double> scores;  // of the last class of each predicted path, or empty
  std::vector<std::vector<ReportStep>>
      missed;  // paths that end in a gold class which no predicted path holds
};

// Seconds of the N training steps, part by part.
struct ReportPart {
  std::string name;  // "data", "compute", "sum", "update" or "other": each has its colour
  std::vector<double> seconds;  // (N)
};
struct ReportSplit {
  std::string run;            // empty on the page of one run
  std::vector<double> steps;  // (N) ascending
  std::vector<ReportPart> parts;
};

// What one rank did in the training; seconds are sums over its steps.
struct ReportRank {
  std::string run = {};  // empty on the page of one run
  std::int64_t rank = 0;
  std::string host = {}, device = {};
  std::int64_t steps = 0, tokens = 0, peak_memory = 0;  // bytes
  double data = 0, compute = 0, sum = 0, update = 0, other = 0, wall = 0;
  double times_slower = 1;  // for a token, than the other ranks; above 1: marked
};

struct ReportRun {
  std::string name;
  std::vector<Figure> figures;
  std::vector<ReportStage> stages;
};

struct ReportDifference {
  std::string option;
  std::vector<std::string> values;  // one a run
};

struct ReportModel {
  std::string title;  // "debtags: 2,161 documents in 236 classes"
  std::vector<std::pair<std::string, std::string>> facts;  // command, date, ranks, versions, ...
  std::vector<std::string> warnings;                       // sentences
  std::string config;                                      // resolved config.ini
  std::vector<ReportStage> stages;                         // of the one run
  bool has_gold = false;
  std::optional<Evaluation> evaluation;
  std::vector<ReportRun> runs;                // two or more: a comparison
  std::vector<ReportDifference> differences;  // options in which the runs differ
  std::vector<ReportClass> classes;           // (C) the taxonomy
  std::int64_t documents = 0;
  std::optional<ScoreHistograms> histograms;
  std::vector<SiblingConfusion> confusion;  // class ids are positions in `classes`
  std::vector<ReportCurve> curves;
  std::vector<ReportSplit> splits;  // one a run
  std::vector<ReportRank> ranks;
  std::vector<ReportExample> examples;
};

}  // namespace gpuhpc

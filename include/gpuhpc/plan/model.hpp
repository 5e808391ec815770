#pragma once
// What a plan is made for: the shapes of a model, without its weights.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "gpuhpc/nn/encoder_config.hpp"
#include "gpuhpc/nn/t5.hpp"

namespace gpuhpc {

struct PlannedModel {
  std::string name;  // as the user wrote it
  std::variant<EncoderConfig, T5Config> config;
  bool pooler = false;  // a published BERT's or RoBERTa's tanh head, which counts as theirs

  bool is_t5() const { return std::holds_alternative<T5Config>(config); }
  const EncoderConfig& encoder() const { return std::get<EncoderConfig>(config); }
  const T5Config& t5() const { return std::get<T5Config>(config); }
  std::int64_t vocabulary() const;
  std::int64_t hidden() const;
};

// A folder, a config.json, or the name of a published model. `vocabulary` above 0: rows of the word
// table of a published size. Throws usage_error with the names that there are.
PlannedModel planned_model(const std::string& name, std::int64_t vocabulary = 0);
std::vector<std::string> published_models();

// The parameters that a training holds, as the program builds them: `masked_head` adds that of a
// masked-language model.
std::vector<NamedShape> planned_shapes(const PlannedModel& model, bool masked_head = false);
std::int64_t count_of(const NamedShape& shape);
std::int64_t parameter_count(const PlannedModel& model, bool masked_head = false);

}  // namespace gpuhpc

// The post-processor of a tokenizer.json: which special tokens stand around one text and two.
#include "tokenizer_parts.hpp"

namespace gpuhpc {
namespace {

constexpr const char* cure = "use a model whose input is [CLS] A [SEP] B [SEP] or like it";

std::string named_token(const Members& part, const char* key) {
  const Json& pair = part.array(key);
  if (pair.size() != 2 || !pair[0].is_string())
    throw input_error("{}: \"{}\" must be a token and its id", part.where(), key);
  return pair[0].get<std::string>();
}

std::vector<TemplatePart> read_parts(const Members& part, const char* key) {
  std::vector<TemplatePart> parts;
  for (const Json& entry : part.array(key)) {
    const Members member(entry, part.where() + ": " + key);
    const bool special = member.has("SpecialToken");
    const Members inner = member.object(special ? "SpecialToken" : "Sequence");
    const std::string id = inner.text("id");
    TemplatePart result;
    if (special) {
      result.token = id;
    } else if (id == "A" || id == "B") {
      result.text = id[0];
    } else {
      throw input_error("{}: a sequence must be A or B, found \"{}\"", member.where(), id);
    }
    if (inner.has("type_id")) {
      const Json& segment = inner.at("type_id");
      if (!segment.is_number_unsigned() || segment > 1000)
        throw input_error("{}: \"type_id\" must be a whole number from 0 to 1000", member.where());
      result.segment = segment.get<std::int32_t>();
    }
    parts.push_back(std::move(result));
  }
  return parts;
}

std::string texts(const std::vector<TemplatePart>& parts) {
  std::string order;
  for (const auto& part : parts) {
    if (part.text != 0) order += part.text;
  }
  return order;
}

NamedTemplate read_processing(const Members& part) {
  NamedTemplate result;
  const auto single = read_parts(part, "single");
  std::size_t before = 0;
  while (before < single.size() && single[before].text == 0) ++before;
  const std::size_t after = single.size() - std::min(single.size(), before + 1);
  if (texts(single) != "A" || before > 1 || after > 1) {
    throw input_error("{}: the template for one text must be [CLS] text [SEP]: {}", part.where(),
                      cure);
  }
  if (before == 1) result.cls = single.front().token;
  if (after == 1) result.sep = single.back().token;
  if (part.has("pair")) {
    result.pair = read_parts(part, "pair");
    if (texts(result.pair) != "AB")
      throw input_error("{}: the template for two texts must hold A, then B: {}", part.where(),
                        cure);
  }
  return result;
}

}  // namespace

NamedTemplate read_template(const Members& root) {
  Members part = root.object("post_processor");
  if (part.text("type") == "Sequence") {  // ByteLevel in it only shifts offsets
    const Json* one = nullptr;
    for (const Json& step : part.array("processors")) {
      if (Members(step, part.where()).text("type") == "ByteLevel") continue;
      if (one != nullptr)
        throw input_error("{}: more than one processor is not supported: {}", part.where(), cure);
      one = &step;
    }
    if (one == nullptr) return {};
    part = Members(*one, part.where());
  }
  const std::string type = part.text("type");
  if (type == "ByteLevel") return {};
  if (type == "BertProcessing")
    return bert_template(named_token(part, "cls"), named_token(part, "sep"));
  if (type == "RobertaProcessing")
    return roberta_template(named_token(part, "cls"), named_token(part, "sep"));
  if (type == "TemplateProcessing") return read_processing(part);
  throw input_error(
      "{}: \"{}\" is not supported, only BertProcessing, RobertaProcessing and TemplateProcessing "
      "are: {}",
      part.where(), type, cure);
}

}  // namespace gpuhpc

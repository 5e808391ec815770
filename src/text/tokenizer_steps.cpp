// What stands around the model in a tokenizer.json: normalizer, post_processor, decoder.
#include <algorithm>

#include "tokenizer_parts.hpp"

namespace gpuhpc {
namespace {

constexpr const char* normalizer_cure =
    "use a model with the byte-level BPE of RoBERTa or the SentencePiece Unigram of DeBERTa v3 or "
    "T5";
constexpr const char* template_cure = "use a model whose input is [CLS] A [SEP] B [SEP] or like it";

ReplaceText read_replace(const Members& step) {
  const Members pattern = step.object("pattern");
  ReplaceText result{ReplaceText::Pattern::literal, "", step.text("content")};
  if (pattern.has("Regex")) {
    const std::string regex = pattern.text("Regex");
    if (regex != " {2,}" && regex != "\\s{2,}|[\\n\\r\\t]")
      throw input_error("{}: the pattern \"{}\" is not supported: {}", step.where(), regex,
                        normalizer_cure);
    result.pattern =
        regex == " {2,}" ? ReplaceText::Pattern::spaces : ReplaceText::Pattern::white_space;
    return result;
  }
  result.text = pattern.text("String");
  if (result.text.empty())
    throw input_error("{}: the pattern is empty; take the file of the model again", step.where());
  return result;
}

std::string read_character(const Members& step, const char* key) {
  const std::string text = step.text(key);
  std::size_t end = 0;
  next_code_point(text, end);
  if (text.size() != end) throw input_error("{}: \"{}\" must be one character", step.where(), key);
  return text;
}

JoinSpaced read_metaspace(const Members& step) {
  const bool never = (step.has("prepend_scheme") && step.text("prepend_scheme") == "never") ||
                     !step.boolean("add_prefix_space", true);
  return {read_character(step, "replacement"), !never};
}

std::size_t read_count(const Members& step, const char* key) {
  if (!step.at(key).is_number_unsigned())
    throw input_error("{}: \"{}\" must be a whole number", step.where(), key);
  return step.at(key).get<std::size_t>();
}

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

// A file that says nothing of two texts: the first as one alone, the second with what is behind it.
NamedTemplates bare_pair(std::vector<TemplatePart> single) {
  NamedTemplates result{single, single};
  const auto text = std::ranges::find(single, 'A', &TemplatePart::text);
  for (auto part = text; part != single.end(); ++part)
    result.pair.push_back({part == text ? 'B' : char{0}, part->token, 1});
  return result;
}

NamedTemplates read_processing(const Members& part) {
  NamedTemplates result{read_parts(part, "single"), {}};
  if (texts(result.single) != "A")
    throw input_error("{}: the template for one text must hold A once: {}", part.where(),
                      template_cure);
  for (const TemplatePart& p : result.single) {
    if (p.segment != 0)
      throw input_error("{}: the template for one text must be of \"type_id\" 0: {}", part.where(),
                        template_cure);
  }
  if (!part.has("pair")) return bare_pair(std::move(result.single));
  result.pair = read_parts(part, "pair");
  if (texts(result.pair) != "AB")
    throw input_error("{}: the template for two texts must hold A, then B: {}", part.where(),
                      template_cure);
  return result;
}

}  // namespace

void read_normalizer(const Members& step, std::vector<NormalizerStep>& steps) {
  const std::string type = step.text("type");
  if (type == "Sequence") {
    for (const Json& part : step.array("normalizers"))
      read_normalizer(Members(part, step.where()), steps);
  } else if (type == "NFC") {
    steps.emplace_back(ComposeText{});
  } else if (type == "Lowercase") {
    steps.emplace_back(LowercaseText{});
  } else if (type == "Strip") {
    steps.emplace_back(StripSpaces{step.boolean("strip_left"), step.boolean("strip_right")});
  } else if (type == "Replace") {
    steps.emplace_back(read_replace(step));
  } else if (type == "Precompiled") {
    steps.emplace_back(std::make_shared<const Charsmap>(
        decode_base64(step.text("precompiled_charsmap"), step.where()), step.where()));
  } else {
    throw input_error(
        "{}: normalizer \"{}\" is not supported, only NFC, Lowercase, Strip, Replace and "
        "Precompiled are: {}",
        step.where(), type, normalizer_cure);
  }
}

void read_decoder(const Members& step, std::vector<DecoderStep>& steps) {
  const std::string type = step.text("type");
  if (type == "Sequence") {
    for (const Json& part : step.array("decoders"))
      read_decoder(Members(part, step.where()), steps);
  } else if (type == "WordPiece") {
    steps.emplace_back(JoinPieces{step.text("prefix"), step.boolean("cleanup", true)});
  } else if (type == "ByteLevel") {
    steps.emplace_back(JoinBytes{});
  } else if (type == "Metaspace") {
    steps.emplace_back(read_metaspace(step));
  } else if (type == "ByteFallback") {
    steps.emplace_back(JoinByteTokens{});
  } else if (type == "Fuse") {
    steps.emplace_back(FuseTokens{});
  } else if (type == "Strip") {
    steps.emplace_back(StripCharacter{read_character(step, "content"), read_count(step, "start"),
                                      read_count(step, "stop")});
  } else if (type == "Replace") {
    steps.emplace_back(read_replace(step));
  } else {
    throw input_error(
        "{}: decoder \"{}\" is not supported, only WordPiece, ByteLevel, Metaspace, ByteFallback, "
        "Fuse, Strip and Replace are; use a model of the BERT, RoBERTa, DeBERTa or T5 family",
        step.where(), type);
  }
}

// The post-processor: which special tokens stand around one text and two.
NamedTemplates read_templates(const Members& root) {
  Members part = root.object("post_processor");
  if (part.text("type") == "Sequence") {  // ByteLevel in it only shifts offsets
    const Json* one = nullptr;
    for (const Json& step : part.array("processors")) {
      if (Members(step, part.where()).text("type") == "ByteLevel") continue;
      if (one != nullptr)
        throw input_error("{}: more than one processor is not supported: {}", part.where(),
                          template_cure);
      one = &step;
    }
    if (one == nullptr) return {};
    part = Members(*one, part.where());
  }
  const std::string type = part.text("type");
  if (type == "ByteLevel") return {};
  if (type == "BertProcessing")
    return bert_templates(named_token(part, "cls"), named_token(part, "sep"));
  if (type == "RobertaProcessing")
    return roberta_templates(named_token(part, "cls"), named_token(part, "sep"));
  if (type == "TemplateProcessing") return read_processing(part);
  throw input_error(
      "{}: \"{}\" is not supported, only BertProcessing, RobertaProcessing and TemplateProcessing "
      "are: {}",
      part.where(), type, template_cure);
}

NamedTemplates bert_templates(const std::string& cls, const std::string& sep) {
  return {{{0, cls, 0}, {'A', "", 0}, {0, sep, 0}},
          {{0, cls, 0}, {'A', "", 0}, {0, sep, 0}, {'B', "", 1}, {0, sep, 1}}};
}

NamedTemplates roberta_templates(const std::string& cls, const std::string& sep) {
  return {{{0, cls, 0}, {'A', "", 0}, {0, sep, 0}},
          {{0, cls, 0}, {'A', "", 0}, {0, sep, 0}, {0, sep, 0}, {'B', "", 0}, {0, sep, 0}}};
}

SpecialNames read_names(const Members& config) {
  const auto name = [&](const char* key) -> std::string {
    if (!config.has(key)) return "";
    return config.at(key).is_object() ? config.object(key).text("content") : config.text(key);
  };
  return {name("cls_token"), name("sep_token"),  name("pad_token"),
          name("unk_token"), name("mask_token"), name("eos_token")};
}

}  // namespace gpuhpc

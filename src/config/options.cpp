#include "gpuhpc/config/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <cctype>
#include <charconv>
#include <cmath>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/base/utf8.hpp"
#include "gpuhpc/config/ini.hpp"

namespace gpuhpc::config {
namespace po = boost::program_options;
namespace {

constexpr const char* command_line = "command line";  // where an option was given

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string describe_type(const std::string& type) {
  return type == "integer"  ? "a whole number"
         : type == "number" ? "a number"
         : type == "flag"   ? "true or false"
                            : "text";
}

std::string or_word(const std::string& word) { return word.empty() ? "" : " or " + word; }

// What help and docs show for the value; `separator` stands between words.
std::string placeholder(const std::string& type, const std::vector<std::string>& words,
                        const std::string& word, const char* separator) {
  if (!words.empty()) return fmt::format("{}", fmt::join(words, separator));
  return (type == "flag" ? "true|false" : type) + or_word(word);
}

}  // namespace

std::vector<std::string> split_list(const std::string& list) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    words.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return words;
}

Option& Option::one_of(std::vector<std::string> values) {
  words_ = std::move(values);
  return *this;
}
Option& Option::range(double low, double high) {
  low_ = low;
  high_ = high;
  ranged_ = true;
  return *this;
}
Option& Option::unit(std::string unit) {
  unit_ = std::move(unit);
  return *this;
}
Option& Option::existing_path() {
  path_ = true;
  return *this;
}
Option& Option::execution() {
  execution_ = true;
  return *this;
}
Option& Option::common() {
  common_ = true;
  return *this;
}
Option& Option::word(std::string word, std::int64_t value) {
  word_ = std::move(word);
  set_ = [set = std::move(set_), word = word_, number = std::to_string(value)](
             const std::string& text) { return set(text == word ? number : text); };
  get_ = [get = std::move(get_), word = word_, number = std::to_string(value)] {
    const std::string text = get();
    return text == number ? word : text;
  };
  default_ = get_();
  return *this;
}

Option& Section::add(const std::string& key, std::string help, std::string type) {
  Option& option = options_.emplace_back();
  option.name_ = name_ + "." + key;
  option.help_ = std::move(help);
  option.type_ = std::move(type);
  return option;
}

Option& Section::option(const std::string& key, bool& target, std::string help) {
  Option& option = add(key, std::move(help), "flag");
  option.set_ = [&target](const std::string& text) {
    if (text != "true" && text != "false") return false;
    target = text == "true";
    return true;
  };
  option.get_ = [&target] { return std::string(target ? "true" : "false"); };
  option.default_ = option.get_();
  return option;
}
Option& Section::option(const std::string& key, std::int64_t& target, std::string help) {
  Option& option = add(key, std::move(help), "integer");
  option.set_ = [&target](const std::string& text) { return parse_number(text, target); };
  option.get_ = [&target] { return std::to_string(target); };
  option.default_ = option.get_();
  return option;
}
Option& Section::option(const std::string& key, double& target, std::string help) {
  Option& option = add(key, std::move(help), "number");
  option.set_ = [&target](const std::string& text) { return parse_number(text, target); };
  option.get_ = [&target] { return fmt::format("{}", target); };
  option.default_ = option.get_();
  return option;
}
Option& Section::option(const std::string& key, std::string& target, std::string help) {
  Option& option = add(key, std::move(help), "text");
  option.set_ = [&target](const std::string& text) {
    target = text;
    return true;
  };
  option.get_ = [&target] { return target; };
  option.default_ = option.get_();
  return option;
}

Section& OptionSet::section(const std::string& name, const std::string& about) {
  for (Section& section : sections_)
    if (section.name_ == name) return section;
  return sections_.emplace_back(name, about);
}

const Option* OptionSet::find(const std::string& name) const {
  for (const Section& section : sections_)
    if (!is_pattern(section))
      for (const Option& option : section.options_)
        if (option.name_ == name) return &option;
  return nullptr;
}
Option* OptionSet::find(const std::string& name) {
  return const_cast<Option*>(std::as_const(*this).find(name));
}

bool OptionSet::is_pattern(const Section& section) const {
  return std::ranges::any_of(families_, [&](const Family& f) { return f.pattern == &section; });
}

// PREFIX.name.key: its section, where that is the first option of it.
void OptionSet::add_section_of(const std::string& name) {
  const std::size_t end = name.rfind('.');
  for (const Family& family : families_) {
    if (!name.starts_with(family.prefix + ".") || end <= family.prefix.size()) continue;
    const std::string own = name.substr(family.prefix.size() + 1, end - family.prefix.size() - 1);
    const bool word = !own.empty() && std::ranges::all_of(own, [](unsigned char c) {
      return std::isalnum(c) || c == '-' || c == '_';
    });
    const bool there = std::ranges::any_of(sections_, [&](const Section& section) {
      return !is_pattern(section) && section.name_ == name.substr(0, end);
    });
    if (word && !there) return family.add(own);
  }
}

// "`a`" or "`a` or `b`": the option whose name is a letter or two away; else those of the section,
// or of any, that are called so, have the word in their name or say it in their help. Empty: none,
// or too many.
std::string OptionSet::nearest(const std::string& name) const {
  const std::size_t dot = name.rfind('.');
  const std::string section = dot == name.npos ? "" : name.substr(0, dot),
                    key = dot == name.npos ? name : name.substr(dot + 1);
  std::string spoken = key, best;
  std::ranges::replace(spoken, '-', ' ');
  std::size_t best_distance = std::min<std::size_t>(3, name.size());
  std::array<std::vector<std::string>, 6> near;  // the nearest first
  for (const Section& each : sections_) {
    if (is_pattern(each)) continue;
    for (const Option& option : each.options_) {
      if (const std::size_t distance = edit_distance(name, option.name_); distance < best_distance)
        best_distance = distance, best = option.name_;
      const std::string other = option.name_.substr(each.name_.size() + 1);
      const bool inside = other.find(key) != other.npos || key.find(other) != key.npos,
                 said = option.help_.find(spoken) != std::string::npos;
      const std::size_t kind = other == key ? 0
                               : inside     ? 1
                                            : 2,
                        far = each.name_ == section ? 0 : 3;
      if (key.size() > 1 && (inside || said)) near[far + kind].push_back("`" + option.name_ + "`");
    }
  }
  if (!best.empty()) return "`" + best + "`";
  const auto found = std::ranges::find_if(near, [](const auto& names) { return !names.empty(); });
  constexpr std::size_t most = 4;
  if (found == near.end() || found->size() > most) return "";
  const std::string last = found->back();
  found->pop_back();
  return found->empty() ? last : fmt::format("{} or {}", fmt::join(*found, ", "), last);
}

void OptionSet::assign(const std::string& name, const std::string& value, const std::string& where,
                       std::vector<std::string>& problems) {
  Option* option = find(name);
  if (option == nullptr) {
    const std::string near = nearest(name), own = name.substr(0, name.rfind('.'));
    const bool known = std::ranges::find(sections_, own, &Section::name_) != sections_.end();
    problems.push_back(
        fmt::format("{}: unknown option `{}`; {}", where, name,
                    near.empty() ? fmt::format("--help {} lists what there is", known ? own : "all")
                                 : fmt::format("did you mean {}?", near)));
    return;
  }
  if (find_invalid_utf8(value) != std::string_view::npos) {
    problems.push_back(
        fmt::format("{}: the value of `{}` is not UTF-8, which no file of ours could hold; rename "
                    "what it names",
                    where, name));
    return;
  }
  const std::string before = option->get_();
  if (!option->set_(value)) {
    problems.push_back(fmt::format("{}: `{}` must be {}{}, not `{}`", where, name,
                                   describe_type(option->type_), or_word(option->word_), value));
    return;
  }
  if (!option->words_.empty() &&
      std::find(option->words_.begin(), option->words_.end(), value) == option->words_.end()) {
    problems.push_back(fmt::format("{}: `{}` must be one of {}, not `{}`", where, name,
                                   fmt::join(option->words_, ", "), value));
    option->set_(before);
  } else if (option->ranged_ && value != option->word_ &&
             (std::stod(value) < option->low_ || std::stod(value) > option->high_)) {
    problems.push_back(fmt::format("{}: `{}` must be between {} and {}{}, not {}", where, name,
                                   option->low_, option->high_, or_word(option->word_), value));
    option->set_(before);
  } else {
    option->given_ = true;
    option->where_ = where;
  }
}

void OptionSet::parse(const std::filesystem::path& file, const std::vector<std::string>& arguments,
                      std::vector<std::string>* missing) {
  std::vector<std::string> problems;
  std::vector<IniLine> lines;
  try {
    if (!file.empty()) lines = read_ini(file);
  } catch (const Error& error) {
    throw usage_error("{}", error.what());
  }
  for (const IniLine& line : lines) add_section_of(line.name);
  for (const std::string& word : arguments)
    if (word.starts_with("--")) add_section_of(word.substr(2, word.find('=') - 2));
  po::options_description description;
  for (const Section& section : sections_)
    for (const Option& option : section.options_)
      if (!is_pattern(section))
        description.add_options()(option.name_.c_str(), po::value<std::string>());
  const auto assign_all = [&](const po::parsed_options& parsed) {
    const std::string where = command_line;
    // the word behind an unknown option is its value: one mistake, one sentence
    bool after_unknown = false;
    for (const auto& given : parsed.options) {
      const bool value_of_unknown = after_unknown && given.position_key >= 0;
      after_unknown = given.unregistered && given.position_key < 0 && given.value.empty();
      if (value_of_unknown) continue;
      if (given.position_key >= 0 && given.unregistered == false)
        problems.push_back(
            fmt::format("{}: unexpected argument `{}`; options are written --section.key VALUE",
                        where, fmt::join(given.value, " ")));
      else
        assign(given.string_key, given.value.empty() ? "" : given.value.back(), where, problems);
    }
  };
  for (const IniLine& line : lines) assign(line.name, line.value, line.where, problems);
  try {
    const int style =
        po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
    assign_all(po::command_line_parser(arguments)
                   .options(description)
                   .style(style)
                   .allow_unregistered()
                   .run());
    // e.what() is not asked for: it puts the user's text into a template again and again, and a
    // text with the template's own marks in it makes that endless.
  } catch (const po::error_with_option_name& e) {
    problems.push_back(
        fmt::format("command line: `{}` has no value, or is not written as --section.key VALUE; "
                    "see gpuhpc --help",
                    e.get_option_name()));
  } catch (const po::error& e) {
    problems.push_back(fmt::format("command line: {}; see gpuhpc --help", e.what()));
  }
  // Paths last: the command line may have put another one in the place of the file's. A default
  // that stands in a run's config is nobody's choice, and is looked for where it is read.
  for (const Section& section : sections_)
    for (const Option& option : section.options_)
      if (const std::string value = option.get_(); option.path_ && option.given_ &&
                                                   value != option.default_ && !value.empty() &&
                                                   value != "-" && !std::filesystem::exists(value))
        (missing == nullptr ? problems : *missing)
            .push_back(fmt::format("{}: `{}` names `{}`, which does not exist; check the path",
                                   option.where_, option.name_, value));
  if (!problems.empty()) throw usage_error("{}", fmt::join(problems, "\n"));
}

bool OptionSet::given(const std::string& name) const {
  const Option* option = find(name);
  return option != nullptr && option->given_;
}

std::vector<std::string> OptionSet::given_on_command_line() const {
  std::vector<std::string> names;
  for (const Section& section : sections_)
    for (const Option& option : section.options_)
      if (option.given_ && option.where_ == command_line) names.push_back(option.name_);
  return names;
}

void OptionSet::set_default(const std::string& name, const std::string& value) {
  Option* option = find(name);
  if (option == nullptr) throw internal_error("preset sets an unknown option {}", name);
  if (!option->given_ && !option->set_(value))
    throw internal_error("preset value {} does not fit {}", value, name);
}

std::string OptionSet::value(const std::string& name) const {
  if (const Option* option = find(name)) return option->get_();
  for (const Family& family : families_)
    for (const Option& option : family.pattern->options_)
      if (option.name_ == name) return option.get_();
  throw internal_error("unknown option {}", name);
}

bool OptionSet::decides_results(const std::string& name) const {
  const Option* option = find(name);
  return option != nullptr && !option->execution_;
}

std::vector<std::string> Section::settings() const {
  std::vector<std::string> lines;
  for (const Option& option : options_)
    if (!option.execution_) lines.push_back(option.name_ + " = " + option.get_());
  return lines;
}

std::vector<std::string> OptionSet::names() const {
  std::vector<std::string> names;
  for (const Section& section : sections_)
    for (const Option& option : section.options_)
      if (std::ranges::find(names, option.name_) == names.end()) names.push_back(option.name_);
  return names;
}

std::string OptionSet::help(const std::vector<std::string>& words) const {
  const bool all = std::ranges::find(words, "all") != words.end();
  std::vector<std::string> known;
  for (const Section& section : sections_) known.push_back(section.name_);
  for (const std::string& word : words)
    if (word != "all" && std::ranges::find(known, word) == known.end())
      throw usage_error("--help {}: no such section; the sections are {}", word,
                        fmt::join(known, ", "));
  std::string text;
  for (const Section& section : sections_) {
    const bool whole = all || std::ranges::find(words, section.name_) != words.end();
    std::string lines;
    for (const Option& option : section.options_) {
      if (!whole && !(words.empty() && option.common_)) continue;
      lines +=
          fmt::format("  --{} {}\n      {}", option.name_,
                      placeholder(option.type_, option.words_, option.word_, "|"), option.help_);
      if (!option.unit_.empty()) lines += fmt::format(" [{}]", option.unit_);
      lines += fmt::format(" (default: {})\n", option.default_.empty() ? "none" : option.default_);
    }
    if (!lines.empty()) text += fmt::format("\n[{}] {}\n{}", section.name_, section.about_, lines);
  }
  if (words.empty())
    text += fmt::format(
        "\nThese are the options most people use. --help all shows every one, --help SECTION one "
        "of {}.\n",
        fmt::join(known, ", "));
  return text;
}

std::string OptionSet::markdown() const {
  std::string text;
  for (const Section& section : sections_) {
    text +=
        fmt::format("\n## [{}]\n{}\n\n| option | value | default | meaning |\n|---|---|---|---|\n",
                    section.name_, section.about_);
    for (const Option& option : section.options_)
      text += fmt::format("| `--{}` | {}{} | {} | {} |\n", option.name_,
                          placeholder(option.type_, option.words_, option.word_, ", "),
                          option.unit_.empty() ? "" : " (" + option.unit_ + ")",
                          option.default_.empty() ? "" : "`" + option.default_ + "`", option.help_);
  }
  return text;
}

std::string OptionSet::ini() const {
  std::string text;
  for (const Section& section : sections_) {
    if (is_pattern(section)) continue;
    text += fmt::format("[{}]\n", section.name_);
    for (const Option& option : section.options_) {
      const std::string value = option.get_();
      text += fmt::format("{}{} = {}\n", value.empty() && option.default_.empty() ? "# " : "",
                          option.name_.substr(section.name_.size() + 1), ini_value(value));
    }
    text += "\n";
  }
  return text;
}

}  // namespace gpuhpc::config

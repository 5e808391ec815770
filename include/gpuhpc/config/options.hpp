#pragma once
// One declaration per option gives the command line, the INI file, --help, the docs table, the
// resolved config.ini and its part in a stage's fingerprint. Each room owns a struct per section,
//   struct XOptions { static constexpr const char* section = "x"; ... };
//   void declare(config::Section&, XOptions&);
// and strings stop here.
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace gpuhpc::config {

class Option {
 public:
  Option& one_of(std::vector<std::string> values);  // allowed words
  Option& range(double low, double high);           // inclusive, for numbers
  Option& unit(std::string unit);                   // shown in help
  Option& existing_path();                          // when set, the file or folder must exist
  Option& word(
      std::string word,
      std::int64_t value);  // a name for one value of a whole number, read and written in its place
  // It changes how a result is computed, not the result: no part of a fingerprint.
  Option& execution();
  Option& common();                                  // stands in the short --help
  const std::string& name() const { return name_; }  // "section.key"

 private:
  friend class Section;
  friend class OptionSet;
  std::string name_, help_, type_, unit_, default_, word_;
  std::vector<std::string> words_;
  double low_ = 0, high_ = 0;
  std::string where_;  // the file or command line that gave the value
  bool ranged_ = false, path_ = false, given_ = false, execution_ = false, common_ = false;
  std::function<bool(const std::string&)> set_;  // false: not a value of this type
  std::function<std::string()> get_;
};

class Section {
 public:
  Section(std::string name, std::string about) : name_(std::move(name)), about_(std::move(about)) {}
  // The target's present value is the default.
  Option& option(const std::string& key, bool& target, std::string help);
  Option& option(const std::string& key, std::int64_t& target, std::string help);
  Option& option(const std::string& key, double& target, std::string help);
  Option& option(const std::string& key, std::string& target, std::string help);
  const std::string& name() const { return name_; }
  // "section.key = value" of every option that results depend on.
  std::vector<std::string> settings() const;

 private:
  friend class OptionSet;
  Option& add(const std::string& key, std::string help, std::string type);
  std::string name_, about_;
  std::deque<Option> options_;
};

template <class T>
concept Options = requires(T options, Section& section) {
  { T::section } -> std::convertible_to<std::string>;
  declare(section, options);
};

// Section::settings() of one struct.
template <Options T>
std::vector<std::string> settings_of(T options) {
  Section section(T::section, "");
  declare(section, options);
  return section.settings();
}

// The whole text as a finite number; false, and nothing changed, where it is none.
template <typename T>
bool parse_number(const std::string& text, T& target) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return false;
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(value)) return false;
  target = value;
  return true;
}

// The words of a list with commas, empty ones too.
std::vector<std::string> split_list(const std::string& list);

// One of the sections [PREFIX.NAME], of which the user may write any number.
template <Options T>
struct Named {
  std::string name;
  T options = {};
};

class OptionSet {
 public:
  // The section of that name, made at the first call; several rooms may add to one.
  Section& section(const std::string& name, const std::string& about = "");
  // Declares structs of one section.
  template <Options First, Options... Rest>
  void add(const std::string& about, First& first, Rest&... rest) {
    Section& section = this->section(First::section, about);
    declare(section, first);
    (declare(section, rest), ...);
  }
  // Declares a struct for each section [PREFIX.name], PREFIX being T::section, that the user
  // writes, in their order; help and docs show it once, as [PREFIX.NAME].
  template <Options T>
  void add_each(const std::string& about, std::deque<Named<T>>& list) {
    const std::string prefix = T::section;
    const auto shown = std::make_shared<T>();
    Section& pattern = section(prefix + ".NAME", about);
    declare(pattern, *shown);
    families_.push_back({prefix, &pattern, shown, [this, about, &list, prefix](std::string name) {
                           list.push_back({std::move(name)});
                           Section& added =
                               sections_.emplace_back(prefix + "." + list.back().name, about);
                           declare(added, list.back().options);
                         }});
  }
  // Defaults < file < command line. Every problem is reported at once in one usage_error (exit 2);
  // unknown keys are fatal and name the nearest known one. `file` empty: no file.
  // Files and folders that do not exist are such problems too, or go to `missing`.
  void parse(const std::filesystem::path& file, const std::vector<std::string>& arguments,
             std::vector<std::string>* missing = nullptr);
  bool given(const std::string& name) const;
  std::vector<std::string> given_on_command_line() const;  // "section.key", in order of declaration
  // Sets an option that the user has not given (presets); `name` is "section.key".
  void set_default(const std::string& name, const std::string& value);
  // Text for --help: with no words the common options alone, "all", or the sections that are named.
  // Throws usage_error for a section that is not there.
  std::string help(const std::vector<std::string>& words = {}) const;
  std::string markdown() const;  // docs table
  std::string ini() const;       // resolved values, readable by parse()
  std::string value(const std::string& name) const;
  bool decides_results(const std::string& name) const;  // not an option of execution alone
  // "section.key" of every option, of sections of which there may be several once, with NAME.
  std::vector<std::string> names() const;

 private:
  struct Family {
    std::string prefix;
    const Section* pattern;       // that help and docs show; it is never set
    std::shared_ptr<void> shown;  // its options
    std::function<void(std::string name)> add;
  };
  Option* find(const std::string& name);
  const Option* find(const std::string& name) const;
  bool is_pattern(const Section& section) const;
  void add_section_of(const std::string& name);
  void assign(const std::string& name, const std::string& value, const std::string& where,
              std::vector<std::string>& problems);
  std::string nearest(const std::string& name) const;
  std::deque<Section> sections_;
  std::vector<Family> families_;
};

}  // namespace gpuhpc::config

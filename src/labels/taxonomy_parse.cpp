// labels.txt and label_hierarchy.txt, from files or from text in memory.
#include <charconv>
#include <utility>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/lines.hpp"
#include "gpuhpc/labels/taxonomy.hpp"

namespace gpuhpc {
namespace {

constexpr std::int64_t largest_id = (std::int64_t{1} << 31) - 2;
constexpr std::int64_t largest_file = std::int64_t{256} << 20;  // bytes of text

struct Fields {
  std::string_view first, second;
};

Fields split_line(std::string_view line, const std::string& where, std::string_view form) {
  const std::size_t tab = line.find('\t');
  if (tab == std::string_view::npos)
    throw input_error("{}: no tab in the line; write `{}`", where, form);
  if (line.find('\t', tab + 1) != std::string_view::npos)
    throw input_error("{}: more than one tab in the line; write `{}`", where, form);
  return {line.substr(0, tab), line.substr(tab + 1)};
}

ClassId parse_id(std::string_view text, const std::string& where) {
  std::int64_t id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id < 0 || id > largest_id)
    throw input_error("{}: `{}` is not a class id; class ids are whole numbers from 0", where,
                      text.substr(0, 40));
  return static_cast<ClassId>(id);
}

// Calls `take(line, where)` for every line that is not blank.
template <typename Take>
void for_each_line(std::string_view text, const std::string& file, Take take) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);
  std::int64_t number = 0;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    check_text(line, file, ++number);
    if (!line.empty()) take(line, file + ":" + std::to_string(number));
  }
}

}  // namespace

class Taxonomy::Parser {
 public:
  void take_label(std::string_view line, const std::string& where) {
    const Fields fields = split_line(line, where, "id<TAB>name");
    const ClassId id = parse_id(fields.first, where);
    if (fields.second.empty())
      throw input_error("{}: class {} has no name; write `id<TAB>name`", where, id);
    const auto [entry, fresh] = labels_.try_emplace(id, Label{std::string(fields.second), where});
    if (!fresh)
      throw input_error("{}: class id {} stands already at {}; give every class an id of its own",
                        where, id, entry->second.where);
  }

  void take_edge(std::string_view line, const std::string& where) {
    const Fields fields = split_line(line, where, "parent<TAB>child");
    const TaxonomyEdge edge{parse_id(fields.first, where), parse_id(fields.second, where)};
    for (const ClassId c : {edge.parent, edge.child})
      if (!labels_.contains(c))
        throw input_error("{}: class id {} is not in {}; add it there or remove this line", where,
                          c, labels_name_);
    edges_.push_back(edge);
    edge_where_.push_back(where);
  }

  void finish_labels(const std::string& labels_name) {
    labels_name_ = labels_name;
    if (labels_.empty())
      throw input_error("{}:1: the file holds no class; write one `id<TAB>name` a line",
                        labels_name);
    const auto count = static_cast<ClassId>(labels_.size());
    for (ClassId c = 0; c < count; ++c)
      if (!labels_.contains(c)) {
        std::string where;
        for (const auto& [id, label] : labels_)
          if (id >= count) where = label.where;
        throw input_error(
            "{}: the file lists {} classes, so ids must run from 0 to {}, but {} is missing; "
            "number the classes without gaps",
            where, count, count - 1, c);
      }
  }

  Taxonomy finish() {
    std::vector<std::string> names(labels_.size()), where(labels_.size());
    for (auto& [id, label] : labels_) {
      names[static_cast<std::size_t>(id)] = std::move(label.name);
      where[static_cast<std::size_t>(id)] = std::move(label.where);
    }
    return Taxonomy(
        std::move(names), edges_, [&](std::size_t c) { return where[c]; },
        [&](std::size_t i) { return edge_where_[i]; });
  }

 private:
  struct Label {
    std::string name, where;
  };
  std::unordered_map<ClassId, Label> labels_;
  std::string labels_name_;
  std::vector<TaxonomyEdge> edges_;
  std::vector<std::string> edge_where_;
};

Taxonomy Taxonomy::parse(std::string_view labels, const std::string& labels_name,
                         std::string_view hierarchy, const std::string& hierarchy_name) {
  Parser parser;
  for_each_line(labels, labels_name,
                [&](auto line, const auto& where) { parser.take_label(line, where); });
  parser.finish_labels(labels_name);
  for_each_line(hierarchy, hierarchy_name,
                [&](auto line, const auto& where) { parser.take_edge(line, where); });
  return parser.finish();
}

Taxonomy Taxonomy::load(const std::filesystem::path& labels,
                        const std::filesystem::path& hierarchy) {
  return parse(read_lines(labels, largest_file), labels.string(),
               read_lines(hierarchy, largest_file), hierarchy.string());
}

}  // namespace gpuhpc

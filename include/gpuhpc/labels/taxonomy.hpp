#pragma once
// The class taxonomy: an immutable directed acyclic graph of named classes with any number of
// roots, checked when made.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace gpuhpc {

using ClassId = std::int32_t;            // 0 .. size() - 1
using ClassPath = std::vector<ClassId>;  // root first

struct TaxonomyEdge {
  ClassId parent = 0, child = 0;
};

class Taxonomy {
 public:
  static constexpr std::int64_t max_depth = 64;                        // levels
  static constexpr std::int64_t max_paths = std::int64_t{1} << 17;     // root-to-leaf paths
  static constexpr std::int64_t max_ancestry = std::int64_t{1} << 25;  // (class, ancestor) pairs

  Taxonomy() = default;  // no classes
  // Throws input_error: an empty name, siblings of one name, an unknown id, a self edge, a cycle,
  // too many paths. An edge that is listed twice counts once.
  Taxonomy(std::vector<std::string> names, const std::vector<TaxonomyEdge>& edges);

  // labels: `id<TAB>name`, ids 0..n-1 in any order; hierarchy: `parent<TAB>child`; one without
  // lines: a flat list. Errors are input_errors "FILE:LINE: ...". Plain or .gz.
  static Taxonomy load(const std::filesystem::path& labels, const std::filesystem::path& hierarchy);
  // The same from text in memory; the names stand in messages.
  static Taxonomy parse(std::string_view labels, const std::string& labels_name,
                        std::string_view hierarchy, const std::string& hierarchy_name);

  std::int64_t size() const { return static_cast<std::int64_t>(names_.size()); }
  const std::string& name(ClassId c) const { return names_[index(c)]; }  // as in the file
  // What tells the class from all others, in every file that names classes: its name, or where
  // several classes have it, its first path: `tools > other`, of a root `> other`.
  const std::vector<std::string>& labels() const { return labels_; }
  const std::string& label(ClassId c) const { return labels_[index(c)]; }
  const std::string& title(ClassId c) const { return titles_[index(c)]; }  // class_title(label)
  std::optional<ClassId> find(std::string_view label) const;
  std::vector<ClassId> named(std::string_view name) const;  // all classes of this name

  // All lists ascend and never hold c itself.
  std::span<const ClassId> parents(ClassId c) const { return parents_.of(c); }
  std::span<const ClassId> children(ClassId c) const { return children_.of(c); }
  std::span<const ClassId> ancestors(ClassId c) const { return ancestors_.of(c); }
  std::span<const ClassId> descendants(ClassId c) const { return descendants_.of(c); }
  // Every other child of any parent of c; of a root: the other roots.
  std::vector<ClassId> siblings(ClassId c) const;
  const std::vector<ClassId>& roots() const { return roots_; }
  const std::vector<ClassId>& leaves() const { return leaves_; }
  bool is_leaf(ClassId c) const { return children(c).empty(); }
  bool is_root(ClassId c) const { return parents(c).empty(); }
  // Classes on the longest path from a root to c; roots have 1, and every parent less than its
  // child.
  std::int64_t depth(ClassId c) const { return depths_[index(c)]; }

  // Every root-to-leaf path, depth first with ascending ids: a leaf with two parents ends two
  // paths, a class that is its own root and leaf is a path of length 1.
  const std::vector<ClassPath>& paths() const { return paths_; }
  ClassId path_leaf(std::int64_t k) const { return paths_[static_cast<std::size_t>(k)].back(); }
  // Indices into paths() of those that go through c, ascending.
  std::span<const std::int32_t> paths_through(ClassId c) const { return paths_through_.of(c); }
  // Root .. c, by the lowest parent id at every step.
  ClassPath first_path(ClassId c) const;
  // Classes and all their ancestors, ascending, each once.
  std::vector<ClassId> with_ancestors(std::span<const ClassId> classes) const;

 private:
  struct Lists {  // one list of ids per class
    std::vector<std::int64_t> offsets{0};
    std::vector<std::int32_t> values;
    std::span<const std::int32_t> of(ClassId c) const {
      const auto i = static_cast<std::size_t>(c);
      return {values.data() + offsets[i], values.data() + offsets[i + 1]};
    }
  };
  using Where = std::function<std::string(std::size_t)>;  // where one stands, for messages
  Taxonomy(std::vector<std::string> names, const std::vector<TaxonomyEdge>& edges,
           const Where& name_where, const Where& edge_where);
  class Parser;
  static std::size_t index(ClassId c) { return static_cast<std::size_t>(c); }
  static Lists lists_of(std::vector<std::vector<std::int32_t>> rows);
  void take_edges(const std::vector<TaxonomyEdge>& edges, const Where& where);
  std::vector<ClassId> topological_order(const std::vector<TaxonomyEdge>& edges,
                                         const Where& where) const;
  void find_depths(const std::vector<ClassId>& order);
  void find_closure(const std::vector<ClassId>& order);
  void check_path_count(const std::vector<ClassId>& order) const;
  void find_paths();
  void refuse_twins(std::span<const ClassId> siblings, const Where& where) const;
  void tell_apart(const Where& where);

  std::vector<std::string> names_, titles_, labels_;
  std::unordered_map<std::string, ClassId> by_label_;
  Lists parents_, children_, ancestors_, descendants_, paths_through_;
  std::vector<ClassId> roots_, leaves_;
  std::vector<std::int64_t> depths_;
  std::vector<ClassPath> paths_;
};

// Lower case (ASCII), `_` and `::` to one space.
std::string class_title(std::string_view name);

}  // namespace gpuhpc

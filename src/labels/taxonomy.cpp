#include "gpuhpc/labels/taxonomy.hpp"

#include <algorithm>
#include <utility>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

using Rows = std::vector<std::vector<ClassId>>;

void sort_unique(std::vector<ClassId>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

}  // namespace

std::string class_title(std::string_view name) {
  std::string title;
  for (std::size_t i = 0; i < name.size(); ++i) {
    char c = name[i];
    if (c == ':' && i + 1 < name.size() && name[i + 1] == ':') {
      c = ' ';
      ++i;
    } else if (c == '_') {
      c = ' ';
    } else if (c >= 'A' && c <= 'Z') {
      c = static_cast<char>(c - 'A' + 'a');
    }
    title += c;
  }
  return title;
}

Taxonomy::Taxonomy(std::vector<std::string> names, const std::vector<TaxonomyEdge>& edges)
    : Taxonomy(
          std::move(names), edges,
          [](std::size_t c) { return "taxonomy: class " + std::to_string(c); },
          [](std::size_t i) { return "taxonomy: edge " + std::to_string(i + 1); }) {}

Taxonomy::Taxonomy(std::vector<std::string> names, const std::vector<TaxonomyEdge>& edges,
                   const Where& name_where, const Where& edge_where)
    : names_(std::move(names)) {
  take_edges(edges, edge_where);
  const std::vector<ClassId> order = topological_order(edges, edge_where);
  find_depths(order);
  find_closure(order);
  check_path_count(order);
  find_paths();
  tell_apart(name_where);
}

void Taxonomy::refuse_twins(std::span<const ClassId> siblings, const Where& where) const {
  std::unordered_map<std::string_view, ClassId> seen;
  for (const ClassId c : siblings) {
    const auto [twin, fresh] = seen.try_emplace(name(c), c);
    if (!fresh)
      throw input_error(
          "{}: the name {} stands already at {}, and both classes have the same parent or none; "
          "siblings need different names",
          where(index(c)), name(c), where(index(twin->second)));
  }
}

// With no two siblings of one name, different classes have different paths of names.
void Taxonomy::tell_apart(const Where& where) {
  refuse_twins(roots_, where);
  for (ClassId c = 0; c < size(); ++c) refuse_twins(children(c), where);
  std::unordered_map<std::string_view, int> bearers;
  for (const std::string& name : names_) ++bearers[name];
  for (ClassId c = 0; c < size(); ++c) {
    std::string& label = labels_.emplace_back(name(c));
    if (bearers[name(c)] > 1) {
      const ClassPath path = first_path(c);
      label = path.size() == 1 ? "> " + name(c) : name(path.front());
      for (std::size_t i = 1; i < path.size(); ++i) label += " > " + name(path[i]);
    }
    titles_.push_back(class_title(label));
    const auto [other, fresh] = by_label_.try_emplace(label, c);
    if (!fresh)
      throw input_error(
          "{}: `{}` is the name of a class and the path of another at {}; give one another name",
          where(index(c)), label, where(index(other->second)));
  }
}

void Taxonomy::take_edges(const std::vector<TaxonomyEdge>& edges, const Where& where) {
  Rows parents(names_.size()), children(names_.size());
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const auto [parent, child] = edges[i];
    for (const ClassId c : {parent, child})
      if (c < 0 || c >= size())
        throw input_error(
            "{}: class {} is not among the {} classes; add it to the labels or remove the edge",
            where(i), c, size());
    if (parent == child)
      throw input_error("{}: class {} is its own parent; remove the edge", where(i), name(parent));
    parents[index(child)].push_back(parent);
    children[index(parent)].push_back(child);
  }
  for (auto& row : parents) sort_unique(row);
  for (auto& row : children) sort_unique(row);
  for (std::size_t c = 0; c < names_.size(); ++c) {
    if (parents[c].empty()) roots_.push_back(static_cast<ClassId>(c));
    if (children[c].empty()) leaves_.push_back(static_cast<ClassId>(c));
  }
  parents_ = lists_of(std::move(parents));
  children_ = lists_of(std::move(children));
}

Taxonomy::Lists Taxonomy::lists_of(std::vector<std::vector<std::int32_t>> rows) {
  Lists lists;
  lists.offsets.reserve(rows.size() + 1);
  for (const auto& row : rows) {
    lists.values.insert(lists.values.end(), row.begin(), row.end());
    lists.offsets.push_back(static_cast<std::int64_t>(lists.values.size()));
  }
  return lists;
}

// Parents before children (Kahn 1962). What cannot be ordered lies on or below a cycle.
std::vector<ClassId> Taxonomy::topological_order(const std::vector<TaxonomyEdge>& edges,
                                                 const Where& where) const {
  std::vector<ClassId> order = roots_;
  std::vector<std::int64_t> open(names_.size());
  for (std::size_t c = 0; c < names_.size(); ++c)
    open[c] = std::ssize(parents(static_cast<ClassId>(c)));
  for (std::size_t i = 0; i < order.size(); ++i)
    for (const ClassId child : children(order[i]))
      if (--open[index(child)] == 0) order.push_back(child);
  if (std::ssize(order) == size()) return order;

  // Upwards along unordered parents one must meet a class twice.
  ClassId c = static_cast<ClassId>(
      std::find_if(open.begin(), open.end(), [](auto n) { return n > 0; }) - open.begin());
  std::vector<ClassId> walk;
  while (std::find(walk.begin(), walk.end(), c) == walk.end()) {
    walk.push_back(c);
    const auto above = parents(c);
    c = *std::find_if(above.begin(), above.end(), [&](ClassId p) { return open[index(p)] > 0; });
  }
  walk.erase(walk.begin(), std::find(walk.begin(), walk.end(), c));
  std::reverse(walk.begin(), walk.end());  // the last is c, whose parent stands first
  std::string cycle = name(c);
  for (std::size_t i = 0; i < walk.size(); ++i) {
    if (i == 8 && walk.size() > 12) {
      cycle += fmt::format(" > ... ({} more)", walk.size() - i - 1);
      i = walk.size() - 1;
    }
    cycle += " > " + name(walk[i]);
  }
  const auto closing = std::find_if(edges.begin(), edges.end(), [&](const TaxonomyEdge& e) {
    return e.parent == c && e.child == walk.front();
  });
  throw input_error("{}: the classes {} form a cycle; remove one of its edges",
                    where(static_cast<std::size_t>(closing - edges.begin())), cycle);
}

void Taxonomy::find_depths(const std::vector<ClassId>& order) {
  depths_.assign(names_.size(), 1);
  for (const ClassId c : order)
    for (const ClassId child : children(c))
      depths_[index(child)] = std::max(depths_[index(child)], depth(c) + 1);
  for (const ClassId c : order)
    if (depth(c) > max_depth)
      throw input_error(
          "taxonomy: class {} lies {} levels deep, at most {} are supported; cut the hierarchy",
          name(c), depth(c), max_depth);
}

void Taxonomy::find_closure(const std::vector<ClassId>& order) {
  Rows above(names_.size()), below(names_.size());
  std::int64_t pairs = 0;
  for (const ClassId c : order) {
    auto& mine = above[index(c)];
    for (const ClassId p : parents(c)) {
      mine.push_back(p);
      mine.insert(mine.end(), above[index(p)].begin(), above[index(p)].end());
    }
    sort_unique(mine);
    pairs += std::ssize(mine);
    if (pairs > max_ancestry)
      throw input_error(
          "taxonomy: more than {} pairs of class and ancestor; remove second parents from the "
          "hierarchy",
          max_ancestry);
  }
  for (std::size_t c = 0; c < names_.size(); ++c)
    for (const ClassId a : above[c]) below[index(a)].push_back(static_cast<ClassId>(c));
  ancestors_ = lists_of(std::move(above));
  descendants_ = lists_of(std::move(below));
}

void Taxonomy::check_path_count(const std::vector<ClassId>& order) const {
  std::vector<std::int64_t> below(names_.size());  // paths from the class down, saturated
  std::int64_t total = 0;
  for (auto c = order.rbegin(); c != order.rend(); ++c) {
    std::int64_t count = is_leaf(*c) ? 1 : 0;
    for (const ClassId child : children(*c))
      count = std::min(max_paths + 1, count + below[index(child)]);
    below[index(*c)] = count;
    if (is_root(*c)) total += count;
    if (total > max_paths)
      throw input_error(
          "taxonomy: more than {} paths lead from a root to a leaf; remove second parents from the "
          "hierarchy",
          max_paths);
  }
}

void Taxonomy::find_paths() {
  Rows through(names_.size());
  ClassPath path;
  std::vector<std::size_t> next;  // child to visit next, one a level
  for (const ClassId root : roots_) {
    path = {root};
    next = {0};
    while (!path.empty()) {
      const auto below = children(path.back());
      if (below.empty()) {
        for (const ClassId c : path)
          through[index(c)].push_back(static_cast<std::int32_t>(paths_.size()));
        paths_.push_back(path);
      }
      if (next.back() < below.size()) {
        path.push_back(below[next.back()++]);
        next.push_back(0);
      } else {
        path.pop_back();
        next.pop_back();
      }
    }
  }
  paths_through_ = lists_of(std::move(through));
}

std::optional<ClassId> Taxonomy::find(std::string_view label) const {
  const auto found = by_label_.find(std::string(label));
  if (found == by_label_.end()) return std::nullopt;
  return found->second;
}

std::vector<ClassId> Taxonomy::named(std::string_view name) const {
  std::vector<ClassId> classes;
  for (ClassId c = 0; c < size(); ++c)
    if (this->name(c) == name) classes.push_back(c);
  return classes;
}

std::vector<ClassId> Taxonomy::siblings(ClassId c) const {
  std::vector<ClassId> all;
  if (is_root(c)) all = roots_;
  for (const ClassId p : parents(c)) all.insert(all.end(), children(p).begin(), children(p).end());
  sort_unique(all);
  std::erase(all, c);
  return all;
}

ClassPath Taxonomy::first_path(ClassId c) const {
  ClassPath path{c};
  while (!is_root(path.back())) path.push_back(parents(path.back()).front());
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<ClassId> Taxonomy::with_ancestors(std::span<const ClassId> classes) const {
  std::vector<ClassId> all(classes.begin(), classes.end());
  for (const ClassId c : classes) all.insert(all.end(), ancestors(c).begin(), ancestors(c).end());
  sort_unique(all);
  return all;
}

}  // namespace gpuhpc

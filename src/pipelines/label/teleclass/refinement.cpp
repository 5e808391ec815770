#include "gpuhpc/pipelines/label/teleclass/refinement.hpp"

#include <algorithm>

#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/io/matrix_file.hpp"
#include "gpuhpc/pipelines/label/class_list_files.hpp"
#include "gpuhpc/pipelines/label/posterior.hpp"
#include "gpuhpc/pipelines/label/teleclass/variants/published_refinement.hpp"

namespace gpuhpc {
namespace {

// The best path of each document, in TELEClass's format for people and other tools.
void write_best_paths(const StageContext& c, const Taxonomy& taxonomy,
                      const TokenDataset& documents) {
  on_root(c.comm, [&] {
    const MappedMatrix posterior(c.folder / "posterior.h5");
    std::vector<ClassList> lists;
    for (std::int64_t i = 0; i < documents.size(); ++i) {
      const auto row = posterior.view().row(i);
      lists.push_back(taxonomy.paths()[static_cast<std::size_t>(
          std::max_element(row.begin(), row.end()) - row.begin())]);
    }
    write_class_lists(c.folder / "refined_core_classes.json", documents, lists);
  });
}

}  // namespace

void run_refinement(const StageContext& c, const TeleclassPipelineOptions& o,
                    const InputLayout& layout) {
  Taxonomy taxonomy;
  together(c.comm, [&] { taxonomy = Taxonomy::load(layout.labels, layout.hierarchy); });
  if (o.teleclass.refinement != "soft") return refine_as_published(c, o, layout, taxonomy);
  const std::filesystem::path encoding = c.folder_of("encoding");
  find_posterior(c, o, taxonomy, encoding);
  write_best_paths(c, taxonomy, TokenDataset(encoding / "tokens"));
}

}  // namespace gpuhpc

#include "gpuhpc/pipelines/label/teleclass/variants/published_labels.hpp"

#include "gpuhpc/comm/together.hpp"
#include "gpuhpc/data/class_files.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"
#include "gpuhpc/labels/core_classes.hpp"
#include "gpuhpc/pipelines/label/class_list_files.hpp"

namespace gpuhpc {

void make_training_labels(const StageContext& c, const Taxonomy& taxonomy) {
  on_root(c.comm, [&] {
    const std::filesystem::path augmentation = c.folder_of("augmentation");
    const TokenDataset documents(c.folder_of("encoding") / "tokens");
    const std::vector<ClassList> cores = read_class_lists(
        c.folder_of("refinement") / "refined_core_classes.json", documents, taxonomy);
    std::vector<std::int64_t> counts(static_cast<std::size_t>(taxonomy.size()));
    JsonlWriter writer(c.folder / "labels.jsonl");
    const auto write = [&](std::string_view id, const ClassList& list, bool generated) {
      const TrainingLabels labels = training_labels(taxonomy, list);
      for (const ClassId positive : labels.positives) ++counts[static_cast<std::size_t>(positive)];
      writer.write(Json{{"id", id},
                        {"positives", labels.positives},
                        {"masked", labels.masked},
                        {"generated", generated}});
    };
    for (std::int64_t i = 0; i < documents.size(); ++i)
      write(documents.id(i), cores[static_cast<std::size_t>(i)], false);
    if (std::filesystem::file_size(augmentation / "generated_docs.txt") > 0) {
      const GeneratedDocuments extra =
          read_generated_documents(augmentation / "generated_docs.txt",
                                   augmentation / "generated_doc2label.json", taxonomy.names());
      for (std::size_t i = 0; i < extra.target.size(); ++i)
        write(extra.documents.ids[i], {extra.target[i]}, true);
    }
    writer.commit();
    std::string lines = "class\tdocuments\n";
    for (ClassId id = 0; id < taxonomy.size(); ++id)
      lines += fmt::format("{}\t{}\n", taxonomy.name(id), counts[static_cast<std::size_t>(id)]);
    write_text_file(c.folder / "documents_per_class.tsv", lines);
  });
}

}  // namespace gpuhpc

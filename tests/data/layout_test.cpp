#include "gpuhpc/data/layout.hpp"

#include <gmock/gmock.h>

#include "../io/expect_error.hpp"
#include "../io/scratch_folder.hpp"
#include "gpuhpc/data/class_files.hpp"
#include "gpuhpc/io/atomic_file.hpp"

namespace gpuhpc {
namespace {
namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Layout : public ::testing::Test {
 protected:
  void touch(const std::string& name) const {
    create_folder((folder / name).parent_path());
    write_unsynced(folder / name, "0\tx\n");
  }
  std::string refused() const {
    return error_of(ExitCode::bad_data, [&] { resolve_layout(folder.path()); });
  }
  const ScratchFolder folder;
};

TEST_F(Layout, TeleClassSpelling) {
  for (const char* name :
       {"labels.txt", "label_hierarchy.txt", "label_descriptions.txt", "train/corpus.txt",
        "test/corpus.txt", "train/llm_enrichment.txt", "train/generated_docs.txt",
        "train/generated_doc2label.json", "test/doc2labels.txt"})
    touch(name);
  const InputLayout layout = resolve_layout(folder.path());
  EXPECT_EQ(layout.labels, folder / "labels.txt");
  EXPECT_EQ(layout.hierarchy, folder / "label_hierarchy.txt");
  EXPECT_EQ(layout.keywords, folder / "train/llm_enrichment.txt");
  EXPECT_EQ(layout.train_corpus, folder / "train/corpus.txt");
  EXPECT_EQ(layout.generated_labels, folder / "train/generated_doc2label.json");
  EXPECT_EQ(layout.test_gold, folder / "test/doc2labels.txt");
  EXPECT_TRUE(layout.train_gold.empty());
  EXPECT_FALSE(layout.test_serves_as_train);
  EXPECT_THAT(describe(layout),
              HasSubstr("train texts train/corpus.txt, test texts test/corpus.txt"));
}

TEST_F(Layout, CourseSpellingAndGzip) {
  for (const char* name : {"classes.txt", "class_hierarchy.txt.gz", "class_related_keywords.txt",
                           "train/train_corpus.txt.gz", "test/test_corpus.txt"})
    touch(name);
  const InputLayout layout = resolve_layout(folder.path());
  EXPECT_EQ(layout.labels, folder / "classes.txt");
  EXPECT_EQ(layout.hierarchy, folder / "class_hierarchy.txt.gz");
  EXPECT_EQ(layout.keywords, folder / "class_related_keywords.txt");
  EXPECT_EQ(layout.train_corpus, folder / "train/train_corpus.txt.gz");
  EXPECT_EQ(layout.test_corpus, folder / "test/test_corpus.txt");
}

TEST_F(Layout, TestTextsServeWhenThereIsNoTrainCorpus) {
  for (const char* name : {"labels.txt", "label_hierarchy.txt", "test/corpus.jsonl"}) touch(name);
  const InputLayout layout = resolve_layout(folder.path());
  EXPECT_TRUE(layout.test_serves_as_train);
  EXPECT_EQ(layout.train_corpus, folder / "test/corpus.jsonl");
  EXPECT_THAT(describe(layout), HasSubstr("the test texts take their place, without labels"));
}

TEST_F(Layout, WhatIsMissingOrTwiceIsNamed) {
  EXPECT_THAT(refused(), HasSubstr("neither labels.txt nor classes.txt is there"));
  touch("labels.txt");
  EXPECT_THAT(refused(), AllOf(HasSubstr("neither label_hierarchy.txt nor class_hierarchy.txt"),
                               HasSubstr("an empty one for classes without a hierarchy")));
  touch("label_hierarchy.txt");
  EXPECT_THAT(refused(), HasSubstr("there is no text"));
  EXPECT_NO_THROW(resolve_layout(folder.path(), false));
  touch("train/corpus.txt");
  touch("train/generated_docs.txt");
  EXPECT_THAT(refused(), HasSubstr("belong together"));
  touch("train/generated_doc2label.json");
  touch("train/corpus.csv");
  EXPECT_THAT(refused(), HasSubstr("both"));
  fs::remove(folder / "train/corpus.csv");
  touch("classes.txt");
  EXPECT_THAT(refused(), HasSubstr("remove one"));
  EXPECT_THAT(error_of(ExitCode::bad_data, [&] { resolve_layout(folder / "none"); }),
              HasSubstr("no such folder"));
}

TEST_F(Layout, ACorpusThatIsNoFileOrMisnamedIsRefused) {
  for (const char* name : {"labels.txt", "label_hierarchy.txt", "test/corpus.txt"}) touch(name);
  touch("train/.keep");
  touch("train/enrichment.txt.gz");
  EXPECT_TRUE(resolve_layout(folder.path()).test_serves_as_train);
  const std::string train = (folder / "train").string();
  fs::create_directory(folder / "train/corpus.txt");
  EXPECT_EQ(refused(), train +
                           "/corpus.txt: it is a folder, a file was expected; put the file there "
                           "or remove it");
  fs::remove(folder / "train/corpus.txt");
  fs::create_symlink("nowhere", folder / "train/train_corpus.jsonl.gz");
  EXPECT_THAT(refused(), HasSubstr("train_corpus.jsonl.gz: it is a link to something that is not "
                                   "there"));
  fs::remove(folder / "train/train_corpus.jsonl.gz");
  touch("train/Corpus.txt");
  EXPECT_THAT(refused(), HasSubstr("train/Corpus.txt: no file of this folder has this name"));
  fs::rename(folder / "train/Corpus.txt", folder / "texts.txt");
  fs::create_symlink("../texts.txt", folder / "train/corpus.txt");
  EXPECT_FALSE(resolve_layout(folder.path()).test_serves_as_train);
  fs::rename(folder / "train", folder / "elsewhere");
  touch("train");
  EXPECT_THAT(error_of(ExitCode::io, [&] { resolve_layout(folder.path()); }),
              HasSubstr("train: a part of the path is a file, not a folder"));
  fs::remove(folder / "train");
  fs::create_symlink("nowhere", folder / "train");
  EXPECT_THAT(refused(), HasSubstr("train: it is a link to something that is not there"));
}

class ClassFiles : public ::testing::Test {
 protected:
  fs::path file(const std::string& name, const std::string& text) const {
    write_unsynced(folder / name, text);
    return folder / name;
  }
  const std::vector<std::string> names{"a_class", "b", "works-with::image", "d"};
  const ScratchFolder folder;
};

TEST_F(ClassFiles, TermsByName) {
  const auto terms = read_class_terms(
      file("k.txt",
           "b:one_term, "
           "two,,one_term,three\nd:_all_glued_together\nworks-with::image:raster,vector\n"),
      names);
  EXPECT_THAT(terms[0], IsEmpty());
  EXPECT_THAT(terms[1], ElementsAre("one term", "two", "three"));
  EXPECT_THAT(terms[2], ElementsAre("raster", "vector"));
  EXPECT_THAT(terms[3], ElementsAre("all glued together"));
}

TEST_F(ClassFiles, TermsAreThoseOfTheLongestNameInFrontOfAColon) {
  const auto terms =
      read_class_terms(file("k.txt", "works-with::image:raster,vector\nworks-with:formats\n"),
                       {"works-with", "works-with::image"});
  EXPECT_THAT(terms[0], ElementsAre("formats"));
  EXPECT_THAT(terms[1], ElementsAre("raster", "vector"));
}

TEST_F(ClassFiles, TermErrors) {
  const auto refused = [&](const std::string& text) {
    return error_of(ExitCode::bad_data, [&] { read_class_terms(file("k.txt", text), names); });
  };
  EXPECT_THAT(refused("b:x\nnone:x\n"),
              HasSubstr((folder / "k.txt").string() +
                        ":2: there is no class `none`; use a name of the labels file, or a path"));
  EXPECT_THAT(refused("b:x\nb:y\n"), HasSubstr(":2: the class `b` has a row already"));
  EXPECT_THAT(refused("b\n"), HasSubstr(":1: no colon"));
}

TEST_F(ClassFiles, Descriptions) {
  EXPECT_THAT(read_class_descriptions(file("d.txt", "2\tpictures:\tof things \n0\tfirst\n"), names),
              ElementsAre("first", "", "pictures:\tof things", ""));
  const auto refused = [&](const std::string& text) {
    return error_of(ExitCode::bad_data,
                    [&] { read_class_descriptions(file("d.txt", text), names); });
  };
  EXPECT_THAT(refused("0 x\n"), HasSubstr(":1: no tab"));
  EXPECT_THAT(refused("4\tx\n"), HasSubstr(":1: `4` is not a class id"));
  EXPECT_THAT(refused("-1\tx\n"), HasSubstr("not a class id"));
  EXPECT_THAT(refused("1x\tx\n"), HasSubstr("not a class id"));
  EXPECT_THAT(refused("1\tx\n1\ty\n"), HasSubstr(":2: class 1 has a description already"));
}

TEST_F(ClassFiles, GeneratedDocuments) {
  const fs::path docs = file("g.txt", "0\tone\n1\ttwo\n");
  const auto read = [&](const std::string& labels) {
    return read_generated_documents(docs, file("g.json", labels), names);
  };
  const GeneratedDocuments sound = read(
      R"({"0": {"core_classes": "3", "with ancestors": ["3", "1"]}, "1": {"core_classes": 0}})");
  EXPECT_THAT(sound.documents.texts, ElementsAre("one", "two"));
  EXPECT_THAT(sound.target, ElementsAre(3, 0));
  EXPECT_THAT(sound.labels[0], ElementsAre(1, 3));
  EXPECT_THAT(sound.labels[1], ElementsAre(0));
  const auto refused = [&](const std::string& labels) {
    return error_of(ExitCode::bad_data, [&] { read(labels); });
  };
  EXPECT_THAT(refused("[]"), HasSubstr("a JSON object"));
  EXPECT_THAT(refused(R"({"0": {"core_classes": "3"}})"),
              HasSubstr("no \"core_classes\" for document `1`"));
  EXPECT_THAT(refused(R"({"0": {"core_classes": "4"}, "1": {"core_classes": 0}})"),
              HasSubstr("document `0` names the class \"4\""));
  EXPECT_THAT(refused(R"({"0": {"core_classes": "x"}, "1": {"core_classes": 0}})"),
              HasSubstr("not a class id"));
  EXPECT_THAT(
      refused(R"({"0": {"core_classes": 1}, "1": {"core_classes": 0}, "2": {"core_classes": 0}})"),
      HasSubstr("do not belong together"));
}

}  // namespace
}  // namespace gpuhpc

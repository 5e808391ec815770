#pragma once
// Classes as vectors (quality recipe, step 1).
#include "gpuhpc/base/matrix.hpp"
#include "gpuhpc/labels/class_texts.hpp"
#include "gpuhpc/labels/taxonomy.hpp"
#include "gpuhpc/pipelines/label/files.hpp"
#include "gpuhpc/pipelines/label/options.hpp"
#include "gpuhpc/pipelines/text_encoder.hpp"

namespace gpuhpc {

struct ClassEncoding {  // what they are made of
  TaxonomyFiles taxonomy;
  ClassFiles files;
  ClassPromptOption prompt;
  ClassTextOptions texts;
  CentringOptions centring;  // of keywords and generated documents, here
};

struct EncodedClasses {
  Taxonomy taxonomy;
  ClassTexts texts;
  Matrix vectors;  // (C,H) unit rows
};
// Collective.
EncodedClasses encode_classes(const ClassEncoding& of, const TextEncoder& encoder,
                              Communicator& comm);

}  // namespace gpuhpc

#pragma once
// A SentencePiece model file (spm.model, spiece.model): the few fields of its protocol buffer that
// a Unigram tokenizer needs.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuhpc {

struct SentencePieceFile {
  enum class Type { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string token;
    double score = 0;
    Type type = Type::normal;
  };
  std::vector<Piece> pieces;  // in the order of their ids
  std::int32_t unk_id = 0;
  std::string charsmap;  // normalisation rules as charsmap.hpp reads them; may be empty
};

// `where` names the file in errors. input_error: damaged, or not a Unigram model.
SentencePieceFile parse_sentencepiece(std::string_view bytes, const std::string& where);

}  // namespace gpuhpc

#include "tokenizer_parts.hpp"

#include <bit>
#include <cstring>

namespace gpuhpc {
namespace {

// Fields of one message of a protocol buffer, in the order of the file
// (protobuf.dev/programming-guides/encoding).
class Fields {
 public:
  Fields(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  bool next() {
    if (bytes_.empty()) return false;
    const std::uint64_t tag = varint();
    number_ = tag >> 3;
    number = 0;
    data = {};
    switch (tag & 7) {
      case 0:
        number = varint();
        break;
      case 1:
        data = take(8);
        break;
      case 2:
        data = take(varint());
        break;
      case 5:
        data = take(4);
        break;
      default:
        damaged();
    }
    kind_ = tag & 7;
    return true;
  }
  bool is(std::uint64_t field, std::uint64_t kind) const {
    return number_ == field && kind_ == kind;
  }
  float real() const {
    std::uint32_t bits;
    std::memcpy(&bits, data.data(), 4);
    return std::bit_cast<float>(bits);
  }

  std::uint64_t number = 0;  // kind 0
  std::string_view data;     // kinds 2 (bytes, message) and 5 (float)

 private:
  [[noreturn]] void damaged() const {
    throw input_error(
        "{}: this is not a SentencePiece model, or it is cut off; take the file of the model again",
        where_);
  }
  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size()) damaged();
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    damaged();
  }

  std::string_view bytes_;
  const std::string& where_;
  std::uint64_t number_ = 0, kind_ = 0;
};

constexpr std::uint64_t whole = 0, bytes_kind = 2, real_kind = 5;

SentencePieceFile::Piece read_piece(std::string_view bytes, const std::string& where) {
  SentencePieceFile::Piece piece;
  Fields fields(bytes, where);
  while (fields.next()) {
    if (fields.is(1, bytes_kind)) piece.token = fields.data;
    if (fields.is(2, real_kind)) piece.score = fields.real();
    if (fields.is(3, whole)) piece.type = static_cast<SentencePieceFile::Type>(fields.number);
  }
  return piece;
}

}  // namespace

SentencePieceFile parse_sentencepiece(std::string_view bytes, const std::string& where) {
  SentencePieceFile file;
  std::uint64_t model_type = 1, unk_id = 0;  // the format's defaults
  Fields fields(bytes, where);
  while (fields.next()) {
    if (fields.is(1, bytes_kind)) file.pieces.push_back(read_piece(fields.data, where));
    if (fields.is(2, bytes_kind)) {
      Fields trainer(fields.data, where);
      while (trainer.next()) {
        if (trainer.is(3, whole)) model_type = trainer.number;
        if (trainer.is(40, whole)) unk_id = trainer.number;
      }
    }
    if (fields.is(3, bytes_kind)) {
      Fields normalizer(fields.data, where);
      while (normalizer.next()) {
        if (normalizer.is(2, bytes_kind)) file.charsmap = normalizer.data;
      }
    }
  }
  if (model_type != 1) {
    throw input_error(
        "{}: only Unigram models are read, this is another kind of SentencePiece model; save the "
        "tokenizer as tokenizer.json",
        where);
  }
  if (unk_id >= file.pieces.size())
    throw input_error(
        "{}: the unknown token {} is not among its {} pieces; take the file of the model again",
        where, unk_id, file.pieces.size());
  file.unk_id = static_cast<std::int32_t>(unk_id);
  return file;
}

}  // namespace gpuhpc

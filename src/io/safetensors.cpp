#include "gpuhpc/io/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <set>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/atomic_file.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t max_header_bytes = 100'000'000;  // the limit of the safetensors library

struct TypeRow {
  TensorType type;
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array<TypeRow, 15> types{{{TensorType::boolean, "BOOL", 1},
                                         {TensorType::uint8, "U8", 1},
                                         {TensorType::int8, "I8", 1},
                                         {TensorType::float8_e5m2, "F8_E5M2", 1},
                                         {TensorType::float8_e4m3, "F8_E4M3", 1},
                                         {TensorType::int16, "I16", 2},
                                         {TensorType::uint16, "U16", 2},
                                         {TensorType::float16, "F16", 2},
                                         {TensorType::bfloat16, "BF16", 2},
                                         {TensorType::int32, "I32", 4},
                                         {TensorType::uint32, "U32", 4},
                                         {TensorType::float32, "F32", 4},
                                         {TensorType::int64, "I64", 8},
                                         {TensorType::uint64, "U64", 8},
                                         {TensorType::float64, "F64", 8}}};

const TypeRow& row_of(TensorType type) {
  return *std::find_if(types.begin(), types.end(),
                       [&](const TypeRow& row) { return row.type == type; });
}

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw input_error("{}: not a valid safetensors file: {}; download or convert the weights again",
                    where, what);
}

std::uint64_t as_size(const Json& value, const std::string& where, const std::string& name) {
  if (!value.is_number_unsigned())
    refuse(where, "tensor `" + name + "` has a size or place that is not a whole number");
  const auto size = value.get<std::uint64_t>();
  if (size > (std::uint64_t{1} << 62))
    refuse(where, "tensor `" + name + "` has an impossible size");
  return size;
}

struct Placed {
  TensorView tensor;
  std::uint64_t begin = 0, end = 0;
};

Placed read_entry(const std::string& name, const Json& entry, std::uint64_t data_bytes,
                  const std::string& where) {
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets")) {
    refuse(where, "tensor `" + name + "` needs exactly dtype, shape and data_offsets");
  }
  Placed placed;
  placed.tensor.name = name;
  const Json &dtype = entry["dtype"], &shape = entry["shape"], &place = entry["data_offsets"];
  const auto type = std::find_if(types.begin(), types.end(), [&](const TypeRow& row) {
    return dtype.is_string() && dtype.get<std::string>() == row.name;
  });
  if (type == types.end())
    refuse(where, "tensor `" + name + "` has the unknown type " + dtype.dump(-1, ' ', true));
  placed.tensor.type = type->type;
  if (!shape.is_array()) refuse(where, "tensor `" + name + "` has a shape that is not a list");
  auto bytes = static_cast<std::uint64_t>(type->bytes);
  for (const Json& extent : shape) {
    const std::uint64_t size = as_size(extent, where, name);
    placed.tensor.shape.push_back(static_cast<std::int64_t>(size));
    if (__builtin_mul_overflow(bytes, size, &bytes) || bytes > (std::uint64_t{1} << 62))
      refuse(where, "tensor `" + name + "` has an impossible size");
  }
  if (!place.is_array() || place.size() != 2)
    refuse(where, "tensor `" + name + "` needs two data_offsets");
  placed.begin = as_size(place[0], where, name);
  placed.end = as_size(place[1], where, name);
  if (placed.begin > placed.end || placed.end > data_bytes)
    refuse(where, "tensor `" + name + "` lies outside the file");
  if (placed.end - placed.begin != bytes) {
    refuse(where, fmt::format("tensor `{}` has {} bytes, its type and shape say {}", name,
                              placed.end - placed.begin, bytes));
  }
  return placed;
}

Json parse_header(std::span<const std::byte> bytes, const std::string& where) {
  if (bytes.size() < 8) refuse(where, "it is shorter than 8 bytes");
  std::uint64_t header_bytes;
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  if (header_bytes > max_header_bytes)
    refuse(where, fmt::format("its header claims {} bytes, at most {} are allowed", header_bytes,
                              max_header_bytes));
  if (header_bytes > bytes.size() - 8)
    refuse(where,
           fmt::format("its header claims {} bytes, the file has {}", header_bytes, bytes.size()));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, header_bytes);
  if (!text.starts_with('{')) refuse(where, "its header does not begin with {");
  Json header;
  try {
    header = parse_json(text, where);
  } catch (const Error& error) {
    refuse(where, std::string("its header is wrong (") + error.what() + ")");
  }
  if (!header.is_object()) refuse(where, "its header is not a JSON object");
  return header;
}

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16,
                      exponent = (half >> 10) & 31U, fraction = half & 1023U;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13));
  if (exponent != 0)
    return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1p-24F;  // subnormal
  return sign != 0 ? -magnitude : magnitude;
}

}  // namespace

std::int64_t size_of(TensorType type) { return row_of(type).bytes; }
std::string_view name_of(TensorType type) { return row_of(type).name; }

std::int64_t TensorView::count() const {
  std::int64_t product = 1;
  for (const auto extent : shape) product *= extent;
  return product;
}

SafeTensorsContent parse_safetensors(std::span<const std::byte> bytes, const std::string& where) {
  const Json header = parse_header(bytes, where);
  std::uint64_t header_bytes;
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  const auto data = bytes.subspan(8 + header_bytes);
  SafeTensorsContent content;
  std::vector<Placed> placed;
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") {
      placed.push_back(read_entry(name, entry, data.size(), where));
      continue;
    }
    if (!entry.is_object()) refuse(where, "its __metadata__ is not an object");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) refuse(where, "its __metadata__ holds something other than strings");
      content.metadata[key] = value.get<std::string>();
    }
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.begin, a.end, a.tensor.name) < std::tie(b.begin, b.end, b.tensor.name);
  });
  std::uint64_t at = 0;
  for (Placed& one : placed) {
    if (one.begin < at) refuse(where, "tensor `" + one.tensor.name + "` overlaps another");
    if (one.begin > at) refuse(where, "there is a hole before tensor `" + one.tensor.name + "`");
    at = one.end;
    one.tensor.data = data.subspan(one.begin, one.end - one.begin);
    content.tensors.push_back(std::move(one.tensor));
  }
  if (at != data.size())
    refuse(where,
           fmt::format("{} bytes after the last tensor belong to no tensor", data.size() - at));
  return content;
}

SafeTensors::SafeTensors(const fs::path& path)
    : file_(path), content_(parse_safetensors(file_.bytes(), path.string())) {}

const TensorView* SafeTensors::find(std::string_view name) const {
  const auto found = std::find_if(tensors().begin(), tensors().end(),
                                  [&](const TensorView& tensor) { return tensor.name == name; });
  return found == tensors().end() ? nullptr : &*found;
}

std::vector<float> to_floats(const TensorView& tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.count()));
  if (tensor.type == TensorType::float32) {
    if (!values.empty()) std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    return values;
  }
  if (tensor.type != TensorType::float16 && tensor.type != TensorType::bfloat16) {
    throw input_error("tensor `{}` is {}; F32, F16 or BF16 weights are needed", tensor.name,
                      name_of(tensor.type));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, tensor.data.data() + 2 * i, sizeof bits);
    values[i] = tensor.type == TensorType::float16
                    ? half_to_float(bits)
                    : std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  return values;
}

void write_safetensors(const fs::path& path, std::vector<TensorView> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
    return size_of(a.type) != size_of(b.type) ? size_of(a.type) > size_of(b.type) : a.name < b.name;
  });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::int64_t at = 0;
  for (const TensorView& tensor : tensors) {
    if (std::ssize(tensor.data) != tensor.count() * size_of(tensor.type))
      throw internal_error("tensor `{}` has bytes that do not fit its shape", tensor.name);
    if (header.contains(tensor.name))
      throw internal_error("tensor `{}` is given twice", tensor.name);
    const std::int64_t end = at + std::ssize(tensor.data);
    header[tensor.name] = {
        {"dtype", name_of(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // tensor bytes begin at a multiple of 8
  const std::uint64_t header_bytes = text.size();
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&header_bytes, 1)));
  file.write(text);
  for (const TensorView& tensor : tensors) file.write(tensor.data);
  file.commit();
}

}  // namespace gpuhpc

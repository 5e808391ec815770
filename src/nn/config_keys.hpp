#pragma once
// Keys of a config.json, each refusal naming file and key; private to room nn.
#include <gpuhpc/base/error.hpp>
#include <gpuhpc/io/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>

namespace gpuhpc {

// One JSON object and the file it came from, so that every refusal can name the key.
class Keys {
 public:
  explicit Keys(const std::filesystem::path& file)
      : file_(file), object_(read_json(file, std::int64_t{16} << 20)) {
    if (!object_.is_object()) throw input_error("{}: a JSON object is expected", file_.string());
  }
  bool has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }
  bool is_null(const char* key) const { return object_.contains(key) && object_[key].is_null(); }
  const Json& at(const char* key) const { return object_.at(key); }

  std::int64_t integer(const char* key, std::int64_t low, std::int64_t high) const {
    if (!has(key)) throw input_error("{}: the key \"{}\" is missing", file_.string(), key);
    const Json& value = object_[key];
    if (!value.is_number_integer())
      throw input_error("{}: \"{}\" must be a whole number", file_.string(), key);
    const bool huge =
        value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(high);
    const std::int64_t number = huge ? high : value.get<std::int64_t>();
    if (huge || number < low || number > high) {
      throw input_error("{}: \"{}\" must lie between {} and {}", file_.string(), key, low, high);
    }
    return number;
  }
  std::int64_t integer_or(const char* key, std::int64_t fallback, std::int64_t low,
                          std::int64_t high) const {
    return has(key) ? integer(key, low, high) : fallback;
  }
  double number(const char* key, double fallback, double low, double high) const {
    if (!has(key)) return fallback;
    if (!object_[key].is_number())
      throw input_error("{}: \"{}\" must be a number", file_.string(), key);
    const double value = object_[key].get<double>();
    if (!(value >= low && value <= high)) {
      throw input_error("{}: \"{}\" must lie between {} and {}", file_.string(), key, low, high);
    }
    return value;
  }
  std::string text(const char* key, const std::string& fallback) const {
    if (!has(key)) return fallback;
    if (!object_[key].is_string())
      throw input_error("{}: \"{}\" must be a text", file_.string(), key);
    return object_[key].get<std::string>();
  }
  bool flag(const char* key) const {
    if (!has(key)) return false;
    if (!object_[key].is_boolean())
      throw input_error("{}: \"{}\" must be true or false", file_.string(), key);
    return object_[key].get<bool>();
  }
  std::string file() const { return file_.string(); }

 private:
  std::filesystem::path file_;
  Json object_;
};

}  // namespace gpuhpc

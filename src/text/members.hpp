#pragma once
// Members of one JSON object, with errors that say where they stand.
#include <string>
#include <utility>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/io/json.hpp"

namespace gpuhpc {

class Members {
 public:
  Members(const Json& object, std::string where) : object_(&object), where_(std::move(where)) {
    if (!object.is_object())
      throw input_error("{}: expected an object, found {}", where_, object.type_name());
  }
  const std::string& where() const { return where_; }
  bool has(const char* key) const { return object_->contains(key) && !(*object_)[key].is_null(); }
  const Json& at(const char* key) const {
    if (!has(key))
      throw input_error("{}: \"{}\" is missing; take the file of the model again", where_, key);
    return (*object_)[key];
  }
  bool boolean(const char* key) const {
    if (!at(key).is_boolean())
      throw input_error("{}: \"{}\" must be true or false, found {}", where_, key,
                        at(key).type_name());
    return (*object_)[key].get<bool>();
  }
  bool boolean(const char* key, bool absent) const { return has(key) ? boolean(key) : absent; }
  std::string text(const char* key) const {
    if (!at(key).is_string())
      throw input_error("{}: \"{}\" must be a string, found {}", where_, key, at(key).type_name());
    return (*object_)[key].get<std::string>();
  }
  Members object(const char* key) const { return {at(key), where_ + ": " + key}; }
  const Json& array(const char* key) const {
    if (!at(key).is_array())
      throw input_error("{}: \"{}\" must be an array, found {}", where_, key, at(key).type_name());
    return (*object_)[key];
  }
  // The part named `key`, which must be of this type.
  Members typed(const char* key, const char* type, const char* cure) const {
    if (!has(key))
      throw input_error("{}: there is no {}; only {} is supported: {}", where_, key, type, cure);
    const Members part = object(key);
    const std::string found = part.text("type");
    if (found != type)
      throw input_error("{}: {} \"{}\" is not supported, only \"{}\" is: {}", where_, key, found,
                        type, cure);
    return part;
  }

 private:
  const Json* object_;
  std::string where_;
};

}  // namespace gpuhpc

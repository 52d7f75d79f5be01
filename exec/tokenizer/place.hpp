#pragma once
// A value of tokenizer.json with its place, so that each refusal names file and field.

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json.hpp"

namespace tandem::exec {

/// A value of a JSON file. The file's document must outlive it.
class Place {
 public:
  Place(const nlohmann::json& value, std::string file, std::string field);

  const nlohmann::json& json() const { return *value_; }
  const std::string& file() const { return file_; }
  const std::string& field() const { return field_; }
  /// A field of this object. Throws ConfigError if it is missing.
  Place at(const std::string& key) const;
  /// A field of this object; nothing if it is missing or null.
  std::optional<Place> maybe(const std::string& key) const;
  /// The elements of this list.
  std::vector<Place> list() const;
  std::string text() const;
  bool flag() const;
  std::int64_t whole() const;
  double number() const;
  /// The field `type` of this object.
  std::string type() const { return at("type").text(); }
  bool flag_or(const std::string& key, bool otherwise) const;
  std::string text_or(const std::string& key, const std::string& otherwise) const;
  /// Refuses fields of this object that have other names.
  void require_keys(std::initializer_list<std::string_view> known) const;
  /// Throws ConfigError about this value.
  [[noreturn]] void refuse(const std::string& reason, const std::string& remedy = "") const;

 private:
  [[noreturn]] void refuse_kind(const char* wanted) const;

  const nlohmann::json* value_;
  std::string file_, field_;
};

}  // namespace tandem::exec

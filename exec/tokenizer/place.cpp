#include "exec/tokenizer/place.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/text.hpp"

namespace tandem::exec {

Place::Place(const nlohmann::json& value, std::string file, std::string field)
    : value_(&value), file_(std::move(file)), field_(std::move(field)) {}

void Place::refuse(const std::string& reason, const std::string& remedy) const {
  throw ConfigError(Problem{file_, field_, value_text(*value_), reason, remedy});
}

void Place::refuse_kind(const char* wanted) const { refuse("is " + kind_text(*value_) + ", not " + wanted); }

Place Place::at(const std::string& key) const {
  if (!value_->is_object()) refuse_kind("an object");
  const auto found = value_->find(key);
  const std::string name = field_.empty() ? key : field_ + "." + key;
  if (found == value_->end()) throw ConfigError(Problem{file_, name, "", "is missing", "write the tokenizer again with transformers' save_pretrained"});
  return {*found, file_, name};
}

std::optional<Place> Place::maybe(const std::string& key) const {
  if (!value_->is_object()) refuse_kind("an object");
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return at(key);
}

std::vector<Place> Place::list() const {
  if (!value_->is_array()) refuse_kind("a list");
  std::vector<Place> all;
  for (std::size_t i = 0; i < value_->size(); ++i) all.emplace_back((*value_)[i], file_, field_ + "[" + std::to_string(i) + "]");
  return all;
}

std::string Place::text() const {
  if (!value_->is_string()) refuse_kind("a string");
  return value_->get<std::string>();
}

bool Place::flag() const {
  if (!value_->is_boolean()) refuse_kind("true or false");
  return value_->get<bool>();
}

std::int64_t Place::whole() const {
  if (!value_->is_number_integer()) refuse_kind("a whole number");
  const auto value = value_->get<std::int64_t>();
  if (value < 0 || value > 0x7FFFFFFF) refuse("is not from 0 to 2,147,483,647");
  return value;
}

double Place::number() const {
  if (!value_->is_number()) refuse_kind("a number");
  return value_->get<double>();
}

bool Place::flag_or(const std::string& key, bool otherwise) const {
  const auto found = maybe(key);
  return found ? found->flag() : otherwise;
}

std::string Place::text_or(const std::string& key, const std::string& otherwise) const {
  const auto found = maybe(key);
  return found ? found->text() : otherwise;
}

void Place::require_keys(std::initializer_list<std::string_view> known) const {
  if (!value_->is_object()) refuse_kind("an object");
  std::vector<std::string> names(known.begin(), known.end());
  for (const auto& [key, value] : value_->items())
    if (std::find(known.begin(), known.end(), key) == known.end()) at(key).refuse("is no field that this version reads here: it reads " + list_text(names));
}

}  // namespace tandem::exec

#pragma once
// The keys that a reader of data files accepts, as its own refusals list them, beside the keys that a README names.

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "models/base/error.hpp"
#include "tests/temporary_folder.hpp"

namespace tandem::tests {

/// Texts of letters, digits and "_" that begin with a letter.
inline std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  std::string word;
  for (const char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') word += c;
    else if (!word.empty()) words.insert(std::exchange(word, ""));
  }
  return words;
}

/// Words between single backticks of a Markdown file; code blocks, which have three, are left out.
inline std::set<std::string> keys_named_in(const std::string& path) {
  std::ifstream in(path);
  std::set<std::string> words;
  bool block = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) block = !block;
    std::istringstream spans(block || line.starts_with("```") ? "" : line);
    std::string span;
    for (bool code = false; std::getline(spans, span, '`'); code = !code)
      if (code) words.merge(words_of(span));
  }
  return words;
}

/// Calls `each` with the place of every object of a file but facts, which have a value, and lists.
inline void for_objects(const nlohmann::json& at, const nlohmann::json::json_pointer& place,
                        const std::function<void(const nlohmann::json::json_pointer&)>& each) {
  if (!at.is_object() || at.contains("value")) return;
  each(place);
  for (const auto& [key, value] : at.items()) for_objects(value, place / key, each);
}

/// The keys that `read` (a path of a file) accepts in any object of `file`: a key that nobody knows is put into each, and the
/// refusal lists those known there.
inline std::set<std::string> accepted_keys(const nlohmann::json& file, const std::function<void(const std::string&)>& read) {
  const std::string unknown = "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq", known = "known are ";
  const TemporaryFolder folder;
  std::set<std::string> keys;
  for_objects(file, nlohmann::json::json_pointer(), [&](const nlohmann::json::json_pointer& place) {
    nlohmann::json odd = file;
    odd[place][unknown] = 1;
    try {
      read(folder.file("odd.json", odd.dump()));
      throw std::logic_error(place.to_string() + " accepts every key");
    } catch (const ConfigError& e) {
      const Problem& p = e.problems().front();
      if (!p.field.ends_with(unknown) || !p.remedy.starts_with(known)) throw;
      std::set<std::string> here = words_of(p.remedy.substr(known.size()));
      here.erase("and");
      keys.merge(here);
    }
  });
  return keys;
}

}  // namespace tandem::tests

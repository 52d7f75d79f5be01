#include "models/base/presets.hpp"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "models/base/data_folders.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/own_presets.hpp"
#include "models/base/text.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;

bool safe_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' || c == '+';
}

std::string not_found(std::string_view file) {
  std::string searched;
  for (const std::string& folder : data_folders()) searched += (searched.empty() ? "" : ", ") + folder;
  return std::string(file) + " was not found (searched: " + searched + "). Install Tandem's data, or set TANDEM_PRESETS.";
}

/// The words and numbers of a name: "llama", "3" and "8b" of "llama3-8b", or of "llama-3-8b".
std::vector<std::string> parts_of(std::string_view name) {
  std::vector<std::string> out{""};
  char before = '-';
  for (const char c : name) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    const bool begins = digit && std::isalpha(static_cast<unsigned char>(before)) != 0;
    if ((begins || c == '-' || c == '_') && !out.back().empty()) out.emplace_back();
    if (c != '-' && c != '_') out.back() += c;
    before = c;
  }
  return out;
}

std::string without_dashes(std::string_view name) {
  std::string out;
  for (const char c : name)
    if (c != '-' && c != '_') out += c;
  return out;
}

/// Whether a name has all of these parts, in their order.
bool has_parts(const std::string& name, const std::vector<std::string>& parts) {
  auto next = parts.begin();
  for (const std::string& part : parts_of(name))
    if (next != parts.end() && *next == part) ++next;
  return next == parts.end();
}

/// Names that `meant` holds for, in quotes; none where they are too many to choose from.
template <class Meant>
std::vector<std::string> few_of(const std::vector<std::string>& names, Meant meant) {
  constexpr std::size_t kMost = 5;
  std::vector<std::string> out;
  for (const std::string& n : names)
    if (meant(n)) out.push_back('"' + n + '"');
  return out.size() <= kMost ? out : std::vector<std::string>();
}

/// The name with the word's letters, else names that have the word in them, else those that have its parts, else those that have its
/// letters. Dashes are no letters.
std::vector<std::string> names_with(const std::string& word, const std::vector<std::string>& names) {
  constexpr std::size_t kShortest = 3;
  const std::string letters = without_dashes(word);
  if (letters.size() < kShortest) return {};
  std::vector<std::string> out = few_of(names, [&](const std::string& n) { return without_dashes(n) == letters; });
  if (out.empty()) out = few_of(names, [&](const std::string& n) { return n.find(word) != n.npos; });
  const std::vector<std::string> parts = parts_of(word);
  if (out.empty() && parts.size() > 1) out = few_of(names, [&](const std::string& n) { return has_parts(n, parts); });
  if (out.empty()) out = few_of(names, [&](const std::string& n) { return without_dashes(n).find(letters) != n.npos; });
  return out;
}

std::string names_remedy(std::string_view name, const std::vector<std::string>& names) {
  std::string small(name);
  std::transform(small.begin(), small.end(), small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (const std::vector<std::string> with = names_with(small, names); !with.empty()) return "did you mean " + list_text(with, "or") + "?";
  const std::string meant = nearest(small, names);
  return meant.empty() ? "there are " + list_text(names) : "did you mean \"" + meant + "\"?";
}

/// Files that were found in folders of the user's own, by their paths below these.
class Found {
 public:
  void look(const std::string& own) {
    const std::lock_guard lock(mutex_);
    files_[own];
  }
  void add(const std::string& own, const std::string& file) {
    const std::lock_guard lock(mutex_);
    files_[own].insert(file);
  }
  bool looked(const std::string& own) {
    const std::lock_guard lock(mutex_);
    return files_.contains(own);
  }
  std::vector<std::string> in(const std::string& own) {
    const std::lock_guard lock(mutex_);
    return {files_[own].begin(), files_[own].end()};
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::set<std::string>> files_;
};

Found& found_own() {
  static Found found;
  return found;
}

/// Whether the file is there. Another place's is never taken for one that is there and cannot be read.
bool is_there(const fs::path& path) {
  if (file_state(path.string()).kind == FileKind::absent) return false;
  if (const std::string why = why_unreadable(path.string()); !why.empty()) throw ConfigError(Problem{path.string(), "", "", why, ""});
  return true;
}

}  // namespace

bool is_preset_name(std::string_view name) {
  return !name.empty() && name.size() <= 128 && name.front() != '.' && std::all_of(name.begin(), name.end(), safe_character);
}

std::string look_for_data_file(std::string_view folder, std::string_view file) {
  if (!is_preset_name(file)) return {};
  require(is_data_folder(folder), "data files are looked for in a folder that TANDEM_PRESETS is not checked for");
  for (const std::string& place : data_folders())
    if (const fs::path path = fs::path(place) / folder / file; is_there(path)) return path.string();
  return {};
}

std::string find_data_file(std::string_view folder, std::string_view file) {
  std::string path = look_for_data_file(folder, file);
  const std::string own = own_presets_folder();
  if (own.empty()) return path;
  found_own().look(own);
  const std::string name = (fs::path(folder) / file).string();
  if (path == (fs::path(own) / name).string()) found_own().add(own, name);
  return path;
}

std::string require_data_file(std::string_view folder, std::string_view file) {
  std::string path = find_data_file(folder, file);
  if (path.empty()) throw ConfigError(Problem{"", "", "", not_found(std::string(folder) + "/" + std::string(file)), ""});
  return path;
}

std::string find_preset(std::string_view folder, std::string_view name) {
  return is_preset_name(name) ? find_data_file(folder, std::string(name) + ".json") : std::string();
}

std::string own_presets_note() {
  const std::string own = own_presets_folder();
  if (own.empty() || !found_own().looked(own)) return {};
  constexpr std::size_t kMostNamed = 8;
  std::vector<std::string> files = found_own().in(own);
  const std::size_t found = files.size();
  if (found > kMostNamed) {
    files.resize(kMostNamed - 1);
    files.push_back(std::to_string(found - files.size()) + " others");
  }
  return "taken from TANDEM_PRESETS=" + own + ": " + (files.empty() ? "nothing" : list_text(files));
}

bool is_preset_path(std::string_view name) { return name.find('/') != std::string_view::npos || name.ends_with(".json"); }

std::string beside(const std::string& path, const std::string& file) {
  if (fs::path(path).is_absolute()) return path;
  const fs::path there = fs::path(file).parent_path() / path;
  return is_regular_file(there.string()) ? there.string() : path;
}

std::vector<std::string> preset_names(std::string_view folder) {
  std::set<std::string> names;
  for (const std::string& place : data_folders()) {
    for (const fs::path file : folder_entries((fs::path(place) / folder).string()).names)
      if (file.extension() == ".json" && is_preset_name(file.stem().string())) names.insert(file.stem().string());
  }
  return {names.begin(), names.end()};
}

Problem unknown_preset(std::string_view folder, std::string_view name, std::string_view what) {
  const std::vector<std::string> names = preset_names(folder);
  if (names.empty()) return {"", "", "", not_found(std::string(folder) + "/" + shortened(name) + ".json"), ""};
  return {"", "", '"' + shortened(name) + '"', "there is no " + std::string(what) + " of this name", names_remedy(name, names)};
}

}  // namespace tandem

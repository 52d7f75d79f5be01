#include "models/base/presets.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "models/base/error.hpp"
#include "models/base/text.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// A name that leads nowhere would silently give the presets of another place.
void require_folder(const std::string& own) {
  std::error_code absent;
  if (fs::is_directory(own, absent)) return;
  throw ConfigError(Problem{"", "TANDEM_PRESETS", own, "is no folder",
                            "unset it, or name one with folders as topology/presets or models/presets in it"});
}

/// Places in the order they are searched. The source tree comes before the installation so that a developer's edit
/// is what a developer's build reads.
std::vector<fs::path> places() {
  std::vector<fs::path> found;
  if (const char* own = std::getenv("TANDEM_PRESETS"); own != nullptr && *own != '\0') {
    require_folder(own);
    found.emplace_back(own);
  }
  found.emplace_back(TANDEM_SOURCE_PRESETS);
  found.emplace_back(TANDEM_INSTALL_PRESETS);
  return found;
}

bool safe_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.' || c == '+';
}

bool safe_name(std::string_view name) {
  return !name.empty() && name.size() <= 128 && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), safe_character);
}

std::string names_remedy(std::string_view folder, std::string_view name) {
  const std::vector<std::string> names = preset_names(folder);
  const std::string meant = nearest(name, names);
  if (!meant.empty()) return "did you mean \"" + meant + "\"?";
  return names.empty()
             ? "no " + std::string(folder) + " folder was found; set TANDEM_PRESETS to the folder that holds it"
             : "there are " + list_text(names);
}

}  // namespace

std::string find_data_file(std::string_view folder, std::string_view file) {
  if (!safe_name(file)) return {};
  for (const fs::path& place : places()) {
    const fs::path path = place / folder / file;
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) return path.string();
  }
  return {};
}

std::string find_preset(std::string_view folder, std::string_view name) {
  return safe_name(name) ? find_data_file(folder, std::string(name) + ".json") : std::string();
}

bool is_preset_path(std::string_view name) { return name.find('/') != std::string_view::npos || name.ends_with(".json"); }

std::string beside(const std::string& path, const std::string& file) {
  if (fs::path(path).is_absolute()) return path;
  const fs::path there = fs::path(file).parent_path() / path;
  std::error_code ignored;
  return fs::is_regular_file(there, ignored) ? there.string() : path;
}

std::vector<std::string> preset_names(std::string_view folder) {
  std::vector<std::string> names;
  for (const fs::path& place : places()) {
    std::error_code absent;
    for (fs::directory_iterator it(place / folder, absent), end; !absent && it != end; it.increment(absent)) {
      if (it->path().extension() == ".json" && safe_name(it->path().stem().string())) {
        names.push_back(it->path().stem().string());
      }
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Problem unknown_preset(std::string_view folder, std::string_view name, std::string_view what) {
  Problem p;
  p.value = '"' + shortened(name) + '"';
  p.reason = "there is no " + std::string(what) + " of this name";
  p.remedy = names_remedy(folder, name);
  return p;
}

}  // namespace tandem

#include "models/base/data_folders.hpp"

#include <sys/auxv.h>

#include <filesystem>

#include "models/base/files.hpp"
#include "models/base/own_presets.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// The file of the running program, links resolved; empty where the system does not say. Without /proc it is the name that the
/// program was started by.
std::string program_file() {
  if (std::string file = link_target("/proc/self/exe"); !file.empty()) return file;
  const auto* name = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  return name == nullptr ? std::string() : canonical_path(name);
}

bool lies_in(const std::string& file, const std::string& folder) { return !folder.empty() && file.starts_with(folder + "/"); }

/// Data folders relative to the program's own path, which does not change while it runs.
std::vector<std::string> own_places() {
  const std::string program = program_file();
  if (program.empty()) return {};
  std::vector<std::string> places{(fs::path(program).parent_path() / TANDEM_DATA_FROM_PROGRAM).lexically_normal().string()};
  if (lies_in(program, canonical_path(TANDEM_BUILD_TREE))) places.emplace_back(TANDEM_SOURCE_TREE);
  return places;
}

}  // namespace

std::vector<std::string> data_folders() {
  static const std::vector<std::string> fixed = own_places();
  std::vector<std::string> folders = fixed;
  if (const std::string own = own_presets_folder(); !own.empty()) folders.insert(folders.begin(), own);
  return folders;
}

}  // namespace tandem

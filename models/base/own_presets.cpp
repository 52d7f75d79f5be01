#include "models/base/own_presets.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/text.hpp"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// Every folder that data files are looked for in.
const std::vector<std::string> kFolders = {
    "models/presets",        "models/presets/parallel", "models/presets/training",  "models/stacks",
    "models/stacks/fusions", "models/arguments", "models/arguments/options", "models/huggingface/types", "models/huggingface/weights", "topology",                "topology/calibration",     "topology/errors",
    "topology/measured",     "topology/presets",        "topology/presets/nodes",   "topology/presets/devices",
    "topology/budget",
    "reports/html", "reports/trace"};
constexpr std::string_view kRoots[] = {"models", "topology", "reports"};
constexpr int kDeepest = 4;  // one folder more than the deepest of these: links may lead in a circle

[[noreturn]] void refuse(const std::string& own, const std::string& reason, const std::string& remedy) {
  throw ConfigError(Problem{"", "TANDEM_PRESETS", own, reason, remedy});
}

std::string folders_text() { return "presets are looked for in " + list_text(kFolders) + " below it"; }

/// One walk through the user's folder. Hidden files, which editors leave, are no presets.
class Check {
 public:
  explicit Check(const std::string& own) : own_(own) {}

  void folder(const fs::path& place, int depth = 1) const {
    const FolderEntries entries = folder_entries((own_ / place).string());
    if (entries.reason) refuse(own_, place.string() + " cannot be read: " + entries.reason.message(), kRepair);
    for (const std::string& name : entries.names)
      if (!name.starts_with('.')) entry(place / name, depth);
  }

 private:
  static constexpr const char* kRepair = "repair it, or remove it";

  void entry(const fs::path& place, int depth) const {
    const std::string path = (own_ / place).string();
    const FileKind kind = file_state(path).kind;
    if (kind == FileKind::folder && depth < kDeepest) folder(place, depth + 1);
    const bool preset = place.extension() == ".json";
    if (!preset && kind != FileKind::broken_link && kind != FileKind::unknown) return;
    if (const std::string why = why_unreadable(path); !why.empty()) refuse(own_, place.string() + " " + why, kRepair);
    if (!is_data_folder(place.parent_path().string()))
      refuse(own_, place.string() + " lies where no preset is looked for", folders_text());
  }

  fs::path own_;
};

void check(const std::string& own) {
  const std::string remedy = "unset it, or name a folder of presets: " + folders_text();
  const FileState state = file_state(own);
  if (state.kind == FileKind::unknown) refuse(own, "cannot be read: " + state.reason.message(), remedy);
  if (state.kind != FileKind::folder) refuse(own, "is no folder", remedy);
  for (const std::string_view root : kRoots)
    if (const fs::path place = fs::path(own) / root; file_state(place.string()).kind != FileKind::absent) Check(own).folder(root);
  const auto is_there = [&](const std::string& folder) { return is_folder((fs::path(own) / folder).string()); };
  if (std::none_of(kFolders.begin(), kFolders.end(), is_there)) refuse(own, "has none of the folders of presets", remedy);
}

}  // namespace

std::string own_presets_folder() {
  static std::mutex mutex;
  static std::set<std::string> checked;
  const char* given = std::getenv("TANDEM_PRESETS");
  const std::string own = given == nullptr ? "" : given;
  const std::lock_guard lock(mutex);
  if (own.empty() || checked.contains(own)) return own;
  check(own);
  checked.insert(own);
  return own;
}

bool is_data_folder(std::string_view folder) { return std::find(kFolders.begin(), kFolders.end(), folder) != kFolders.end(); }

}  // namespace tandem

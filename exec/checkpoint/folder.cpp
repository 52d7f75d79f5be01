#include "exec/checkpoint/folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "exec/state/stored_values.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/fnv.hpp"
#include "models/base/input.hpp"
#include "models/base/new_file.hpp"
#include "models/base/output.hpp"

namespace tandem::exec {
namespace {

constexpr std::string_view kStep = "step-";

/// Number of steps in a checkpoint folder's name; -1 for other names.
std::int64_t steps_of(std::string_view name) {
  if (!name.starts_with(kStep)) return -1;
  const std::string_view digits = name.substr(kStep.size());
  std::int64_t steps = -1;
  const auto [end, wrong] = std::from_chars(digits.data(), digits.data() + digits.size(), steps);
  return wrong == std::errc() && end == digits.data() + digits.size() && steps >= 0 ? steps : -1;
}

bool complete(const std::string& folder) { return is_regular_file(folder + "/" + kManifestName); }

/// Names of the complete checkpoints, in ascending order of steps.
std::vector<std::string> checkpoints_in(const std::string& path) {
  std::vector<std::string> found = checkpoint_names(path);
  std::erase_if(found, [&](const std::string& name) { return !complete(path + "/" + name); });
  return found;
}

struct Latest {
  std::string name, note;
};

/// The checkpoint that `latest` names; else the one with the most steps, with a note if another was named; empty if there is none.
Latest latest_of(const std::string& path) {
  const std::vector<std::string> found = checkpoints_in(path);
  const std::string named = latest_name(path);
  if (std::find(found.begin(), found.end(), named) != found.end()) return {named, ""};
  if (found.empty()) return {};
  const bool there = steps_of(named) >= 0 && is_folder(path + "/" + named);
  const std::string lacks = there ? ", which is incomplete" : ", which is not there";
  return {found.back(), named.empty() ? "" : "latest names " + named + lacks + ": " + found.back() + " is taken"};
}

class FolderState final : public SavedState {
 public:
  FolderState(std::string folder, Manifest manifest) : folder_(std::move(folder)), manifest_(std::move(manifest)) {
    for (const std::string& name : manifest_.files)
      if (name.find('/') != std::string::npos || !is_regular_file(folder_ + "/" + name)) refuse(name, "is missing");
  }

  const StateFacts& facts() const override { return manifest_.facts; }
  const std::vector<SavedTensor>& tensors() const override { return manifest_.tensors; }
  std::string file() const override { return folder_; }
  void read(std::size_t tensor, std::size_t part, std::span<std::byte> to) const override {
    const StoredPart& stored = manifest_.stored[tensor][part];
    const std::string& name = manifest_.files[stored.file];
    InputFile(folder_ + "/" + name).read_at(stored.at, to);
    if (crc32_of({reinterpret_cast<const char*>(to.data()), to.size()}) == stored.crc32) return;
    const SavedTensor& t = manifest_.tensors[tensor];
    refuse(name, "is damaged: the checksum of " + part_name(t, t.parts[part]) + " is not that of its bytes");
  }
  SavedRun& run() { return manifest_.run; }

 private:
  [[noreturn]] void refuse(const std::string& name, const std::string& reason) const {
    throw ConfigError(Problem{folder_ + "/" + name, "", "", reason, "resume from another checkpoint of the run"});
  }

  std::string folder_;
  Manifest manifest_;
};

void make_latest(const std::string& path, const std::string& name) {
  const std::string file = latest_file(path);
  permit_replacing(file, file);  // a run may resume from the folder that it saves into
  write_text(file, name + "\n");
}

/// Renames the folder first. If the process is killed during removal, the rest does not look like a checkpoint, and the next save
/// removes it.
void remove_checkpoint(const std::string& folder) {
  const std::string away = folder + "." + std::to_string(getpid()) + ".new";
  remove_folder(exchange_folder(folder, away) ? folder : away);
}

}  // namespace

std::string latest_file(const std::string& path) { return path + "/latest"; }

std::string latest_name(const std::string& path) {
  if (!is_regular_file(latest_file(path))) return "";
  std::string named = InputFile(latest_file(path)).whole(256);
  named.erase(named.find_last_not_of('\n') + 1);
  return named;
}

std::string step_name(std::int64_t steps) {
  char text[40];
  std::snprintf(text, sizeof text, "step-%08lld", static_cast<long long>(steps));
  return text;
}

std::string rank_file(Rank rank) {
  char text[40];
  std::snprintf(text, sizeof text, "rank-%05d.safetensors", static_cast<int>(rank.value()));
  return text;
}

std::vector<std::string> checkpoint_names(const std::string& path) {
  std::vector<std::string> found = folder_entries(path).names;
  std::erase_if(found, [](const std::string& name) { return steps_of(name) < 0; });
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return steps_of(a) < steps_of(b); });
  return found;
}

Checkpoint open_folder(const std::string& path) {
  std::string folder = path, note;
  if (!complete(folder)) {
    const auto [name, told] = latest_of(path);
    if (name.empty())
      throw ConfigError(Problem{path, "", "", "holds no complete checkpoint", "give a file or a folder that `tandem train --save` wrote"});
    folder += "/" + name;
    note = told;
  }
  const std::string manifest_path = folder + "/" + kManifestName;
  const std::string text = InputFile(manifest_path).whole(std::size_t{1} << 30);
  auto state = std::make_unique<FolderState>(folder, manifest_of(text, manifest_path));
  SavedRun run = std::move(state->run());
  return {std::move(state), std::move(run), fnv1a(text), note};
}

void publish(const std::string& path, const std::string& written, std::int64_t steps, std::int64_t keep,
             const std::string& before) {
  const std::string name = step_name(steps);
  // A lock keeps other runs away, but some network file systems have none.
  if (const std::string now = latest_name(path); !now.empty() && now != before)
    throw ConfigError(Problem{latest_file(path), "", "", "names " + now + ", which this run has not saved: another run saves there",
                              "give each run a folder of its own"});
  if (file_exists(path + "/" + name) && !complete(path + "/" + name))
    throw ConfigError(Problem{path + "/" + name, "", "", "has the name of a checkpoint but is none", "move it away"});
  if (const std::error_code why = exchange_folder(path + "/" + written, path + "/" + name)) refuse_writing(path + "/" + name, why.value());
  synchronise_folder(path);
  make_latest(path, name);
  remove_folder(path + "/" + written);  // the checkpoint that had this name before
  std::vector<std::string> earlier = checkpoints_in(path);
  std::erase_if(earlier, [&](const std::string& other) { return steps_of(other) >= steps; });
  for (std::size_t i = 0; i + static_cast<std::size_t>(keep) <= earlier.size(); ++i) remove_checkpoint(path + "/" + earlier[i]);
}

}  // namespace tandem::exec

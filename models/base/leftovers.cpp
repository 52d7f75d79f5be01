#include "models/base/leftovers.hpp"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <system_error>

#include "models/base/files.hpp"
#include "models/base/output.hpp"

namespace tandem {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kEnd = ".new";
constexpr std::chrono::minutes kUntouched{10};

/// The process that `name` says is writing `of`; 0 where it says none.
pid_t writer(std::string_view name, std::string_view of) {
  if (name.size() <= of.size() + kEnd.size() || !name.starts_with(of) || name[of.size()] != '.' || !name.ends_with(kEnd)) return 0;
  const std::string_view digits = name.substr(of.size() + 1, name.size() - of.size() - 1 - kEnd.size());
  pid_t pid = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), pid);
  return failed == std::errc() && end == digits.data() + digits.size() && pid > 0 ? pid : 0;
}

bool lives(pid_t process) { return kill(process, 0) == 0 || errno != ESRCH; }

bool untouched(const fs::path& path) {
  std::error_code failed;
  const auto written = fs::last_write_time(path, failed);
  return !failed && fs::file_time_type::clock::now() - written > kUntouched;
}

bool abandoned(const fs::path& file, std::string_view of) {
  const pid_t pid = writer(file.filename().string(), of);
  std::error_code failed;
  if (pid == 0 || lives(pid) || !fs::is_regular_file(fs::symlink_status(file, failed))) return false;
  return untouched(file);
}

/// "NAME" of "NAME.PID.new".
std::string stem_of(const fs::path& path) { return path.filename().stem().stem().string(); }

bool abandoned_folder(const fs::path& folder) {
  const pid_t pid = writer(folder.filename().string(), stem_of(folder));
  std::error_code failed;
  if (pid == 0 || lives(pid) || !fs::is_directory(fs::symlink_status(folder, failed)) || !untouched(folder)) return false;
  for (fs::directory_iterator file(folder, failed); !failed && file != fs::directory_iterator(); file.increment(failed))
    if (!untouched(file->path())) return false;
  return !failed;
}

}  // namespace

std::vector<std::string> remove_leftovers(const std::string& path) {
  const OutputPlace output = output_place(path);
  if (output.in_place) return {};
  const fs::path place(output.path);
  const std::string name = place.filename().string();
  std::vector<std::string> removed;
  std::error_code failed;
  fs::directory_iterator entry(place.has_parent_path() ? place.parent_path() : fs::path("."), failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    std::error_code kept;
    if (abandoned(entry->path(), name) && fs::remove(entry->path(), kept) && !kept) removed.push_back(entry->path().string());
  }
  std::sort(removed.begin(), removed.end());
  return removed;
}

std::vector<std::string> remove_leftover_folders(const std::string& folder) {
  std::vector<std::string> removed;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed); !failed && entry != fs::directory_iterator(); entry.increment(failed))
    if (abandoned_folder(entry->path())) removed.push_back(entry->path().string());
  std::erase_if(removed, [](const std::string& path) { return static_cast<bool>(remove_folder(path)); });
  std::sort(removed.begin(), removed.end());
  return removed;
}

}  // namespace tandem

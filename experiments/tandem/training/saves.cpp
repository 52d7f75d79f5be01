#include "experiments/tandem/training/saves.hpp"

#include "exec/checkpoint/file_keeper.hpp"
#include "exec/checkpoint/folder.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/output.hpp"

namespace tandem::program {

namespace {

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace

SaveLog::SaveLog(std::string path, const Plan& plan, const FiniteWatch& watch, std::function<bool()> goes_on)
    : path_(std::move(path)), plan_(plan), watch_(watch), goes_on_(std::move(goes_on)) {}

bool SaveLog::wanted() {
  if (failed_ && !failure_told_) log(text_of(failed_));  // an earlier save ended behind the last step
  failed_ = nullptr;
  if (!watch_.finite() && !told_) log(refusal());
  told_ = !watch_.finite();
  return watch_.finite();
}

// The end of the run reports the failure of its last save.
void SaveLog::lost(std::exception_ptr error) {
  failed_ = std::move(error);
  failure_told_ = goes_on_();
  if (failure_told_) log(text_of(failed_) + "; the training goes on without it");
}

std::optional<std::string> SaveLog::unsaved() const {
  if (failed_) return text_of(failed_);
  return path_.empty() || watch_.finite() ? std::nullopt : std::optional(refusal());
}

void SaveLog::finish() const {
  if (failed_) std::rethrow_exception(failed_);
  if (!path_.empty() && !watch_.finite()) throw DeviceError(refusal() + "; " + remedy(plan_, watch_, kept_ > 0 ? path_ : ""));
}

std::string SaveLog::refusal() const {
  const std::string left = kept_ > 0 ? "stays that of " + std::to_string(kept_) + " steps" : "is not written";
  return path_ + ": " + left + ": " + watch_.text();
}

std::unique_ptr<FileLock> lock_place(const std::string& save) {
  if (save.empty()) return nullptr;
  if (exec::names_one_file(save)) {
    const OutputPlace place = output_place(save);
    return place.in_place ? nullptr : std::make_unique<FileLock>(place.path + ".lock", save);
  }
  if (const std::error_code why = make_folders(save))
    throw ConfigError(Problem{save, "", "", "cannot be written: " + why.message(), "give another folder"});
  return std::make_unique<FileLock>(save + "/lock", save);
}

void require_own_place(const std::string& save, const std::string& resume) {
  if (save.empty()) return;
  const std::string place = canonical_path(save), from = resume.empty() ? "" : canonical_path(resume);
  const std::string remedy = "go on from it with --resume, or give another name";
  if (is_regular_file(save) && from != place) throw ConfigError(Problem{save, "--save", "", "exists, and the run does not go on from it", remedy});
  const std::vector<std::string> names = is_folder(save) ? exec::checkpoint_names(save) : std::vector<std::string>();
  if (names.empty() || from == place || from.substr(0, from.rfind('/')) == place) return;
  throw ConfigError(Problem{save, "--save", "", "has " + names.back() + ", and the run does not go on from it", remedy});
}

std::unique_ptr<exec::StateKeeper> make_keeper(const SaveOptions& wanted, SaveLog& told, exec::World& world) {
  if (wanted.path.empty()) return nullptr;
  exec::KeeperOptions options{wanted.path,
                              wanted.run,
                              wanted.keep,
                              [&told] { return told.wanted(); },
                              [&told](std::int64_t steps) { told.kept(steps); },
                              [&told](std::exception_ptr error) { told.lost(std::move(error)); },
                              [](const std::string& text) { log(text); }};
  return exec::make_file_keeper(std::move(options), world);
}

}  // namespace tandem::program

#include "models/stack/default_stack.hpp"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "models/base/data_folders.hpp"
#include "models/base/files.hpp"
#include "models/base/held_files.hpp"
#include "models/base/json.hpp"
#include "models/base/left_out.hpp"
#include "models/base/presets.hpp"
#include "models/plan/plan.hpp"
#include "models/stack/stack_file.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::string_view kFolder = "models/stacks";

bool has(const std::vector<std::string>& list, const std::string& generation) {
  return std::find(list.begin(), list.end(), generation) != list.end();
}

/// Whether the `default_on` of a broken stack's file has the generation; nothing if that cannot be read.
std::optional<bool> claim_of_broken(const std::string& name, const std::string& generation) try {
  const json file = read_json(find_preset(kFolder, name));
  if (!file.is_object()) return std::nullopt;
  const json on = file.value("default_on", json::array());
  return on.is_array() ? std::optional(std::find(on.begin(), on.end(), json(generation)) != on.end()) : std::nullopt;
} catch (const ConfigError&) {
  return std::nullopt;
}

/// Whether any data folder's file of this stack has the generation's name in its text. The user's own file may hide one of Tandem's.
bool mentions(const std::string& name, const std::string& generation) {
  for (const std::string& folder : data_folders()) try {
      const auto path = std::filesystem::path(folder) / kFolder / (name + ".json");
      if (is_regular_file(path.string()) && read_text(path.string()).find('"' + generation + '"') != std::string::npos) return true;
    } catch (const ConfigError&) {
      return true;  // an unreadable file may have it
    }
  return false;
}

/// The search for a generation's stack, over all files in the order of their names.
class DefaultStackSearch {
 public:
  explicit DefaultStackSearch(const std::string& generation) : generation_(generation) {}

  void add(const std::string& name) {
    try {
      const auto stack = load_stack(name);
      if (has(stack->default_on, generation_)) claim(stack);
    } catch (const ConfigError& e) {
      add_broken(name, e);
    }
  }

  /// Throws the error of a broken file if no other file has the generation.
  DefaultStack chosen() const {
    if (conflict_) std::rethrow_exception(conflict_);
    if (!chosen_ && needed_) std::rethrow_exception(needed_);
    return {chosen_ ? chosen_->name : std::string(kOwnStack), notes_};
  }

 private:
  void claim(const std::shared_ptr<const StackFile>& stack) {
    if (chosen_ && !conflict_)
      conflict_ = std::make_exception_ptr(ConfigError(
          Problem{stack->path, "default_on", '"' + generation_ + '"', "is in default_on of " + chosen_->path + " too",
                  "leave it in one of the two files, or name a stack in the plan"}));
    if (!chosen_) chosen_ = stack;
  }

  /// Call it inside the handler of `e`.
  void add_broken(const std::string& name, const ConfigError& e) {
    const std::optional<bool> claims = claim_of_broken(name, generation_);
    if (claims == true) throw;
    if (!claims && !needed_ && mentions(name, generation_)) needed_ = std::current_exception();
    notes_.push_back("stack: a file of models/stacks that this plan does not use is broken: " + e.problems().front().message());
  }

  const std::string& generation_;
  std::shared_ptr<const StackFile> chosen_;
  std::exception_ptr needed_, conflict_;
  std::vector<std::string> notes_;
};

DefaultStack search(const std::string& generation) {
  if (generation.empty()) return {std::string(kOwnStack), {}};
  DefaultStackSearch search(generation);
  for (const std::string& name : preset_names(kFolder)) search.add(name);
  return search.chosen();
}

}  // namespace

DefaultStack default_stack(const std::string& generation) {
  thread_local HeldAnswers<DefaultStack> held;
  static SharedHeldAnswers<DefaultStack> shared;
  const auto read = [&] { return search(generation); };
  const bool whole = LeftOut::now().evidence.empty();  // what a thread leaves out is not left out on others
  return held.get(generation, [&] { return whole ? shared.get(generation, read) : read(); });
}

}  // namespace tandem

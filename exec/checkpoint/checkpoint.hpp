#pragma once
// A training state on the disk: a folder of parts and a manifest, or one file.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/state/saved_state.hpp"
#include "models/base/json.hpp"

namespace tandem::exec {

/// What a checkpoint says of the run that was saved.
struct SavedRun {
  std::string plan_json;   ///< with every default
  std::uint64_t data = 0;  ///< TokenSource::fingerprint of what it was trained on
  /// Share of the text, its end, that was not trained on; none: the file is of a version that did not say.
  std::optional<double> held_out = std::nullopt;
};

struct Checkpoint {
  std::unique_ptr<SavedState> state;
  SavedRun run;
  std::uint64_t digest = 0;  ///< of all that it holds: equal for equal checkpoints
};

/// A file, a folder of checkpoints (its latest one), or one of them. Throws ConfigError where it cannot be read, is none, is cut short
/// or damaged. Of a folder, parts are read and checked when the state is restored.
Checkpoint load_checkpoint(const std::string& path);

/// Whether a name asks for one file.
bool names_one_file(const std::string& path);

/// Elements of a part: what reads it checks all of it.
constexpr std::int64_t kPartBytes = std::int64_t{4} << 20;
inline std::int64_t part_elements(DType type) { return kPartBytes * 8 / bits(type); }

/// What both forms say in texts: steps, samples, plan, ..., by key. `format`: which form it is.
std::map<std::string, std::string> metadata_of(const std::string& format, const StateFacts& facts, const SavedRun& run);
/// Throws std::out_of_range or nlohmann::json::exception where something is missing or wrong.
StateFacts facts_of(const nlohmann::json& metadata, const std::string& format);
SavedRun run_of(const nlohmann::json& metadata);

/// "exp_avg.word.weight" is of an optimizer's buffer; a weight has its own name.
std::string tensor_name(const SavedTensor& t);

}  // namespace tandem::exec

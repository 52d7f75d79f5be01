#pragma once
// A training state on disk: either a folder of part files with a manifest, or a single file.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/state/saved_state.hpp"
#include "models/base/json.hpp"

namespace tandem::exec {

/// The facts about a saved run that a checkpoint stores.
struct SavedRun {
  std::string plan_json;   ///< with all defaults filled in
  std::uint64_t data = 0;  ///< TokenSource::fingerprint of the training data
  /// Fraction at the end of the text that was not used for training; nullopt: written by a version that did not store it.
  std::optional<double> held_out = std::nullopt;
  /// Sequences that the run had consumed when it began to read the data from its beginning, in the present sequence length.
  std::int64_t data_since = 0;
};

struct Checkpoint {
  std::unique_ptr<SavedState> state;
  SavedRun run;
  std::uint64_t digest = 0;  ///< hash of the contents: equal checkpoints have equal digests
  std::string note = {};     ///< what a user should know about the choice of this one; empty: nothing
};

/// Opens a single file, a checkpoint folder, or a folder of checkpoints (then its latest). Throws ConfigError if it cannot be read,
/// is no checkpoint, is cut short or damaged. A folder's parts are read and checked only when the state is restored.
Checkpoint load_checkpoint(const std::string& path);

/// True if checkpoints under this path are single files.
bool names_one_file(const std::string& path);

/// Size of a part. A part is read and checked as a whole, which needs that much memory.
constexpr std::int64_t kPartBytes = std::int64_t{4} << 20;
inline std::int64_t part_elements(DType type) { return kPartBytes * 8 / bits(type); }

/// The metadata of both forms as key and text: steps, samples, plan and so on. `format` names the form.
std::map<std::string, std::string> metadata_of(const std::string& format, const StateFacts& facts, const SavedRun& run);
/// The inverse of metadata_of. Throws std::out_of_range or nlohmann::json::exception if a value is missing or wrong.
StateFacts facts_of(const nlohmann::json& metadata, const std::string& format);
SavedRun run_of(const nlohmann::json& metadata);

/// Name of a tensor in a file: "exp_avg.word.weight" for an optimizer buffer; a weight has the parameter's own name.
std::string tensor_name(const SavedTensor& t);

}  // namespace tandem::exec

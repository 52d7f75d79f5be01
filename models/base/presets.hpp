#pragma once
// Finds presets, data files that ship with Tandem, by folder and name.

#include <string>
#include <string_view>
#include <vector>

#include "models/base/error.hpp"

namespace tandem {

/// Path of `<folder>/<name>.json` in the first of the data folders that has it. Folders are "models/presets", "models/stacks",
/// "topology/presets" ... Empty when there is none; names that could leave the folder are never found. Throws ConfigError where
/// the file is there and cannot be read, and where $TANDEM_PRESETS cannot be used.
std::string find_preset(std::string_view folder, std::string_view name);

/// Path of `<folder>/<file>` in the first of the same places that has it; empty when there is none. Throws as find_preset does.
std::string find_data_file(std::string_view folder, std::string_view file);

/// find_data_file() for a file that is only inspected: own_presets_note does not report it.
std::string look_for_data_file(std::string_view folder, std::string_view file);

/// find_data_file() that throws ConfigError with the searched folders if the file does not exist.
std::string require_data_file(std::string_view folder, std::string_view file);

/// Files that this process used from $TANDEM_PRESETS, as paths below it, or a
/// note that it used none. Empty if that is not set or no preset was looked up.
std::string own_presets_note();

/// Whether a name may be that of a preset: letters, digits, "-", "_", "." and "+", at most 128, no dot in front.
bool is_preset_name(std::string_view name);

/// Whether what stands where a preset's name may stand is the path of a file of one's own: it has a slash or ends in .json.
bool is_preset_path(std::string_view name);

/// A relative path as seen from the folder of `file`, the file that says it, where there is such a file; else as it stands.
std::string beside(const std::string& path, const std::string& file);

/// Names that find_preset finds in `folder`, sorted, each once.
std::vector<std::string> preset_names(std::string_view folder);

/// The problem to report when find_preset found nothing: names the nearest preset, or all of them. File and field are
/// the caller's to fill in. `what` is the noun of the message, e.g. "model preset".
Problem unknown_preset(std::string_view folder, std::string_view name, std::string_view what);

}  // namespace tandem

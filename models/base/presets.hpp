#pragma once
// Finds presets, data files that ship with Tandem, by folder and name.

#include <string>
#include <string_view>
#include <vector>

#include "models/base/error.hpp"

namespace tandem {

/// Path of `<folder>/<name>.json` in the first data folder that has it. `folder`: "models/presets",
/// "models/stacks", "topology/presets" ... Empty if there is none; names that leave the folder are
/// never found. Throws ConfigError if the file cannot be read or $TANDEM_PRESETS cannot be used.
std::string find_preset(std::string_view folder, std::string_view name);

/// Path of `<folder>/<file>` in the first data folder that has it; empty if there is none. Throws as find_preset does.
std::string find_data_file(std::string_view folder, std::string_view file);

/// find_data_file() for a file that is only inspected: own_presets_note does not report it.
std::string look_for_data_file(std::string_view folder, std::string_view file);

/// find_data_file() that throws ConfigError with the searched folders if the file does not exist.
std::string require_data_file(std::string_view folder, std::string_view file);

/// Files that this process used from $TANDEM_PRESETS, as paths below it, or a
/// note that it used none. Empty if that is not set or no preset was looked up.
std::string own_presets_note();

/// Whether a name is a valid preset name: letters, digits, "-", "_", "." and "+", at most 128, no dot in front.
bool is_preset_name(std::string_view name);

/// Whether a text in place of a preset's name is a path: it has a slash or ends in .json.
bool is_preset_path(std::string_view name);

/// Resolves a relative path against the folder of `file`, which contains it; unchanged if there is no such file.
std::string beside(const std::string& path, const std::string& file);

/// Names that find_preset finds in `folder`, sorted, each once.
std::vector<std::string> preset_names(std::string_view folder);

/// The problem to report when find_preset found nothing: names the nearest preset, or all of them. File and field are
/// the caller's to fill in. `what` is the noun of the message, e.g. "model preset".
Problem unknown_preset(std::string_view folder, std::string_view name, std::string_view what);

}  // namespace tandem

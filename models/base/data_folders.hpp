#pragma once
// Folders of Tandem's data files: presets, calibrations, parts of pages.

#include <string>
#include <vector>

namespace tandem {

/// The folders that data files are looked for in, in this order: $TANDEM_PRESETS; the installed data beside the program
/// (`../share/tandem` from the program's real folder); the source tree, for a program that lies in the build tree.
/// Throws ConfigError where $TANDEM_PRESETS cannot be used.
std::vector<std::string> data_folders();

}  // namespace tandem

#pragma once
// $TANDEM_PRESETS: the user's own data folder, searched before Tandem's. It is checked as a
// whole. Otherwise an unusable file in it would silently yield the preset of another folder.

#include <string>
#include <string_view>

namespace tandem {

/// $TANDEM_PRESETS, or an empty string if it is not set. Throws ConfigError if it is not a folder, has none of the
/// preset folders, or holds a preset that cannot be read or is in the wrong folder. Each folder is checked once.
std::string own_presets_folder();

/// Whether data files are looked for in `folder`, a path below a data folder: "models/presets".
bool is_data_folder(std::string_view folder);

}  // namespace tandem

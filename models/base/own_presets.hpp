#pragma once
// $TANDEM_PRESETS: the user's own data folder, which is searched before Tandem's. It is checked as a whole, because a file in it
// that cannot be used would silently give the preset of another place.

#include <string>
#include <string_view>

namespace tandem {

/// $TANDEM_PRESETS, or an empty text where it is not set. Throws ConfigError where it is no folder, has none of the folders that
/// presets are looked for in, or holds a preset that cannot be read or that no such folder holds. A folder is checked once.
std::string own_presets_folder();

/// Whether data files are looked for in `folder`, a path below a data folder: "models/presets".
bool is_data_folder(std::string_view folder);

}  // namespace tandem

#pragma once
// Tables for spreadsheets (RFC 4180).

#include <string>
#include <string_view>

namespace tandem {

/// A cell: quoted if necessary, without control characters.
std::string csv_cell(std::string_view text);

}  // namespace tandem

#pragma once
// The note of a prediction that takes times from a table of `tandem measure`.

#include <string_view>

namespace tandem::sim {

/// Begins the note that names a processor's measured table, its host and its date.
inline constexpr std::string_view kMeasuredTable = "measured table ";

}  // namespace tandem::sim

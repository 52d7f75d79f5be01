#pragma once
// The layout that a plan has before a search replaces it, to compare the rows with.

#include <string>

#include "experiments/tandem/search/search.hpp"

namespace tandem::search {

/// What became of the plan's own layout, beside the first row, as one line. Empty if the question is a model, a plan without a layout, or
/// one that leaves fields to the search by "auto".
std::string own_layout_text(const Search& search, const Answer& answer);

}  // namespace tandem::search

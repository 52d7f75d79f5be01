#include "experiments/tandem/search/outcome.hpp"

namespace tandem::search {

std::string_view name(Outcome outcome) {
  constexpr std::array<std::string_view, kOutcomes> names{"devices", "layout", "unlowered", "same",      "too_large",
                                                       "bounded", "stack",  "left",      "estimated", "simulated"};
  return names[static_cast<std::size_t>(outcome)];
}

std::string_view meaning(Outcome outcome) {
  constexpr std::array<std::string_view, kOutcomes> words{
      "degrees do not go into the devices",
      "layout or batch does not divide",
      "not implemented",
      "same step as another candidate",
      "does not fit the memory",
      "worse than the rows, by lower bounds",
      "refused by the stack",
      "left out: --events reached, or interrupted",
      "estimated by the closed form",
      "simulated by events",
  };
  return words[static_cast<std::size_t>(outcome)];
}

}  // namespace tandem::search

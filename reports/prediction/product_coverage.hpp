#pragma once
// How far a prediction's matrix products rest on measured shapes, and which of them do not.

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

/// `batch` products [m,k] by [k,n] that the measured table does not have.
struct UncoveredProduct {
  std::string product;  ///< "forward", "input gradient", "weight gradient", ...
  std::string type;     ///< compute type
  std::int64_t batch, m, n, k;
  std::string accumulate;  ///< type of what it is added to in its own kernel, or "no"
  double share;            ///< of the time of all products
};

/// `share` and those of `not_covered` add up to 1, where there are products.
struct ProductCoverage {
  std::string table, card, date, source;
  std::int64_t shapes = 0;                    ///< that the table has
  double share = 0;                           ///< of the products' time, over all ranks, that is measured
  std::vector<UncoveredProduct> not_covered;  ///< most time first
};

/// "matrix products: 62 % of their time from measured shapes (...), 14 shapes not covered: ...": one line for people.
std::string to_text(const ProductCoverage& c);

}  // namespace tandem

#pragma once
// The share of a prediction's matrix products with measured shapes, and the products without.

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

/// `batch` products [m,k] by [k,n] that the measured table does not have.
struct UncoveredProduct {
  std::string product;  ///< "forward", "input gradient", "weight gradient", ...
  std::string type;     ///< compute type
  std::int64_t batch, m, n, k;
  std::string accumulate;  ///< type of the sum that its kernel adds to, or "no"
  double share;            ///< share of the time of all products
};

/// `share` and the shares of `not_covered` add up to 1 if there are products.
struct ProductCoverage {
  std::string table, card, date, source;
  std::int64_t shapes = 0;                    ///< shapes that the table has
  double share = 0;                           ///< measured share of the products' time over all ranks
  std::vector<UncoveredProduct> not_covered;  ///< most time first
};

/// "matrix products: 62 % of their time from measured shapes (...), 14 shapes not covered: ...": one line for people.
std::string to_text(const ProductCoverage& c);

}  // namespace tandem

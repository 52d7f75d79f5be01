#include "reports/prediction/product_coverage.hpp"

#include <algorithm>

#include "reports/prediction/text.hpp"

namespace tandem {

namespace {

constexpr std::size_t kShown = 3;  // shapes that the line names

std::string shape_text(const UncoveredProduct& p) {
  const std::string batch = p.batch > 1 ? std::to_string(p.batch) + " x " : "";
  return p.product + " " + batch + "[" + std::to_string(p.m) + " x " + std::to_string(p.n) + " x " +
         std::to_string(p.k) + "] " + p.type + (p.accumulate == "no" ? "" : " added to " + p.accumulate) + " (" +
         number_text(100 * p.share, 1) + " %)";
}

std::string list(const std::vector<UncoveredProduct>& products) {
  std::string out;
  for (std::size_t i = 0; i < std::min(products.size(), kShown); ++i) out += (i ? ", " : "") + shape_text(products[i]);
  return products.size() > kShown ? out + " and " + std::to_string(products.size() - kShown) + " more" : out;
}

}  // namespace

std::string to_text(const ProductCoverage& c) {
  const std::string head = "matrix products: " + number_text(100 * c.share, 0) +
                           " % of their time from measured shapes (" + c.table + (c.date.empty() ? "" : ", " + c.date) +
                           ")";
  if (c.not_covered.empty()) return head;
  const std::size_t n = c.not_covered.size();
  return head + ", " + std::to_string(n) + (n == 1 ? " shape" : " shapes") + " not covered: " + list(c.not_covered);
}

}  // namespace tandem

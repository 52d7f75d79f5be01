#include "reports/prediction/product_coverage.hpp"

#include "tests/catch.hpp"

using namespace tandem;

TEST_CASE("one line tells how much of the products was measured and which take most of the rest") {
  ProductCoverage c{"h200-sxm-141gb", "a card", "2026-11-20", "a source", 36, 0.625, {}};
  c.not_covered = {{"weight gradient", "bf16", 1, 8192, 1536, 12288, "fp32", 0.25}};
  CHECK(to_text(c) ==
        "matrix products: 62 % of their time from measured shapes (h200-sxm-141gb, 2026-11-20), 1 shape not covered: "
        "weight gradient [8192 x 1536 x 12288] bf16 added to fp32 (25.0 %)");
  c.not_covered.push_back({"attention scores", "bf16", 96, 64, 32, 16, "no", 0.0625});
  c.not_covered.push_back({"forward", "bf16", 1, 5, 6, 7, "no", 0.03125});
  c.not_covered.push_back({"forward", "bf16", 1, 8, 9, 10, "no", 0.03125});
  const std::string line = to_text(c);
  CHECK(line.find("4 shapes not covered: ") != line.npos);
  CHECK(line.find(", attention scores 96 x [64 x 32 x 16] bf16 (6.2 %), forward [5 x 6 x 7] bf16 (3.1 %) and 1 more") !=
        line.npos);
  CHECK(line.find("8 x 9") == line.npos);
}

TEST_CASE("nothing is said to be missing where all products were measured, and no date is made up") {
  CHECK(to_text(ProductCoverage{"a table", "a card", "", "a source", 3, 1, {}}) ==
        "matrix products: 100 % of their time from measured shapes (a table)");
}

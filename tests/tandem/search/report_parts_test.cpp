// Tables of a search's report.

#include "experiments/tandem/search/report_parts.hpp"

#include "experiments/tandem/search/fewer.hpp"
#include "tests/catch.hpp"

using namespace tandem::search;

TEST_CASE("a table's columns end at their right, but layouts begin at one place") {
  Table table({"estimate", "memory", "layout"});
  table.add({"1.5 s", "9 GiB", "tensor 8"});
  table.add({"12 s", "-", "tensor 4, pipeline 16, recompute_modules core_attention"});
  CHECK(table.text() ==
        "  estimate  memory  layout\n"
        "     1.5 s   9 GiB  tensor 8\n"
        "      12 s       -  tensor 4, pipeline 16, recompute_modules core_attention\n");
}

TEST_CASE("a table without layouts has numbers to its right end") {
  Table table({"", "dp"});
  table.add({"1", "128"});
  table.add({"2", "8"});
  CHECK(table.text() == "      dp\n  1  128\n  2    8\n");
}

TEST_CASE("Rounder numbers of devices have more factors of two, or nodes that divide the batch, and are at least three quarters") {
  using Counts = std::vector<std::int64_t>;
  CHECK(rounder_counts(13, 8, 100) == Counts{12});
  CHECK(rounder_counts(200, 8, 512) == Counts{192});        // 128 would be nodes that divide the batch, too few
  CHECK(rounder_counts(1008, 8, 1000) == Counts{768, 1000});  // 1000 = 8 x 125
  CHECK(rounder_counts(7, 8, 64) == Counts{6});
  for (const std::int64_t round : {1, 8, 24, 48, 256, 768}) CHECK(rounder_counts(round, 8, 64).empty());
}

// Tables of a search's report.

#include "experiments/tandem/search/report_parts.hpp"

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

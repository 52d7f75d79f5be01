#include <limits>

#include "reports/prediction/text.hpp"
#include "tests/catch.hpp"

using namespace tandem;

TEST_CASE("Times are written with three digits in the largest unit that they reach") {
  CHECK(time_text(32.14) == "32.1 s");
  CHECK(time_text(0.00804) == "8.04 ms");
  CHECK(time_text(1.5e-5) == "15.0 us");
  CHECK(time_text(123.4) == "123 s");
  CHECK(time_text(0) == "0 s");
  CHECK(time_text(3e-12) == "0.00 ns");
}

TEST_CASE("Sizes are written in binary units, bytes without a fraction") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(1023) == "1023 B");
  CHECK(bytes_text(1536) == "1.50 KiB");
  CHECK(bytes_text(std::int64_t{80} << 30) == "80.0 GiB");
}

TEST_CASE("Counts are grouped by thousands") {
  CHECK(count_text(0) == "0");
  CHECK(count_text(999) == "999");
  CHECK(count_text(1000) == "1,000");
  CHECK(count_text(174603460608) == "174,603,460,608");
  CHECK(count_text(-1234) == "-1,234");
  CHECK(count_text(-123) == "-123");
}

TEST_CASE("Percentages carry their sign and a dash where there is none") {
  CHECK(percent_text(0.031) == "+3.1 %");
  CHECK(percent_text(-0.5) == "-50.0 %");
  CHECK(percent_text(std::numeric_limits<double>::infinity()) == "-");
}

TEST_CASE("Columns are filled and never cut") {
  CHECK(padded("ab", 4) == "ab  ");
  CHECK(aligned("ab", 4) == "  ab");
  CHECK(padded("abcde", 4) == "abcde");
  CHECK(aligned("abcde", 4) == "abcde");
}

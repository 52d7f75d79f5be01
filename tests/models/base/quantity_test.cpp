#include "models/base/quantity.hpp"

#include <string>

#include "tests/catch.hpp"

using namespace tandem;

namespace {

struct Size {
  const char* text;
  std::int64_t bytes;
};

template <class Parse>
Problem refusal(Parse parse, const std::string& text) {
  try {
    parse(text);
  } catch (const ConfigError& e) {
    return e.problems().front();
  }
  return {};
}

}  // namespace

TEST_CASE("sizes keep powers of 1000 and of 1024 apart") {
  const Size size = GENERATE(Size{"80 GiB", 85899345920}, Size{"80 GB", 80000000000}, Size{"1 KiB", 1024},
                             Size{"1 kB", 1000}, Size{"160MB", 160000000}, Size{"0 B", 0}, Size{"0.5 KiB", 512},
                             Size{" 2 TiB ", 2199023255552}, Size{"1e3 B", 1000}, Size{"1.5 PB", 1500000000000000});
  INFO(size.text);
  CHECK(parse_bytes(size.text).count() == size.bytes);
}

TEST_CASE("bandwidths keep bits and bytes apart") {
  CHECK(parse_bandwidth("400 Gb/s").bytes_per_second() == 50e9);
  CHECK(parse_bandwidth("50 GB/s").bytes_per_second() == 50e9);
  CHECK(parse_bandwidth("50 GiB/s").bytes_per_second() == 50.0 * 1073741824.0);
  CHECK(parse_bandwidth("1.6 Tb/s").bytes_per_second() == 200e9);
  CHECK(parse_bandwidth("800 Gbit/s") == parse_bandwidth("100 GB/s"));
}

TEST_CASE("times and rates are read in their units") {
  CHECK(parse_duration("2 us").ps() == 2'000'000);
  CHECK(parse_duration("1.5 ns").ps() == 1500);
  CHECK(parse_duration("0 s").ps() == 0);
  CHECK(parse_duration("1 min").ps() == 60'000'000'000'000);
  CHECK(parse_flop_rate("312 TFLOP/s").flops_per_second() == 312e12);
}

TEST_CASE("a quantity that is not one is refused with an example") {
  const auto size = [](const std::string& t) { return refusal(parse_bytes, t); };
  CHECK(size("80").reason == "has no unit");
  CHECK(size("80").remedy == "write for example \"80 GiB\"");
  CHECK(size("GiB").reason == "does not start with a number");
  CHECK(size("").reason == "does not start with a number");
  CHECK(size("-1 B").reason == "is negative");
  CHECK(size("nan B").reason == "is not a finite number");
  CHECK(size("inf B").reason == "is not a finite number");
  CHECK(size("1e400 B").reason == "is out of range");
  CHECK(size("0.3 B").reason == "is not a whole number of bytes");
  CHECK(size("1e300 PB").reason == "is more bytes than can be counted");
  CHECK(size("80 Gib").remedy == "write GiB");
  CHECK(size("80 parsecs").remedy.rfind("use B, kB, MB", 0) == 0);
  CHECK(size("80 GiB!").value == "\"80 GiB!\"");
  CHECK(refusal(parse_bandwidth, "0 GB/s").reason == "must be more than zero");
  CHECK(refusal(parse_bandwidth, "400 gb/s").remedy == "write GB/s or Gb/s: b is a bit, B a byte");
  CHECK(refusal(parse_duration, "1000 days").reason == "\"days\" is not a unit of a time");
  CHECK(refusal(parse_duration, "3000 h").reason == "is too long");
  CHECK(refusal(parse_flop_rate, "312 TFLOPS").reason == "\"TFLOPS\" is not a unit of a rate");
}

TEST_CASE("quantities are printed so that they read back to the same value") {
  for (const std::int64_t n : {0LL, 1LL, 1023LL, 1024LL, 160'000'000LL, 85'899'345'920LL, 9'007'199'254'740'991LL}) {
    CHECK(parse_bytes(text_of(Bytes(n))) == Bytes(n));
  }
  for (const double v : {1.0, 3e8, 50e9, 1e9 / 3, 12.345678901234567e9}) {
    const Bandwidth b = Bandwidth::bytes_per_second(v);
    CHECK(parse_bandwidth(text_of(b)) == b);
  }
  CHECK(text_of(Bytes(85899345920)) == "80 GiB");
  CHECK(text_of(Bandwidth::bytes_per_second(50e9)) == "50 GB/s");
}

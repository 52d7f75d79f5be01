#include "models/base/quantity.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "models/base/text.hpp"

namespace tandem {
namespace {

struct Unit {
  std::string_view name;
  double scale;  ///< to the base unit: bytes, bytes/s, seconds, FLOP/s
};

constexpr double kKi = 1024.0, kMi = kKi * kKi, kGi = kMi * kKi, kTi = kGi * kKi, kPi = kTi * kKi;

constexpr std::array kBytes{Unit{"B", 1},     Unit{"kB", 1e3},  Unit{"MB", 1e6},  Unit{"GB", 1e9},
                            Unit{"TB", 1e12}, Unit{"PB", 1e15}, Unit{"KiB", kKi}, Unit{"MiB", kMi},
                            Unit{"GiB", kGi}, Unit{"TiB", kTi}, Unit{"PiB", kPi}};

constexpr std::array kBandwidths{Unit{"B/s", 1},           Unit{"kB/s", 1e3},      Unit{"MB/s", 1e6},
                                 Unit{"GB/s", 1e9},        Unit{"TB/s", 1e12},     Unit{"KiB/s", kKi},
                                 Unit{"MiB/s", kMi},       Unit{"GiB/s", kGi},     Unit{"TiB/s", kTi},
                                 Unit{"b/s", 1.0 / 8},     Unit{"kb/s", 1e3 / 8},  Unit{"Mb/s", 1e6 / 8},
                                 Unit{"Gb/s", 1e9 / 8},    Unit{"Tb/s", 1e12 / 8}, Unit{"Gbit/s", 1e9 / 8},
                                 Unit{"Tbit/s", 1e12 / 8}, Unit{"Mbit/s", 1e6 / 8}};

constexpr std::array kDurations{Unit{"s", 1},      Unit{"ms", 1e-3},  Unit{"us", 1e-6}, Unit{"ns", 1e-9},
                                Unit{"ps", 1e-12}, Unit{"min", 60.0}, Unit{"h", 3600.0}};

constexpr std::array kFlopRates{Unit{"FLOP/s", 1},    Unit{"kFLOP/s", 1e3},  Unit{"MFLOP/s", 1e6},
                                Unit{"GFLOP/s", 1e9}, Unit{"TFLOP/s", 1e12}, Unit{"PFLOP/s", 1e15},
                                Unit{"EFLOP/s", 1e18}};

/// Description of the parsed quantity, for messages.
struct Kind {
  std::string_view noun;
  std::span<const Unit> units;
  std::string_view example;
};

[[noreturn]] void refuse(std::string_view text, std::string reason, std::string remedy) {
  throw ConfigError(Problem{"", "", '"' + shortened(text) + '"', std::move(reason), std::move(remedy)});
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

std::string unit_names(const Kind& kind) {
  std::vector<std::string> names;
  for (const Unit& u : kind.units) names.emplace_back(u.name);
  return list_text(names, "or");
}

/// Units that differ only in the case of a letter (Gb/s, GB/s, gb/s) are the usual mistake: both readings are named.
std::string unit_remedy(std::string_view unit, const Kind& kind) {
  std::vector<std::string> alike;
  for (const Unit& u : kind.units) {
    if (edit_distance(u.name, unit) == 0) alike.emplace_back(u.name);
  }
  if (alike.size() == 2) return "write " + list_text(alike, "or") + ": b is a bit, B a byte";
  if (alike.size() == 1) return "write " + alike.front();
  return "use " + unit_names(kind);
}

double scale_of(std::string_view unit, std::string_view text, const Kind& kind) {
  for (const Unit& u : kind.units) {
    if (u.name == unit) return u.scale;
  }
  const std::string example = "write for example \"" + std::string(kind.example) + "\"";
  if (unit.empty()) refuse(text, "has no unit", example);
  refuse(text, "\"" + shortened(unit, 20) + "\" is not a unit of " + std::string(kind.noun), unit_remedy(unit, kind));
}

struct Number {
  double count;
  double scale;
  double value() const { return count * scale; }
};

Number parse(std::string_view text, const Kind& kind) {
  const std::string_view s = trimmed(text);
  double count = 0;
  const auto [rest, error] = std::from_chars(s.data(), s.data() + s.size(), count);
  const std::string example = "write for example \"" + std::string(kind.example) + "\"";
  if (error == std::errc::result_out_of_range) refuse(text, "is out of range", example);
  if (error != std::errc()) refuse(text, "does not start with a number", example);
  if (!std::isfinite(count)) refuse(text, "is not a finite number", example);
  if (count < 0) refuse(text, "is negative", example);
  const auto used = static_cast<std::size_t>(rest - s.data());
  return {count, scale_of(trimmed(s.substr(used)), text, kind)};
}

double parse_positive(std::string_view text, const Kind& kind) {
  const double value = parse(text, kind).value();
  if (!std::isfinite(value)) refuse(text, "is out of range", "");
  if (value <= 0) refuse(text, "must be more than zero", "write for example \"" + std::string(kind.example) + "\"");
  return value;
}

std::string shortest(double v) {
  std::array<char, 40> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), v);
  return {buffer.data(), result.ptr};
}

}  // namespace

Bytes parse_bytes(std::string_view text) {
  const double value = parse(text, {"a size", kBytes, "80 GiB"}).value();
  if (!(value < 9e18)) refuse(text, "is more bytes than can be counted", "use less than 8 million TB");
  if (value != std::floor(value)) refuse(text, "is not a whole number of bytes", "write one, or a smaller unit: 81009 MiB for 79.11 GiB");
  return Bytes(static_cast<std::int64_t>(value));
}

Bandwidth parse_bandwidth(std::string_view text) {
  return Bandwidth::bytes_per_second(parse_positive(text, {"a bandwidth", kBandwidths, "400 Gb/s"}));
}

Duration parse_duration(std::string_view text) {
  const double seconds = parse(text, {"a time", kDurations, "2 us"}).value();
  if (!(seconds < 9e6)) refuse(text, "is too long", "use at most 100 days (2400 h)");
  return Duration::seconds(seconds);
}

FlopRate parse_flop_rate(std::string_view text) {
  return FlopRate::flops_per_second(parse_positive(text, {"a rate", kFlopRates, "312 TFLOP/s"}));
}

std::string text_of(Bytes bytes) {
  static constexpr std::array<std::string_view, 6> names{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::int64_t n = bytes.count();
  std::size_t i = 0;
  while (n != 0 && n % 1024 == 0 && i + 1 < names.size()) n /= 1024, ++i;
  return std::to_string(n) + " " + std::string(names[i]);
}

std::string text_of(Bandwidth bandwidth) {
  const double v = bandwidth.bytes_per_second();
  const std::string giga = shortest(v / 1e9) + " GB/s";
  return v >= 1e8 && parse_bandwidth(giga) == bandwidth ? giga : shortest(v) + " B/s";
}

}  // namespace tandem

#include "reports/prediction/text.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace tandem {

namespace {

struct Unit {
  double size;
  const char* name;
};

/// Three significant digits in the largest unit that the value reaches.
template <std::size_t N>
std::string scaled(double value, const std::array<Unit, N>& units) {
  std::size_t i = 0;
  while (i + 1 < N && std::abs(value) < units[i].size) ++i;
  const double v = value / units[i].size;
  const int digits = std::abs(v) >= 100 ? 0 : std::abs(v) >= 10 ? 1 : 2;
  return number_text(v, units[i].size == 1 && units[i].name[0] == 'B' ? 0 : digits) + " " + units[i].name;
}

}  // namespace

std::string padded(std::string_view text, std::size_t width) {
  std::string out(text);
  if (out.size() < width) out.append(width - out.size(), ' ');
  return out;
}

std::string aligned(std::string_view text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + std::string(text) : std::string(text);
}

std::string number_text(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string count_text(std::int64_t value) {
  std::string out = std::to_string(value);
  const std::size_t sign = value < 0 ? 1 : 0;
  for (std::size_t at = out.size(); at > sign + 3;) out.insert(at -= 3, ",");
  return out;
}

std::string time_text(double seconds) {
  static constexpr std::array<Unit, 4> kUnits{{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
  return seconds == 0 ? "0 s" : scaled(seconds, kUnits);
}

std::string bytes_text(std::int64_t bytes) {
  static constexpr std::array<Unit, 5> kUnits{
      {{1099511627776.0, "TiB"}, {1073741824.0, "GiB"}, {1048576.0, "MiB"}, {1024.0, "KiB"}, {1, "B"}}};
  return scaled(static_cast<double>(bytes), kUnits);
}

std::string percent_text(double fraction) {
  if (!std::isfinite(fraction)) return "-";
  return (fraction >= 0 ? "+" : "") + number_text(fraction * 100, 1) + " %";
}

}  // namespace tandem

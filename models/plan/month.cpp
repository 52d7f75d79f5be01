#include "models/plan/month.hpp"

#include <algorithm>
#include <cctype>

namespace tandem {
namespace {

constexpr int kFirstYear = 1990, kLastYear = 2999;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

}  // namespace

std::optional<Month> parse_month(std::string_view text) {
  if (text.size() != 7 || text[4] != '-') return std::nullopt;
  const std::string digits = std::string(text.substr(0, 4)) + std::string(text.substr(5));
  if (!std::all_of(digits.begin(), digits.end(), is_digit)) return std::nullopt;
  const Month found{std::stoi(digits.substr(0, 4)), std::stoi(digits.substr(4))};
  const bool exists = found.year >= kFirstYear && found.year <= kLastYear && found.month >= 1 && found.month <= 12;
  return exists ? std::optional(found) : std::nullopt;
}

std::string text_of(const Month& month) {
  return std::to_string(month.year) + (month.month < 10 ? "-0" : "-") + std::to_string(month.month);
}

}  // namespace tandem

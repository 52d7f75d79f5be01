#pragma once
// Quantities and columns for people; JSON carries plain SI numbers instead.

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

std::string padded(std::string_view text, std::size_t width);    ///< left-aligned, never cut
std::string aligned(std::string_view text, std::size_t width);   ///< right-aligned, never cut
std::string number_text(double value, int digits);               ///< fixed point
std::string count_text(std::int64_t value);                      ///< "175,000,000"
std::string time_text(double seconds);                           ///< "32.1 s", "8.04 ms", "12.0 us"
std::string bytes_text(std::int64_t bytes);                      ///< "74.5 GiB"
std::string percent_text(double fraction);                       ///< "+3.1 %"; "-" when not finite

}  // namespace tandem

#pragma once
// Checks of command line arguments that CLI11 does not bring.

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <string>

namespace tandem::program {

/// A finite number, 0 or more.
inline CLI::Validator fraction() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool whole = !text.empty() && end == text.c_str() + text.size();
        return whole && std::isfinite(value) && value >= 0 ? "" : text + " is not a finite number of 0 or more";
      },
      "FRACTION");
}

}  // namespace tandem::program

#pragma once
// Command line arguments about prices.

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

#include "experiments/tandem/planning/request.hpp"

namespace tandem::program {

/// Accepts a number from `least` to `most`; `least` itself only if `closed`.
CLI::Validator within(double least, double most, bool closed);

/// Splits "A=B". B is kept as it is and may contain commas and brackets. Throws CLI::ValidationError.
std::pair<std::string, std::string> pair_of(const std::string& flag, const std::string& text);

/// Adds --price, --price-kind and --provider.
void add_price(CLI::App& command, planning::PriceChoice& choice);

}  // namespace tandem::program

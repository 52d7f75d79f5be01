#pragma once
// Arguments of commands that ask about money.

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

#include "experiments/tandem/planning/request.hpp"

namespace tandem::program {

/// A number from `least` to `most`; `least` itself only where `closed`.
CLI::Validator within(double least, double most, bool closed);

/// "A=B", the value as it stands: it may have commas and brackets. Throws CLI::ValidationError.
std::pair<std::string, std::string> pair_of(const std::string& flag, const std::string& text);

/// --price, --price-kind, --provider.
void add_price(CLI::App& command, planning::PriceChoice& choice);

}  // namespace tandem::program

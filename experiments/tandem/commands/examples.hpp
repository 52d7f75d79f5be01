#pragma once
// The example that ends each command's --help. examples_test.py runs them all.

#include <string>

namespace tandem::program {

/// A call of a command in a folder of the sources. Throws ContractError for a command without one.
std::string example(const std::string& command);

}  // namespace tandem::program

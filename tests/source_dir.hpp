#pragma once
// Where the project's files are that tests read.

#include <string>

namespace tandem::tests {

/// The root of the source tree: of the environment's TANDEM_SOURCE, else the one that was built. Not a macro of every test, so that
/// compiled tests do not depend on the folder.
std::string source_dir();

}  // namespace tandem::tests

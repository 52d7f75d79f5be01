#include "tests/source_dir.hpp"

#include <cstdlib>

namespace tandem::tests {

std::string source_dir() {
  const char* given = std::getenv("TANDEM_SOURCE");
  return given != nullptr ? given : TANDEM_SOURCE_DIR;
}

}  // namespace tandem::tests

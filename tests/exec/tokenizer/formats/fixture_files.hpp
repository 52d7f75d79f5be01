#pragma once
// Files of tests/fixtures/tokenizer_files, which tests/exec/tokenizer/other_files.py writes.

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/source_dir.hpp"

namespace tandem::tests {

using Ids = std::vector<std::int32_t>;

inline std::string fixtures() { return source_dir() + "/tests/fixtures/tokenizer_files/"; }

/// The bytes of a file of that folder.
inline std::string content(const std::string& file) {
  std::ostringstream out;
  out << std::ifstream(fixtures() + file, std::ios::binary).rdbuf();
  return out.str();
}

}  // namespace tandem::tests

#pragma once
// Documents that are too long, without their beginnings.

#include <cstdint>
#include <memory>

#include "exec/data/token_file.hpp"

namespace tandem::exec {

struct DocumentEnds {
  std::shared_ptr<const TokenFile> file;
  std::int64_t cut = 0;  ///< documents that lost their beginning
};

/// The documents of a file with `answers`, each at most `longest` tokens: its last ones.
DocumentEnds keep_ends(std::shared_ptr<const TokenFile> file, std::int64_t longest);

}  // namespace tandem::exec

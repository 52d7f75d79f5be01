#pragma once
// Where the documents of a micro-batch's sequences begin.

#include <cstdint>

#include "exec/shared/hd.hpp"

namespace tandem::exec::device {

/// KernelContext::documents, for operations that keep documents apart. Only a device may read it.
struct Documents {
  const std::int32_t* starts = nullptr;  ///< [sequence of the micro-batch, length]; null: each sequence is one document
  std::int64_t length = 0;               ///< positions of a whole sequence

  TANDEM_HD bool here() const { return starts != nullptr; }
  /// The first position of the document at a position.
  TANDEM_HD std::int64_t start(std::int64_t sequence, std::int64_t position) const {
    return starts == nullptr ? 0 : starts[sequence * length + position];
  }
};

}  // namespace tandem::exec::device

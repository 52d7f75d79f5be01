#pragma once
// Pre-tokenizers: they cut a text into pieces, which the model turns into tokens one by one.

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "exec/tokenizer/place.hpp"

namespace tandem::exec {

/// A piece of a document.
struct Piece {
  std::string_view text;  ///< not empty
  bool first = false;     ///< begins where the document begins
};
using TakePiece = std::function<void(const Piece&)>;

/// One step. Keeps buffers between calls, so each thread needs its own.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// Passes on the pieces of a piece; they are valid during the call only.
  virtual void split(const Piece& piece, const TakePiece& take) = 0;
  /// True if its pieces need to know whether they begin the document.
  virtual bool asks_for_first() const { return false; }
  /// True if its pieces are parts of what it gets, unchanged.
  virtual bool keeps_text() const { return true; }
};

using PreTokenizers = std::vector<std::unique_ptr<PreTokenizer>>;

/// The steps of tokenizer.json's `pre_tokenizer`; a sequence is flattened. Throws ConfigError for what is not known.
PreTokenizers read_pre_tokenizers(const Place& place);

/// Passes on the pieces that all steps from `step` on make of a piece.
void split_all(const PreTokenizers& steps, std::size_t step, const Piece& piece, const TakePiece& take);

}  // namespace tandem::exec

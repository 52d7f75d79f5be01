#pragma once
// Normalizers: they change a text before it is cut into pieces.

#include <memory>
#include <string>
#include <vector>

#include "exec/tokenizer/place.hpp"

namespace tandem::exec {

/// One step. Keeps buffers between calls, so each thread needs its own.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Changes a text that is not empty. It may become empty.
  virtual void normalize(std::string& text) = 0;
};

using Normalizers = std::vector<std::unique_ptr<Normalizer>>;

/// The steps of tokenizer.json's `normalizer`; a sequence is flattened. Throws ConfigError for what is not known.
Normalizers read_normalizers(const Place& place);

/// Performs all steps.
void normalize(const Normalizers& steps, std::string& text);

}  // namespace tandem::exec

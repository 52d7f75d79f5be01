#pragma once
// Writes token ids as Megatron-LM stores them.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/base/output.hpp"

namespace tandem::exec {

/// Writes PREFIX.bin and PREFIX.idx (NVIDIA/Megatron-LM: megatron/core/datasets/indexed_dataset.py): each document is one sequence, an
/// empty one has none. Ids take 2 bytes if the vocabulary has fewer than 65,500, else 4. Only lengths stay in memory. Both files
/// are written beside their places; without commit() none is left.
class TokenWriter {
 public:
  /// Throws ConfigError if a place cannot be written.
  TokenWriter(std::string prefix, std::int64_t vocab_size);
  ~TokenWriter();
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  /// Throws ConfigError if the document has more than 2^31 - 1 ids.
  void add_document(std::span<const std::int32_t> ids);
  /// Completes the files. Call once, last.
  void commit();

  std::int64_t documents() const { return static_cast<std::int64_t>(ends_.size()); }
  std::int64_t tokens() const { return tokens_; }
  /// Bytes of an id: 2 or 4.
  int width() const { return width_; }

 private:
  void write_index();

  std::string prefix_;
  int width_;
  OutputFile ids_, index_;
  std::int64_t tokens_ = 0;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> ends_;  ///< of each document: the number of sequences up to its end
  std::string buffer_;
};

}  // namespace tandem::exec

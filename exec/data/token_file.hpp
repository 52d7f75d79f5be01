#pragma once
// Files that tokens are read from: a text, whose bytes are tokens, or token ids as Megatron-LM and llm.c store them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::exec {

/// How a file stores a token, in little-endian order.
enum class TokenType : std::uint8_t { byte, int8, int16, uint16, int32, int64 };

/// A file of tokens, read once for all its users.
struct TokenFile {
  std::string path;
  std::string bytes;
  TokenType type = TokenType::byte;
  std::size_t header = 0;         ///< bytes before the first token
  std::int64_t vocab_size = 256;  ///< of a text of bytes; else one more than the largest id
  std::vector<std::int64_t> documents{};  ///< the first token of each document, ascending; empty: all is one document
  std::vector<bool> answers{};    ///< per token: whether a model is trained to say it; empty: all of them

  /// True for a text, and for a data set whose ids are bytes.
  bool holds_bytes() const { return type == TokenType::byte; }
  std::int64_t count() const;
  /// Writes the tokens from number `first` on. Thread-safe.
  void read(std::int64_t first, std::span<std::int32_t> tokens) const;
  /// The bytes of tokens `first` to `last` - 1.
  std::string_view stored(std::int64_t first, std::int64_t last) const;
};

/// Reads one of
/// - PREFIX.bin with PREFIX.idx beside it: Megatron-LM's indexed data set (NVIDIA/Megatron-LM:
///   megatron/core/datasets/indexed_dataset.py). PREFIX and PREFIX.idx name it, too. Its documents are read as one text, unless they are kept separate.
/// - a file of llm.c: a header of 1,024 bytes, then ids of 2 or 4 bytes (karpathy/llm.c: dev/data/data_common.py)
/// - any other file: a text of bytes.
/// Throws ConfigError if a file cannot be read, is no regular file, exceeds half of the host's memory, is damaged, holds no token
/// ids, or is a .bin without a type of ids.
std::shared_ptr<const TokenFile> read_token_file(const std::string& path);

}  // namespace tandem::exec

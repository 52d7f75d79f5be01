#pragma once
// What tiktoken's files do not hold: patterns and special tokens, by encoding.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::exec {

/// How texts are cut before ranks are looked up, and the tokens beside those of the file.
struct Encoding {
  std::string name;     ///< for messages
  std::string pattern;  ///< a piece of text each match
  std::vector<std::pair<std::string, std::int64_t>> special;  ///< with their ids
  std::string begin;    ///< goes before each text; empty: nothing does
  std::string end;      ///< ends a document
  bool nfc = false;     ///< texts are composed first (Unicode's NFC)
};

/// How Qwen cuts texts, in all its formats.
extern const char* const kQwenPattern;

/// Llama 3's, whose special tokens follow a file's `ranks` tokens.
Encoding llama3_encoding(std::int64_t ranks);

/// The encoding of a .tiktoken file by its name. Throws ConfigError if it has another.
Encoding named_encoding(const std::string& file);

}  // namespace tandem::exec

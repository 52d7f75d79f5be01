#include "exec/tokenizer/tokenizer.hpp"

#include "exec/tokenizer/unicode/utf8.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

/// Bytes of a document. ICU counts bytes in 32 bits, and a normalizer may lengthen a text up to eighteen times, by fewer in practice.
constexpr std::size_t kLongest = std::size_t{256} << 20;

}  // namespace

bool ends_each_text(Tokenizer& tokenizer, std::int32_t token) {
  std::vector<std::int32_t> around;
  tokenizer.encode("", true, around);
  return !around.empty() && around.back() == token;
}

void require_encodable(std::string_view text) {
  if (text.size() > kLongest)
    throw ConfigError(Problem{"", "text", std::to_string(text.size()) + " bytes", "is longer than a document may be, 256 MiB",
                              "cut it into documents: tokenize --split-lines, or a .jsonl file"});
  if (const std::size_t at = invalid_utf8(text); at != std::string_view::npos)
    throw ConfigError(Problem{"", "text", "byte " + std::to_string(at), "is not UTF-8", "convert the text to UTF-8"});
}

}  // namespace tandem::exec

#pragma once
// The characters that stand for bytes in byte-level vocabularies (GPT-2's encoder.py).

#include <string>
#include <string_view>

namespace tandem::exec {

/// Appends the characters of the bytes of `text`.
void append_byte_level(std::string& out, std::string_view text);

}  // namespace tandem::exec

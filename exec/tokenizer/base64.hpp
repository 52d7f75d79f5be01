#pragma once
// Bytes in base64.

#include <optional>
#include <string>
#include <string_view>

namespace tandem::exec {

/// The bytes that a text in base64 says; nothing if it is none.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace tandem::exec

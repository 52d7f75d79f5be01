#pragma once
// A digest of bytes for names and checksums, not for secrets.

#include <cstdint>
#include <string_view>

namespace tandem {

/// FNV-1a of 64 bits (Fowler, Noll, Vo; RFC 9923); `hash`: that of the bytes before these.
constexpr std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash = 14695981039346656037U) {
  for (char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

}  // namespace tandem

#pragma once
// Distributes documents over sequences.

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::exec {

/// Documents by number, for each sequence. No document is cut: each length is from 1 to `room`. The longest come first, and each goes
/// into the fullest sequence that has room for it (best-fit decreasing; Ding et al., arXiv 2404.10830 section 3.1).
std::vector<std::vector<std::size_t>> pack(std::span<const std::int64_t> lengths, std::int64_t room);

}  // namespace tandem::exec

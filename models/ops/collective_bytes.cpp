#include "models/ops/collective_bytes.hpp"

#include <cmath>

#include "models/ops/token_copies.hpp"

namespace tandem {

Bytes payload(const Collective& op) { return bytes_of(op.dtype, op.elements); }

Bytes copied_bytes(const Collective& op, std::int64_t parts) {
  const TokenCopies& c = op.copies;
  const std::int64_t tokens = op.elements / c.per_token;  // elements of all tokens of a member, once each
  const std::int64_t visiting = std::llround(static_cast<double>(tokens) * share_that_visits(c, parts));
  return bytes_of(c.dtype, visiting) + row_scale_bytes(c.dtype, visiting);
}

std::int64_t rounds(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast ? 2 : 1;
}

std::int64_t ring_steps(CollectiveKind kind, std::int64_t n) { return rounds(kind) * (n - 1); }

double wire_bytes(CollectiveKind kind, Bytes payload, std::int64_t n) {
  return static_cast<double>(payload.count()) * static_cast<double>(ring_steps(kind, n)) / static_cast<double>(n);
}

}  // namespace tandem

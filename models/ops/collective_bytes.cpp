#include "models/ops/collective_bytes.hpp"

namespace tandem {

Bytes payload(const Collective& op) { return bytes_of(op.dtype, op.elements); }

std::int64_t rounds(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::broadcast ? 2 : 1;
}

std::int64_t ring_steps(CollectiveKind kind, std::int64_t n) { return rounds(kind) * (n - 1); }

double wire_bytes(CollectiveKind kind, Bytes payload, std::int64_t n) {
  return static_cast<double>(payload.count()) * static_cast<double>(ring_steps(kind, n)) / static_cast<double>(n);
}

}  // namespace tandem

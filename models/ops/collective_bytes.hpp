#pragma once
// Bytes of a collective's full vector, and bytes that a ring sends for it. All code that counts collectives uses these.

#include <cstdint>

#include "models/ops/op.hpp"

namespace tandem {

/// `payload` (models/ops/op.hpp) of a collective: bytes of the full vector.
Bytes payload(const Collective& op);
/// Bytes of a member's tokens that go to one of `parts` equal parts of the group, once each, where `copies` says so.
Bytes copied_bytes(const Collective& op, std::int64_t parts);
/// Ring passes of a vector: 2 for an all-reduce and a broadcast (a scatter and a gather), else 1.
std::int64_t rounds(CollectiveKind kind);
/// Steps of a ring of n members: n-1 for each round.
std::int64_t ring_steps(CollectiveKind kind, std::int64_t n);
/// Bytes that each member of a ring of n sends: payload / n in each step. nccl-tests' bus bandwidth counts these bytes.
double wire_bytes(CollectiveKind kind, Bytes payload, std::int64_t n);

}  // namespace tandem

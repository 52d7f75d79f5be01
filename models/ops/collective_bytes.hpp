#pragma once
// Bytes of a collective: of its vector, and of what a ring sends for it. Everyone who weighs or counts collectives starts here.

#include <cstdint>

#include "models/ops/op.hpp"

namespace tandem {

/// `payload` (models/ops/op.hpp) of a collective: bytes of the full vector.
Bytes payload(const Collective& op);
/// How often a vector goes round: an all-reduce and a broadcast are a scatter and a gather, all others one of them.
std::int64_t rounds(CollectiveKind kind);
/// Steps of a ring of n members: every round passes n-1 of them.
std::int64_t ring_steps(CollectiveKind kind, std::int64_t n);
/// Bytes that each member of a ring of n sends: a piece, the n-th part of the payload, in every step. nccl-tests' bus bandwidth is of these.
double wire_bytes(CollectiveKind kind, Bytes payload, std::int64_t n);

}  // namespace tandem

#pragma once
// Communication between devices, and copies between a device and its host. Conventions: models/ops/op.hpp.

#include <cstdint>

#include "models/base/dtype.hpp"
#include "models/plan/mesh.hpp"

namespace tandem {

/// `shift`: every member sends its buffer to the next member, cyclically.
enum class CollectiveKind : std::uint8_t { all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, shift };
enum class Reduce : std::uint8_t { sum, max };
/// Sizes for dispatch in DeepEP's way: a token goes once to each rank with any of its experts, and once between two nodes. Sums
/// return the same way. `experts` 0: each choice sends its own row. Only the simulator reads it: the rows that arrive are equal.
struct TokenCopies {
  std::int64_t experts = 0;           ///< experts of all ranks, the same number on each
  std::int64_t per_token = 1;         ///< experts chosen by a token
  std::int64_t groups = 1;            ///< equal groups of neighbouring experts
  std::int64_t groups_per_token = 1;  ///< number of groups that hold a token's experts
  DType dtype = DType::bf16;          ///< type of the sent values
};
/// `elements` is nccl-tests' "size": the full vector. in: the member's contribution; out: its result.
///   all_reduce, broadcast   in and out are one buffer of `elements`
///   all_gather              in: its share, elements/n, also at its place in out; out: all in order. Or both whole: owned ranges
///   reduce_scatter          in: elements; out: its share of the sum, elements/n; out may lie at its place in in
///   all_to_all              in: n shares by receiver; out: n shares by sender, another buffer
///   all_to_all, row > 0     rows of `row` elements, as many to each member as counts say. in: rows by receiver, sent counts,
///                           received counts (int32, equally many for each member); out: rows by sender. `elements`: sent by
///                           dispatch, received by return (`back`); the other side has room for more (DeviceError beyond it)
///   gather, scatter, row > 0  in: rows, counts of all members; `elements`: planned; whole and share are buffers apart
///   shift                   in: elements; out: the previous member's, another buffer
/// `chunked`: a framework with overlap cuts the collective, and the product before
/// or after it, into chunks that run side by side. The runtime performs it whole.
struct Collective {
  CollectiveKind kind;
  Group group;
  std::int64_t elements;
  DType dtype;
  Reduce reduce = Reduce::sum;
  std::int64_t row = 0;
  bool chunked = false;
  bool back = false;
  TokenCopies copies{};
};
/// Rendezvous with the stage `stage_offset` away (+1 or -1; the last stage and the first are neighbours). in: buffer
struct Send { std::int64_t elements; DType dtype; int stage_offset; };
/// out: buffer
struct Recv { std::int64_t elements; DType dtype; int stage_offset; };
/// A copy between the device and host memory, which is not in the arena. in: buffer when to_host; out: buffer otherwise
struct HostCopy { std::int64_t elements; DType dtype; bool to_host; };

}  // namespace tandem

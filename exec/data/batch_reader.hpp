#pragma once
// The host's part of the input pipeline: what stands in a micro-batch's tokens, targets and the like on one rank.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "exec/data/data.hpp"
#include "exec/data/sequence_map.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/data_shape.hpp"

namespace tandem::exec {

/// Slots of these names are filled before the instance that has them is issued; all hold int32.
enum class Input : std::uint8_t { tokens, decoder_tokens, targets, types, labels, mtp_tokens, mtp_targets };
std::optional<Input> input_of(std::string_view slot);

/// A template's slot that the host fills.
struct InputSlot {
  std::size_t slot;
  Input input;
};
/// By template.
std::vector<std::vector<InputSlot>> input_slots(const TaskGraph& graph);

/// Reads for one context rank, which sees its own positions of every sequence.
class BatchReader {
 public:
  BatchReader(const DataShape& shape, const TokenSource& source, std::int64_t context_rank);

  /// Values of `input` in a micro-batch: one a position of this rank, or (labels) one a sequence, or (of MTP modules) a list of positions
  /// for each module.
  std::int64_t elements(Input input) const;
  /// Writes them for the micro-batch that begins with global sequence `first`. Labels are -1 on every context rank but the
  /// first, which has the token that they are read off.
  void fill(Input input, std::int64_t first, std::int32_t* out) const;

 private:
  /// What module k (1 first) reads at a position, the token k further, and is asked for, the token behind that. At the last k there is no
  /// target and the token is 0 (NVIDIA/Megatron-LM: megatron/core/transformer/multi_token_prediction.py, roll_tensor).
  void fill_further(Input input, std::int64_t first, std::int32_t* out) const;
  Example example(std::int64_t sequence) const;
  /// Positions of a sequence on this rank.
  std::int64_t positions(Input input) const;
  Example next_tokens(std::int64_t sequence) const;

  DataShape shape_;
  const TokenSource& source_;
  std::int64_t context_rank_;
  SequenceMap positions_;
};

}  // namespace tandem::exec

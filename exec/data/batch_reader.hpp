#pragma once
// The host's input pipeline: fills a micro-batch's tokens, targets and other inputs on one rank.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "exec/data/data.hpp"
#include "exec/data/sequence_map.hpp"
#include "models/graph/task_graph.hpp"
#include "models/plan/data_shape.hpp"

namespace tandem::exec {

/// The host fills slots of these names before a step's first task is issued. All hold int32.
enum class Input : std::uint8_t { tokens, decoder_tokens, targets, types, labels, mtp_tokens, mtp_targets };
std::optional<Input> input_of(std::string_view slot);

/// A slot of a template that the host fills.
struct InputSlot {
  std::size_t slot;
  Input input;
};
/// Input slots by template.
std::vector<std::vector<InputSlot>> input_slots(const TaskGraph& graph);

/// Reads for one context-parallel rank, which holds its own positions of every sequence.
class BatchReader {
 public:
  BatchReader(const DataShape& shape, const TokenSource& source, std::int64_t context_rank);

  const DataShape& shape() const { return shape_; }

  /// Number of values of `input` in a micro-batch. Labels: one per sequence. MTP inputs: one per module and position. Others: one
  /// per position of this rank.
  std::int64_t elements(Input input) const;
  /// Writes the values for the micro-batch that starts at global sequence `first`. Labels are
  /// -1 on every context rank but the first, which holds the token they are predicted from.
  void fill(Input input, std::int64_t first, std::int32_t* out) const;
  /// Number of targets of `count` sequences from global sequence `first` on; nothing for BERT and T5, where the plan says it.
  std::optional<std::int64_t> targets(std::int64_t first, std::int64_t count) const;
  /// Writes KernelContext::documents of `count` sequences from global sequence `first` on.
  void fill_documents(std::int64_t first, std::int64_t count, std::int32_t* out) const;

 private:
  /// Multi-token prediction: module k (from 1) reads the token k positions ahead; its target is the one after that. Past the end
  /// the token is 0, without target (NVIDIA/Megatron-LM: megatron/core/transformer/multi_token_prediction.py, roll_tensor).
  void fill_further(Input input, std::int64_t first, std::int32_t* out) const;
  Example example(std::int64_t sequence) const;
  /// Number of positions of a sequence on this rank.
  std::int64_t positions(Input input) const;

  DataShape shape_;
  const TokenSource& source_;
  std::int64_t context_rank_;
  SequenceMap positions_;
};

}  // namespace tandem::exec

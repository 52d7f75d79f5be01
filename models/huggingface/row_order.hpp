#pragma once
// The order in which a file has the rows of one matrix: those of one expert, or of a whole parameter without experts.

#include <cstdint>
#include <optional>
#include <vector>

#include "models/huggingface/tensor_rows.hpp"

namespace tandem::huggingface {

/// What an order of rows depends on.
struct HeadSizes {
  AttentionHeads heads;
  std::int64_t rotary = 0;        ///< rotary dimensions of a head
  std::int64_t rank = 0;          ///< width of latent attention's compressed row
  RecurrenceSpec recurrence;
};

class RowOrder {
 public:
  /// `rule` must outlive this.
  RowOrder(const TensorRule& rule, const HeadSizes& sizes, std::int64_t rows) : rule_(rule), sizes_(sizes), rows_(rows) {}

  /// Rows of each tensor that the rule names; nothing if the parameter has other rows than the rule says.
  std::optional<std::vector<std::int64_t>> tensors() const;
  /// Appends the runs of tensors `first` and following. `row`: the parameter's first row. `in_tensor`: the tensors' first row.
  void add_runs(std::size_t first, std::int64_t row, std::int64_t in_tensor, std::vector<RowRun>& out) const;

 private:
  std::int64_t parts() const;
  std::vector<std::int64_t> group() const;
  void add_shifted(RowRun from, std::vector<RowRun>& out) const;
  void add_alternating(RowRun from, std::vector<RowRun>& out) const;
  void add_groups(RowRun from, std::vector<RowRun>& out) const;
  void add_latent(RowRun from, std::vector<RowRun>& out) const;
  void add_heads(RowRun from, std::vector<RowRun>& out) const;
  void add_gated(RowRun from, std::vector<RowRun>& out) const;

  const TensorRule& rule_;
  HeadSizes sizes_;
  std::int64_t rows_;
};

}  // namespace tandem::huggingface

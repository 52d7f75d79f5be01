#pragma once
// The rows of a recurrence's matrices in the files of transformers (modeling_qwen3_next.py, modeling_qwen3_5.py and, of Mamba 2,
// modeling_nemotron_h.py). The plan's order is in models/ops/recurrence.hpp.

#include <vector>

#include "models/huggingface/tensor_rows.hpp"

namespace tandem::huggingface {

/// Whether rows lie as those of a recurrence.
bool is_recurrent(TensorRule::Rows rows);

/// Rows of each tensor.
std::vector<std::int64_t> recurrent_tensors(TensorRule::Rows rows, const RecurrenceSpec& r);

/// Appends the runs of tensors `from.tensor` and following, which begin at `from.in_tensor`; `from.row` is the parameter's first row.
void add_recurrent(TensorRule::Rows rows, const RecurrenceSpec& r, RowRun from, std::vector<RowRun>& out);

}  // namespace tandem::huggingface

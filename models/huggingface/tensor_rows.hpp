#pragma once
// Where the rows of a plan's parameters are in the tensors of a model type's files.

#include <cstdint>
#include <string>
#include <vector>

#include "models/huggingface/weight_table.hpp"
#include "models/plan/plan.hpp"

namespace tandem::huggingface {

/// A whole parameter of a plan. Vectors have one column.
struct WholeParameter {
  std::string name;               ///< "layer3.qkv.weight"
  std::int64_t rows = 0, cols = 0;
};

/// A tensor of a file. The parameter's numbers are stored numbers + offset.
struct FileTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  double offset = 0;
  bool converts() const { return offset != 0; }
};

/// Rows of a parameter and of a tensor: row `row` + i `step` is row `in_tensor` + i (column, if transposed), for i below `count`.
/// Rows of a stacked tensor are counted through its matrices; a run lies in one of them.
struct RowRun {
  std::size_t tensor = 0;         ///< index in ParameterRows::tensors
  std::int64_t in_tensor = 0, row = 0, step = 1, count = 0;
};

/// One parameter. Its runs have each of its rows once, and each row of its tensors once.
struct ParameterRows {
  WholeParameter parameter;
  bool transposed = false;
  std::vector<FileTensor> tensors;
  std::vector<RowRun> runs;
};

/// Throws InfeasibleError, naming each parameter that the type has no tensor for or stores in other rows.
std::vector<ParameterRows> rows_in_files(const WeightTable& table, const ModelSpec& model,
                                         const std::vector<WholeParameter>& parameters);

}  // namespace tandem::huggingface

#pragma once
// Finds the tensors of a model in its files, under the names that a table gives, and collects what is wrong.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exec/weights/scaled_blocks.hpp"
#include "exec/weights/weight_files.hpp"
#include "models/base/error.hpp"
#include "models/huggingface/tensor_rows.hpp"

namespace tandem::exec {

/// What to do if the files are of another model.
inline constexpr const char* kOtherPlan = "use a plan of this model";

/// Two tensors of the files that must be equal.
struct TwinTensors {
  const StoredTensor *first, *copy;
  std::string first_name, copy_name;
};

class TensorFinder {
 public:
  /// `files` and `table` must outlive this.
  TensorFinder(const WeightFiles& files, const huggingface::WeightTable& table);

  /// The tensor of a name of the table, which may have an old name in the files; else a copy of it; nullptr if there is neither.
  const StoredTensor* optional(const std::string& name);
  /// nullptr after a complaint. `if_missing` tells what to do where there is no such tensor.
  const StoredTensor* wanted(const huggingface::FileTensor& tensor, const char* if_missing);
  /// The scales of a tensor in 8 bits; nothing if it is in another type or has none.
  std::optional<ScaledBlocks> blocks_of(const std::string& name, const StoredTensor& tensor);
  /// Tensors that the files have beside those that they are copies of.
  std::vector<TwinTensors> twins();
  /// Complains of tensors that nobody asked for.
  void complain_of_others();
  /// Throws ConfigError with all complaints.
  void finish() const;

 private:
  std::string name_here(const std::string& name) const;
  const StoredTensor* under(const std::string& name);
  const StoredTensor* stored(const std::string& name);
  void complain(Problem problem);
  bool packed(const std::string& name);

  const WeightFiles& files_;
  const huggingface::WeightTable& table_;
  bool bare_ = false;  ///< names lack the table's prefix
  std::set<std::string> known_;
  std::vector<Problem> problems_;
};

}  // namespace tandem::exec

#pragma once
// Products that several tensor ranks do alike: the model needs them once.

#include <cstdint>
#include <set>
#include <string>

#include "models/graph/task_graph.hpp"

namespace tandem {

/// Finds such products: of keys and values, if tensor ranks outnumber their heads; of matrices that all tensor ranks hold whole, if
/// they multiply the same rows (an indexer's, those of BERT's first tokens, and without sequence parallelism its transform, a router's
/// and latent attention's).
class TensorCopies {
 public:
  explicit TensorCopies(const TaskGraph& graph);

  /// The part of a task's FLOPs by which its rank adds to the model's: 1 over the number of ranks that do the same. Of a product
  /// of queries with keys and values: the mean over its columns.
  double share(const Program& program, const Instance& instance, const Task& task) const;

 private:
  double of_whole(const Op& op) const;
  bool is_whole(const std::string& task) const;

  std::int64_t ranks_ = 1, rows_ = 1;  ///< tensor ranks; most rows that one of them multiplies
  bool same_rows_ = true;              ///< no tensor rank has rows of its own
  std::set<std::string> whole_;        ///< matrices that all tensor ranks hold, by their tasks' first words
};

}  // namespace tandem

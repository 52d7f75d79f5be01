#include "models/graph/tensor_copies.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace tandem {
namespace {

/// "layer3.q_down.weight" or "layer3.qkv.lora_a" as tasks name it: "q_down", "qkv_lora_a".
std::string task_name(std::string name) {
  for (const std::string_view prefix : {"layer", "mtp", "head."}) {
    if (!name.starts_with(prefix)) continue;
    const bool numbered = name.size() > prefix.size() && std::isdigit(static_cast<unsigned char>(name[prefix.size()])) != 0;
    if (numbered || prefix.ends_with('.')) name.erase(0, name.find('.') + 1);
  }
  constexpr std::string_view kWeight = ".weight", kAdapter = ".lora_";
  if (name.ends_with(kWeight)) name.erase(name.size() - kWeight.size());
  if (const auto at = name.find(kAdapter); at != name.npos) name[at] = '_';
  return name;
}

/// Whether the task is a product with the matrix: "qkv", "qkv_dgrad".
bool is_of(std::string_view task, const std::string& matrix) {
  return task == matrix || (task.starts_with(matrix) && task[matrix.size()] == '_');
}

/// A product with a matrix of the head as its matrix is named here: "head.transform_wgrad" is "transform_wgrad".
std::string_view without_head(std::string_view task) {
  constexpr std::string_view kHead = "head.";
  return task.starts_with(kHead) ? task.substr(kHead.size()) : task;
}

/// Products of BERT's first tokens, which every tensor rank has, also under sequence parallelism.
bool of_first_tokens(const std::string& task) { return is_of(task, "pooler") || is_of(task, "nsp"); }

std::int64_t rows_of(const MatMul& op) { return op.trans_a ? op.k : op.m; }

std::int64_t ranks_of(const TaskGraph& graph) {
  for (const Program& p : graph.programs)
    for (const Param& q : p.params)
      if (q.shard_dim == 1 && q.expert_rows == 0) return q.full_cols / q.cols;
  return 1;
}

bool scatters_rows(const Task& task) {
  const auto* c = std::get_if<Collective>(&task.op);
  return c != nullptr && c->kind == CollectiveKind::reduce_scatter && c->group == Group::tensor;
}

/// Rows of a parameter over those that would be left if each were held once. 0: the stage has no such parameter.
double share_of_rows(const Program& program, const std::string& name) {
  double rows = 0, once = 0;
  for (const Param& p : program.params) {
    if (p.name != name) continue;
    rows += static_cast<double>(p.rows);
    once += static_cast<double>(p.rows) / static_cast<double>(p.repeat > 1 && p.inner == 0 ? p.repeat : 1);
  }
  return rows == 0 ? 0 : once / rows;
}

/// Of the matrix in a layer, or else in the first module of multi-token prediction, whose blocks are alike.
double share_of_keys(const Program& program, std::int32_t layer, const char* matrix) {
  const double share = share_of_rows(program, "layer" + std::to_string(layer) + "." + matrix);
  if (share > 0) return share;
  const double of_module = share_of_rows(program, std::string("mtp0.") + matrix);
  return of_module > 0 ? of_module : 1;
}

}  // namespace

TensorCopies::TensorCopies(const TaskGraph& graph) : ranks_(ranks_of(graph)) {
  if (ranks_ == 1) return;
  for (const Program& p : graph.programs)
    for (const Param& q : p.params)
      if (q.shard_dim < 0 && q.cols > 1 && q.expert_rows == 0) whole_.insert(task_name(q.name));
  for (const Template& t : graph.templates)
    for (const Task& task : t.tasks) {
      if (scatters_rows(task)) same_rows_ = false;
      const auto* product = std::get_if<MatMul>(&task.op);
      if (product != nullptr && !is_whole(task.name)) rows_ = std::max(rows_, rows_of(*product));
    }
}

bool TensorCopies::is_whole(const std::string& task) const {
  return std::any_of(whole_.begin(), whole_.end(), [&](const std::string& matrix) { return is_of(without_head(task), matrix); });
}

double TensorCopies::of_whole(const Op& op) const {
  const auto* product = std::get_if<MatMul>(&op);
  if (product == nullptr) return 1;
  const auto ranks = static_cast<double>(ranks_);
  if (same_rows_) return 1 / ranks;
  const double copies = ranks * static_cast<double>(rows_of(*product)) / static_cast<double>(rows_);
  return 1 / std::clamp(copies, 1.0, ranks);
}

double TensorCopies::share(const Program& program, const Instance& instance, const Task& task) const {
  if (ranks_ == 1) return 1;
  if (std::holds_alternative<IndexTopK>(task.op) || std::holds_alternative<IndexTopKBackward>(task.op))
    return 1 / static_cast<double>(ranks_);  // all tensor ranks have the whole indexer
  if (!std::holds_alternative<MatMul>(task.op)) return 1;
  if (of_first_tokens(task.name)) return 1 / static_cast<double>(ranks_);
  if (is_whole(task.name)) return of_whole(task.op);
  for (const std::string matrix : {"qkv", "qkv.k", "qkv.v"})
    if (is_of(task.name, matrix + "_lora_b")) return share_of_keys(program, instance.layer, (matrix + ".lora_b").c_str());
  return is_of(task.name, "qkv") ? share_of_keys(program, instance.layer, "qkv.weight") : 1;
}

}  // namespace tandem

#include "exec/weights/tensor_finder.hpp"

#include <algorithm>

namespace tandem::exec {
namespace {

constexpr std::size_t kMostProblems = 20;  // that one refusal tells
constexpr const char* kBlockType = "F8_E4M3";
constexpr const char* kScales = "_scale_inv";

}  // namespace

TensorFinder::TensorFinder(const WeightFiles& files, const huggingface::WeightTable& table) : files_(files), table_(table) {
  const auto begins = [&](const auto& entry) { return entry.first.starts_with(table.prefix); };
  bare_ = !table.prefix.empty() && std::none_of(files.tensors().begin(), files.tensors().end(), begins);
}

/// The name that this model's files have for a name of the table.
std::string TensorFinder::name_here(const std::string& name) const {
  return bare_ && name.starts_with(table_.prefix) ? name.substr(table_.prefix.size()) : name;
}

/// The tensor of exactly this name in the files.
const StoredTensor* TensorFinder::stored(const std::string& name) {
  const auto found = files_.tensors().find(name);
  if (found == files_.tensors().end()) return nullptr;
  known_.insert(name);
  return &found->second;
}

/// The tensor of a name of the table, under that name or an old one.
const StoredTensor* TensorFinder::under(const std::string& name) {
  const std::string here = name_here(name);
  const StoredTensor* found = stored(here);
  for (const auto& [old, now] : table_.old_endings)
    if (found == nullptr && here.ends_with(now)) found = stored(here.substr(0, here.size() - now.size()) + old);
  return found;
}

const StoredTensor* TensorFinder::optional(const std::string& name) {
  const StoredTensor* found = under(name);
  for (const auto& [copy, first] : table_.copies)
    if (found == nullptr && first == name) found = under(copy);
  return found;
}

const StoredTensor* TensorFinder::wanted(const huggingface::FileTensor& tensor, const char* if_missing) {
  const StoredTensor* found = optional(tensor.name);
  const std::string wants = ": the plan's model wants " + shape_text(tensor.shape), file = found == nullptr ? files_.path() : files_.path_of(*found);
  if (found == nullptr && packed(tensor.name)) return nullptr;
  if (found == nullptr) complain({file, tensor.name, "", "is missing" + wants, if_missing});
  else if (found->shape != tensor.shape) complain({file, tensor.name, shape_text(found->shape), "has another shape" + wants, kOtherPlan});
  else if (!found->type && !blocks_of(tensor.name, *found))
    complain({file, tensor.name, found->type_name, "is no type that weights are read from" + wants, "convert the weights to F32, F16 or BF16"});
  else return found;
  return nullptr;
}

std::optional<ScaledBlocks> TensorFinder::blocks_of(const std::string& name, const StoredTensor& tensor) {
  const StoredTensor* scales = tensor.type_name == kBlockType ? optional(name + kScales) : nullptr;
  return scales == nullptr ? std::nullopt : ScaledBlocks::of(files_, tensor, *scales, table_.scaled_block);
}

std::vector<TwinTensors> TensorFinder::twins() {
  std::vector<TwinTensors> out;
  for (const auto& [copy, first] : table_.copies) {
    const StoredTensor *const found = under(copy), *const other = optional(first);
    if (found != nullptr && found != other) out.push_back({other, found, name_here(first), name_here(copy)});
  }
  return out;
}

void TensorFinder::complain_of_others() {
  for (const auto& [name, tensor] : files_.tensors()) {
    const auto ends = [&name = name](const std::string& ending) { return ("." + name).ends_with(ending); };
    const auto begins = [&, &name = name](const std::string& beginning) { return name.starts_with(name_here(beginning)); };
    if (known_.contains(name) || std::any_of(table_.ignored.begin(), table_.ignored.end(), ends)) continue;
    if (std::any_of(table_.left_out.begin(), table_.left_out.end(), begins)) continue;
    complain({files_.path_of(tensor), name, shape_text(tensor.shape), "is unexpected: the plan's model has no such weights", kOtherPlan});
  }
}

void TensorFinder::complain(Problem problem) {
  if (problems_.size() >= kMostProblems) return;
  problem.field = name_here(problem.field);
  problems_.push_back(std::move(problem));
}

void TensorFinder::finish() const {
  if (!problems_.empty()) throw ConfigError(problems_);
}

/// Whether the files have the tensor in 4 bits (MXFP4), and a complaint if so.
bool TensorFinder::packed(const std::string& name) {
  const StoredTensor* const blocks = optional(name + "_blocks");
  if (blocks == nullptr) return false;
  optional(name + "_scales");
  complain({files_.path_of(*blocks), name + "_blocks", blocks->type_name, "is quantized (MXFP4)",
            "load the model in transformers with Mxfp4Config(dequantize=True) and call save_pretrained"});
  return true;
}

}  // namespace tandem::exec

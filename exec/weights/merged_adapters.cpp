#include "exec/weights/merged_adapters.hpp"

#include <map>
#include <mutex>
#include <string>

#include "exec/state/stored_values.hpp"
#include "models/base/error.hpp"
#include "models/plan/adapter_parts.hpp"
#include "models/plan/plan.hpp"

namespace tandem::exec {
namespace {

constexpr std::string_view kWeight = ".weight";

/// A whole saved tensor as fp64, row by row.
std::vector<double> whole_values(const SavedState& state, std::size_t index) {
  const SavedTensor& t = state.tensors()[index];
  std::vector<double> out(static_cast<std::size_t>(t.rows * t.cols));
  for (std::size_t i = 0; i < t.parts.size(); ++i) {
    const Block& part = t.parts[i];
    std::vector<std::byte> bytes(static_cast<std::size_t>(part.elements()) * stored_bytes(t.type));
    std::vector<double> values(static_cast<std::size_t>(part.elements()));
    state.read(index, i, bytes);
    load_values(t.type, bytes.data(), values);
    for (std::int64_t r = 0; r < part.rows; ++r)
      std::copy_n(values.begin() + r * part.cols, part.cols, out.begin() + (part.row + r) * t.cols + part.col);
  }
  return out;
}

class MergedState : public SavedState {
 public:
  MergedState(const SavedState& state, const ModelSpec& model, double scale) : state_(state), scale_(scale) {
    const std::vector<SavedTensor>& all = state.tensors();
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].buffer == "weights" || all[i].buffer == "master") saved_[all[i].name] = i;  // masters follow weights
    for (const auto& [name, index] : saved_)
      if (name.ends_with(kAdapterA)) add_adapter(model, name);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].buffer != "weights" || is_adapter_parameter(all[i].name)) continue;
      tensors_.push_back(all[i]);
      from_.push_back(i);
      if (adapters_.contains(all[i].name) && all[i].type != DType::fp64) tensors_.back().type = DType::fp32;
    }
  }

  const StateFacts& facts() const override { return state_.facts(); }
  const std::vector<SavedTensor>& tensors() const override { return tensors_; }
  std::string file() const override { return state_.file(); }

  void read(std::size_t tensor, std::size_t part, std::span<std::byte> to) const override {
    const SavedTensor& saved = state_.tensors()[from_[tensor]];
    if (!adapters_.contains(saved.name)) return state_.read(from_[tensor], part, to);
    const Block& block = saved.parts[part];
    std::vector<std::byte> bytes(static_cast<std::size_t>(block.elements()) * stored_bytes(saved.type));
    state_.read(from_[tensor], part, bytes);
    std::vector<double> values(static_cast<std::size_t>(block.elements()));
    load_values(saved.type, bytes.data(), values);
    add_products(saved, block, values);
    store_values(tensors_[tensor].type, values, to.data());
  }

 private:
  /// Indices of an adapter's A and B, and the rows of the matrix that it is added to.
  struct Adapter {
    std::size_t a, b;
    PartColumns part;
  };
  /// A matrix' adapters, and the values of A and B of each.
  struct Values {
    std::string of;
    std::vector<std::vector<double>> a, b;
  };

  void add_adapter(const ModelSpec& model, const std::string& name) {
    const AdapterName at = adapter_name(name);
    const PartColumns part = at.part.empty() ? PartColumns{} : part_columns(model, model.kind(layer_of_adapter(name)), at.part);
    const std::string b = name.substr(0, name.size() - kAdapterA.size()) + std::string(kAdapterB);
    adapters_[at.matrix + std::string(kWeight)].push_back({saved_.at(name), saved_.at(b), part});
  }

  std::shared_ptr<const Values> values_of(const std::string& matrix) const {
    const std::lock_guard lock(mutex_);
    if (held_ && held_->of == matrix) return held_;
    Values values{matrix, {}, {}};
    for (const Adapter& adapter : adapters_.at(matrix)) {
      values.a.push_back(whole_values(state_, adapter.a));
      values.b.push_back(whole_values(state_, adapter.b));
    }
    return held_ = std::make_shared<const Values>(std::move(values));
  }

  void add_products(const SavedTensor& matrix, const Block& block, std::vector<double>& values) const {
    const auto held = values_of(matrix.name);
    const std::vector<Adapter>& adapters = adapters_.at(matrix.name);
    for (std::size_t i = 0; i < adapters.size(); ++i) {
      const SavedTensor &of_a = state_.tensors()[adapters[i].a], &of_b = state_.tensors()[adapters[i].b];
      const std::int64_t rank = of_b.cols, rows_of_expert = of_b.rows / (of_a.rows / rank);  // one A and B for each expert
      for (std::int64_t r = 0; r < block.rows; ++r) {
        const auto row = adapters[i].part.width == 0 ? block.row + r : adapters[i].part.row_of(block.row + r);
        if (!row) continue;
        const double* const a = held->a[i].data() + *row / rows_of_expert * rank * matrix.cols + block.col;
        const double* const b = held->b[i].data() + *row * rank;
        add_row(a, b, {rank, matrix.cols, block.cols}, values.data() + r * block.cols);
      }
    }
  }

  /// Columns of B, of A, and of a block of A.
  struct Sizes {
    std::int64_t rank, cols, block;
  };
  /// y += scale * b A for one row of B.
  void add_row(const double* a, const double* b, const Sizes& n, double* y) const {
    for (std::int64_t k = 0; k < n.rank; ++k)
      for (std::int64_t c = 0; c < n.block; ++c) y[c] += scale_ * b[k] * a[k * n.cols + c];
  }

  const SavedState& state_;
  double scale_;
  std::map<std::string, std::size_t> saved_;
  std::map<std::string, std::vector<Adapter>> adapters_;  ///< by matrix: "layer0.qkv.weight"
  std::vector<SavedTensor> tensors_;
  std::vector<std::size_t> from_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Values> held_;
};

}  // namespace

std::unique_ptr<SavedState> merge_adapters(const SavedState& state, const ModelSpec& model, double scale) {
  return std::make_unique<MergedState>(state, model, scale);
}

}  // namespace tandem::exec

#include "exec/weights/merged_adapters.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "exec/state/stored_values.hpp"
#include "models/base/error.hpp"
#include "models/plan/adapters.hpp"

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
  MergedState(const SavedState& state, double scale) : state_(state), scale_(scale) {
    const std::vector<SavedTensor>& all = state.tensors();
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].buffer == "weights" || all[i].buffer == "master") saved_[all[i].name] = i;  // masters follow weights
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].buffer != "weights" || is_adapter_parameter(all[i].name)) continue;
      tensors_.push_back(all[i]);
      from_.push_back(i);
      if (adapter_of(all[i].name) && all[i].type != DType::fp64) tensors_.back().type = DType::fp32;
    }
  }

  const StateFacts& facts() const override { return state_.facts(); }
  const std::vector<SavedTensor>& tensors() const override { return tensors_; }
  std::string file() const override { return state_.file(); }

  void read(std::size_t tensor, std::size_t part, std::span<std::byte> to) const override {
    const SavedTensor& saved = state_.tensors()[from_[tensor]];
    const auto adapter = adapter_of(saved.name);
    if (!adapter) return state_.read(from_[tensor], part, to);
    const Block& block = saved.parts[part];
    std::vector<std::byte> bytes(static_cast<std::size_t>(block.elements()) * stored_bytes(saved.type));
    state_.read(from_[tensor], part, bytes);
    std::vector<double> values(static_cast<std::size_t>(block.elements()));
    load_values(saved.type, bytes.data(), values);
    add_product(*adapter, saved.cols, block, values);
    store_values(tensors_[tensor].type, values, to.data());
  }

 private:
  /// Indices of a matrix' A and B.
  struct Adapter {
    std::size_t a, b;
    bool operator==(const Adapter&) const = default;
  };
  /// An adapter's values.
  struct Values {
    Adapter of;
    std::vector<double> a, b;
  };

  std::optional<Adapter> adapter_of(const std::string& name) const {
    if (!name.ends_with(kWeight)) return std::nullopt;
    const std::string matrix = name.substr(0, name.size() - kWeight.size());
    const auto a = saved_.find(matrix + std::string(kAdapterA)), b = saved_.find(matrix + std::string(kAdapterB));
    if (a == saved_.end() || b == saved_.end()) return std::nullopt;
    return Adapter{a->second, b->second};
  }

  std::shared_ptr<const Values> values_of(const Adapter& adapter) const {
    const std::lock_guard lock(mutex_);
    if (!held_ || held_->of != adapter)
      held_ = std::make_shared<const Values>(Values{adapter, whole_values(state_, adapter.a), whole_values(state_, adapter.b)});
    return held_;
  }

  void add_product(const Adapter& adapter, std::int64_t cols, const Block& block, std::vector<double>& values) const {
    const auto held = values_of(adapter);
    const SavedTensor &of_a = state_.tensors()[adapter.a], &of_b = state_.tensors()[adapter.b];
    const std::int64_t rank = of_b.cols, rows_of_expert = of_b.rows / (of_a.rows / rank);  // one A and B for each expert
    for (std::int64_t r = 0; r < block.rows; ++r)
      for (std::int64_t k = 0; k < rank; ++k) {
        const double b = scale_ * held->b[static_cast<std::size_t>((block.row + r) * rank + k)];
        const double* const a = held->a.data() + ((block.row + r) / rows_of_expert * rank + k) * cols + block.col;
        double* const y = values.data() + r * block.cols;
        for (std::int64_t c = 0; c < block.cols; ++c) y[c] += b * a[c];
      }
  }

  const SavedState& state_;
  double scale_;
  std::map<std::string, std::size_t> saved_;
  std::vector<SavedTensor> tensors_;
  std::vector<std::size_t> from_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Values> held_;
};

}  // namespace

std::unique_ptr<SavedState> merge_adapters(const SavedState& state, double scale) {
  return std::make_unique<MergedState>(state, scale);
}

}  // namespace tandem::exec

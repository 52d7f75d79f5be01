#include "exec/checkpoint/saved_weights.hpp"

#include <map>
#include <utility>

namespace tandem::exec {
namespace {

constexpr const char *kWeights = "weights", *kMaster = "master";

class SavedWeights final : public SavedState {
 public:
  SavedWeights(std::unique_ptr<SavedState> state, DType type) : state_(std::move(state)) {
    const std::vector<SavedTensor>& all = state_->tensors();
    std::map<std::string, std::size_t> masters;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].buffer == kMaster) masters[all[i].name] = i;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].buffer != kWeights) continue;
      const auto master = masters.find(all[i].name);
      const std::size_t from = all[i].type == type || master == masters.end() ? i : master->second;
      from_.push_back(from);
      tensors_.push_back(all[from]);
      tensors_.back().buffer = kWeights;
    }
  }

  const StateFacts& facts() const override { return state_->facts(); }
  const std::vector<SavedTensor>& tensors() const override { return tensors_; }
  std::string file() const override { return state_->file(); }
  void read(std::size_t tensor, std::size_t part, std::span<std::byte> to) const override { state_->read(from_[tensor], part, to); }

 private:
  std::unique_ptr<SavedState> state_;
  std::vector<SavedTensor> tensors_;
  std::vector<std::size_t> from_;  ///< by tensor: its index in the state
};

}  // namespace

std::unique_ptr<SavedState> weights_of(std::unique_ptr<SavedState> state, DType type) {
  return std::make_unique<SavedWeights>(std::move(state), type);
}

}  // namespace tandem::exec

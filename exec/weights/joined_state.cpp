#include "exec/weights/joined_state.hpp"

namespace tandem::exec {
namespace {

class JoinedState final : public SavedState {
 public:
  JoinedState(std::unique_ptr<SavedState> first, std::unique_ptr<SavedState> second)
      : first_(std::move(first)), second_(std::move(second)), tensors_(first_->tensors()) {
    tensors_.insert(tensors_.end(), second_->tensors().begin(), second_->tensors().end());
  }

  const StateFacts& facts() const override { return first_->facts(); }
  const std::vector<SavedTensor>& tensors() const override { return tensors_; }
  std::string file() const override { return first_->file(); }
  void read(std::size_t tensor, std::size_t part, std::span<std::byte> to) const override {
    const std::size_t n = first_->tensors().size();
    tensor < n ? first_->read(tensor, part, to) : second_->read(tensor - n, part, to);
  }

 private:
  std::unique_ptr<SavedState> first_, second_;
  std::vector<SavedTensor> tensors_;
};

}  // namespace

std::unique_ptr<SavedState> join_states(std::unique_ptr<SavedState> first, std::unique_ptr<SavedState> second) {
  return std::make_unique<JoinedState>(std::move(first), std::move(second));
}

}  // namespace tandem::exec

#pragma once
// Training states as whole tensors of numbers: taken from a run or a checkpoint, bent by tests, and gone on from.

#include <algorithm>
#include <string>
#include <vector>

#include "exec/state/state_keeper.hpp"
#include "exec/state/stored_values.hpp"

namespace tandem::exec::test {

struct WholeTensor {
  SavedTensor is;  ///< without parts
  std::vector<double> values;
};

class WholeState final : public SavedState {
 public:
  WholeState() = default;
  WholeState(const StateFacts& facts, std::vector<WholeTensor> all) : facts_(facts), all_(std::move(all)) { describe(); }

  const StateFacts& facts() const override { return facts_; }
  const std::vector<SavedTensor>& tensors() const override { return tensors_; }
  std::string file() const override { return "memory"; }
  void read(std::size_t tensor, std::size_t, std::span<std::byte> to) const override {
    store_values(all_[tensor].is.type, all_[tensor].values, to.data());
  }

  std::int64_t steps() const { return facts_.steps; }
  const std::vector<WholeTensor>& all() const { return all_; }
  std::vector<std::string> buffers() const {
    std::vector<std::string> names;
    for (const WholeTensor& t : all_)
      if (std::find(names.begin(), names.end(), t.is.buffer) == names.end()) names.push_back(t.is.buffer);
    return names;
  }
  /// The same state with `bend` applied to each tensor; those for which it returns false are left out.
  template <class Bend>
  WholeState bent(Bend&& bend) const {
    std::vector<WholeTensor> kept;
    for (WholeTensor t : all_)
      if (bend(t)) kept.push_back(std::move(t));
    return {facts_, std::move(kept)};
  }

 private:
  void describe() {
    for (const WholeTensor& t : all_) {
      tensors_.push_back(t.is);
      tensors_.back().parts = {{0, 0, t.is.rows, t.is.cols}};
    }
  }

  StateFacts facts_;
  std::vector<WholeTensor> all_;
  std::vector<SavedTensor> tensors_;
};

/// Puts a block's values, stored as `t.is.type`, into the whole tensor.
inline void place(WholeTensor& t, const Block& block, const std::vector<std::byte>& stored) {
  std::vector<double> values(static_cast<std::size_t>(block.elements()));
  load_values(t.is.type, stored.data(), values);
  for (std::int64_t r = 0; r < block.rows; ++r)
    std::copy_n(values.begin() + r * block.cols, block.cols, t.values.begin() + (block.row + r) * t.is.cols + block.col);
}

inline std::vector<WholeTensor> rooms_of(const std::vector<SavedTensor>& tensors) {
  std::vector<WholeTensor> all;
  for (const SavedTensor& t : tensors)
    all.push_back({{t.buffer, t.name, t.type, t.rows, t.cols, {}}, std::vector<double>(static_cast<std::size_t>(t.rows * t.cols))});
  return all;
}

/// Reads all that a checkpoint holds.
inline WholeState whole_of(const SavedState& state) {
  std::vector<WholeTensor> all = rooms_of(state.tensors());
  for (std::size_t t = 0; t < all.size(); ++t)
    for (std::size_t p = 0; p < state.tensors()[t].parts.size(); ++p) {
      const Block& block = state.tensors()[t].parts[p];
      std::vector<std::byte> stored(static_cast<std::size_t>(block.elements()) * stored_bytes(all[t].is.type));
      state.read(t, p, stored);
      place(all[t], block, stored);
    }
  return {state.facts(), std::move(all)};
}

/// Keeps every state of a run in memory.
class MemoryKeeper final : public StateKeeper {
 public:
  void keep(const StateMoment& moment) override {
    std::vector<WholeTensor> all = rooms_of(kept_tensors(moment.world, moment.plan));
    moment.with_all([&](std::span<const RankState> ranks) {
      for (WholeTensor& t : all)
        for (const RankState& rank : ranks) read(rank, t);
    });
    states.emplace_back(moment.facts, std::move(all));
  }

  std::vector<WholeState> states;

 private:
  static void read(const RankState& rank, WholeTensor& t) {
    const std::int64_t offset = state_offset(rank, t.is.buffer);
    if (offset < 0) return;
    for (const HeldBlock& held : counted_blocks(rank, t.is.buffer)) {
      if (held.param->name != t.is.name) continue;
      const BlockPlace from = place_of(rank, held, offset, t.is.type);
      std::vector<std::byte> stored(static_cast<std::size_t>(held.block.elements()) * stored_bytes(t.is.type));
      from.arena->read(from.offset, stored);
      place(t, held.block, stored);
    }
  }
};

}  // namespace tandem::exec::test

#pragma once
// The operands that an optimizer changes, processed range by range.

#include "exec/cpu/split.hpp"
#include "exec/cpu/staged.hpp"
#include "exec/shared/sign_step.hpp"

namespace tandem::exec::cpu {

/// Calls body(operands, first, count) for ranges of a piece that fit into a cache together with all other operands. Each
/// thread's range has its own operands.
template <class Make, class F>
void each_range(const Call& call, const PieceRow& piece, Make make, F body) {
  constexpr std::int64_t most = 4096;
  call.team().split(piece.count, std::min(most, call.team().element_grain()), [&](std::int64_t begin, std::int64_t end) {
    auto operands = make();
    for (std::int64_t first = begin; first < end; first += most) body(operands, first, std::min(most, end - first));
  });
}

/// An optimizer moment that is read and written.
template <class T>
class Moment {
 public:
  template <class Op>
  Moment(const Call& call, const Op& op, std::size_t output, Rounding::Of what)
      : call_(call), output_(output), what_(what), stochastic_(op.stochastic) {}

  T* get(const PieceRow& piece, std::int64_t first, std::int64_t n) {
    piece_ = &piece, first_ = first, count_ = n;
    return values_ = staged_.get(range());
  }
  /// Stores the values from get().
  void put() {
    const Tensor& t = call_.output(output_);
    if (t.dtype == kTypeOf<T>) return;
    const Rounding random(call_.context().seed, call_.table().step, *piece_, what_);
    cpu::put(values_, range(), stochastic_ ? &random : nullptr, first_);
  }

 private:
  Elements range() const {
    const std::int64_t at = what_ == Rounding::Of::exp_avg_sq ? piece_->second() : piece_->state;
    return {call_.output(output_), at + first_, count_};
  }

  const Call& call_;
  std::size_t output_;
  Rounding::Of what_;
  bool stochastic_;
  Staged<T> staged_;
  T* values_ = nullptr;
  const PieceRow* piece_ = nullptr;
  std::int64_t first_ = 0, count_ = 0;
};

/// Weights, together with their master copy if there is one.
template <class T>
class Updated {
 public:
  struct Outputs {
    int weights, master;  ///< master: -1 if there is none
  };
  template <class Op>
  Updated(const Call& call, const Op& op, Outputs at) : call_(call), at_(at), stochastic_(op.stochastic) {}

  /// The master's values if there is one, else the weights'.
  T* get(const PieceRow& piece, std::int64_t first, std::int64_t n) {
    piece_ = &piece, first_ = first, count_ = n;
    return values_ = staged_.get(at_.master < 0 ? weights() : master());
  }
  /// Stores the values from get(). With a master, also stores them in the weights, rounded to nearest.
  void put() {
    if (at_.master >= 0) {
      cpu::put(values_, weights(), nullptr, first_);
      cpu::put(values_, master(), nullptr, first_);
      return;
    }
    const Rounding random(call_.context().seed, call_.table().step, *piece_, Rounding::Of::weights);
    cpu::put(values_, weights(), stochastic_ ? &random : nullptr, first_);
  }

 private:
  Elements weights() const { return {call_.output(static_cast<std::size_t>(at_.weights)), piece_->weight + first_, count_}; }
  Elements master() const { return {call_.output(static_cast<std::size_t>(at_.master)), piece_->state + first_, count_}; }

  const Call& call_;
  Outputs at_;
  bool stochastic_;
  Staged<T> staged_;
  T* values_ = nullptr;
  const PieceRow* piece_ = nullptr;
  std::int64_t first_ = 0, count_ = 0;
};

/// Moves a range of weights by sign_step against the sign of its gradient.
template <class T>
void step_by_sign(const PieceRow& piece, const Elements& gradients, Staged<T>& gradient, Updated<T>& weights) {
  const T* g = gradient.get(gradients);
  T* w = weights.get(piece, gradients.at - piece.gradient, gradients.count);
  for (std::int64_t i = 0; i < gradients.count; ++i) w[i] -= step_against(piece.sign_step, g[i]);
  weights.put();
}

}  // namespace tandem::exec::cpu

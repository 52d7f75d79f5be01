#pragma once
// A block of a device's threads on the host: what exec/device's kernels ask of one. Threads take their turns forwards in blocks of
// even numbers and backwards in odd ones, so a kernel that depends on their order gives other results. A call inside a thread's part of
// another call is an error, because on a device not all threads would reach its barrier.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exec/device/chunk.hpp"
#include "models/base/error.hpp"
#include "tests/emulated/host_team.hpp"

namespace tandem::tests {

template <int kBlock>
class HostBlock {
 public:
  template <int kTeam>
  using Team = HostTeam<kTeam>;
  /// A value of each thread.
  template <class V>
  struct Gathered {
    std::vector<V> all;
    V& of(std::int64_t i) { return all[static_cast<std::size_t>(i % kBlock)]; }
  };

  HostBlock(std::int64_t index, std::size_t shared_bytes) : index_(index), shared_(shared_bytes, std::byte{0xFF}) {}

  std::int64_t index() const { return index_; }
  std::byte* shared() { return shared_.data(); }
  std::size_t shared_bytes() const { return shared_.size(); }
  void sync() { const Call call(*this); }

  template <class F>
  void each(std::int64_t n, F body) {
    const Call call(*this);
    for (std::int64_t i = 0; i < n; ++i) body(forwards() ? i : n - 1 - i);
  }
  /// In the device's order.
  template <class A, class F>
  A sum(std::int64_t n, F term) {
    return fold<A>(n, A{0}, term, [](A a, A b) { return a + b; });
  }
  template <class A, class F>
  A max(std::int64_t n, A start, F term) {
    return fold<A>(n, start, term, [](A a, A b) { return b > a ? b : a; });
  }
  template <class F>
  bool any(std::int64_t n, F test) {
    const Call call(*this);
    for (std::int64_t i = 0; i < n; ++i)
      if (test(i)) return true;
    return false;
  }
  void add(std::int64_t* to, std::int64_t value) { *to += value; }
  void least(std::uint32_t* to, std::uint32_t value) { *to = value < *to ? value : *to; }

  template <int kBatch, class Load, class Use>
  void stream(std::int64_t n, Load load, Use use) {
    each(n, [&](std::int64_t i) { use(load(i), i); });
  }
  template <int kBatch, class V, class Load, class Use>
  Gathered<V> gather(std::int64_t n, V start, Load load, Use use) {
    const Call call(*this);
    Gathered<V> values{std::vector<V>(kBlock, start)};
    for (std::int64_t i = 0; i < n; ++i) use(values.of(i), load(i), i);
    return values;
  }
  template <class V, class Use>
  void gather_more(Gathered<V>& values, std::int64_t n, Use use) {
    const Call call(*this);
    for (std::int64_t i = 0; i < n; ++i) use(values.of(i), i);
  }
  template <class V, class Combine>
  V join(const Gathered<V>& values, Combine combine) {
    const Call call(*this);
    return join_threads(values.all, combine);
  }

  template <class F>
  std::int64_t select(std::int64_t n, std::int32_t* list, F test) {
    const Call call(*this);
    std::int64_t found = 0;
    for (std::int64_t i = 0; i < n; ++i)
      if (test(i)) list[found++] = static_cast<std::int32_t>(i);
    return found;
  }

  template <int kTeam, class F>
  void teams(std::int64_t first, std::int64_t end, F body) {
    const Team<kTeam> team(forwards());
    each(end - first, [&](std::int64_t k) { body(team, first + k); });
  }
  template <int kTeam, class State, class F, class Done>
  void teams(std::int64_t first, std::int64_t end, F body, Done done) {
    constexpr std::int64_t kTeams = kBlock / kTeam;
    const Team<kTeam> team(forwards());
    each(kTeams, [&](std::int64_t number) {
      State state{};
      for (std::int64_t item = first + number; item < end; item += kTeams) body(team, state, item);
      done(team, state, static_cast<int>(number));
    });
  }

 private:
  class Call {
   public:
    explicit Call(HostBlock& block) : open_(block.called_) {
      require(!open_, "a call of a block inside a thread's part of another one");
      open_ = true;
    }
    ~Call() { open_ = false; }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    bool& open_;
  };

  bool forwards() const { return index_ % 2 == 0; }

  template <class A, class F, class Combine>
  A fold(std::int64_t n, A start, F term, Combine combine) {
    const Call call(*this);
    std::vector<A> lanes(kBlock, start);
    for (std::int64_t i = 0; i < n; ++i) {
      A& lane = lanes[static_cast<std::size_t>(i % kBlock)];
      lane = combine(lane, term(i));
    }
    return join_threads(std::move(lanes), combine);
  }

  std::int64_t index_;
  std::vector<std::byte> shared_;
  bool called_ = false;
};

}  // namespace tandem::tests

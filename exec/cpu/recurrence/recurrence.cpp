// The forward pass of a recurrence. Threads share sequences and key heads.
#include "exec/cpu/kernels.hpp"
#include "exec/cpu/recurrence/chunk.hpp"
#include "exec/cpu/split.hpp"

namespace tandem::exec::cpu {
namespace {

// One sequence and key head at a time.
template <class T>
class ForwardScan {
 public:
  ForwardScan(const ScanOperands<T>& of, Call& call)
      : of_(of), scan_(of, call), keys_(of, of.longest()), head_(of.dims, of.longest(), of.delta()),
        states_(of.dims.per_key() * state_size()), scores_(of.longest() * of.longest()), shared_(of.longest() * of.longest()),
        y_(of.longest() * of.dims.value_dim) {}

  void run(std::int64_t sequence, std::int64_t g, T* y) {
    std::fill_n(states_.data(), of_.dims.per_key() * state_size(), T{0});
    of_.each_chunk(sequence, [&](const ChunkPlace& c) {
      keys_.load(c, g);
      if (!of_.delta()) scores(c, shared_.data());  // the same for all heads of a group
      for (std::int64_t i = 0; i < of_.dims.per_key(); ++i)
        head(c, g * of_.dims.per_key() + i, states_.data() + i * state_size(), y);
    });
  }

 private:
  std::int64_t state_size() const { return of_.dims.key_dim * of_.dims.value_dim; }
  void scores(const ChunkPlace& c, T* to) const {
    scan_.product.by_rows(c.count, c.count, of_.dims.key_dim, keys_.q.data(), keys_.k.data(), to);
  }
  void head(const ChunkPlace& c, std::int64_t number, T* state, T* y) {
    scan_.load(c, number, head_);
    scan_.add(c, number, keys_.k.data(), state, head_);
    if (of_.delta()) scores(c, scores_.data());
    else std::copy_n(shared_.data(), c.count * c.count, scores_.data());
    scan_.give(c, keys_.q.data(), state, head_, scores_.data(), y_.data());
    scan_.pass(c, keys_.k.data(), head_, state);
    put(c, number, y);
  }
  void put(const ChunkPlace& c, std::int64_t number, T* y) const {
    const std::int64_t wide = of_.dims.value_dim;
    for (std::int64_t i = 0; i < c.count; ++i) {
      const std::int64_t row = of_.row(c) + i;
      T* const to = y + row * of_.dims.values() + number * wide;
      std::copy_n(y_.data() + i * wide, wide, to);
      if (of_.skip == nullptr) continue;
      const T f = of_.skip[number], *v = of_.x + row * of_.dims.mixed() + of_.value_column(number);
      each(wide, [=](std::int64_t d) { to[d] += f * v[d]; });
    }
  }

  const ScanOperands<T>& of_;
  const ChunkScan<T> scan_;
  ChunkKeys<T> keys_;
  HeadChunk<T> head_;
  ScratchArray<T> states_, scores_, shared_, y_;
};

}  // namespace

template <class T>
void compute(const Recurrence& op, Call& call) {
  const RecurrenceDims& d = op.dims;
  const ScanOperands<T> of(d, call, 0);
  const std::int64_t grain = call.team().grain(d.seq * d.per_key() * d.value_dim);
  call.team().split(d.batch * d.key_heads, grain, [&](std::int64_t first, std::int64_t end) {
    ForwardScan<T> scan(of, call);
    for (std::int64_t i = first; i < end; ++i) scan.run(i / d.key_heads, i % d.key_heads, call.out<T>(0));
  });
}

TANDEM_KERNEL(Recurrence);

}  // namespace tandem::exec::cpu

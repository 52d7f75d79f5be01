// Cross-entropy over a vocabulary cut across tensor ranks (Shoeybi et al., arXiv 1909.08053, section 3).
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "exec/cpu/kernels.hpp"
#include "exec/cpu/split.hpp"
#include "exec/shared/loss_targets.hpp"
#include "exec/shared/vector_math.hpp"

namespace tandem::exec::cpu {
namespace {

// The columns of this rank's vocabulary shard, without padding.
struct Shard {
  std::int64_t first, real_columns, vocab_size;

  Shard(const VocabDims& dims, const KernelContext& context)
      : first(dims.whole ? 0 : context.tensor_rank * dims.cols),
        real_columns(std::clamp<std::int64_t>(dims.vocab_size - first, 0, dims.cols)),
        vocab_size(dims.vocab_size) {}

  // Local column of a target; -1 if another rank has it or there is none.
  std::int64_t column(std::int32_t target) const {
    if (target >= vocab_size) {
      throw DeviceError("target " + std::to_string(target) + " is outside the vocabulary of " +
                        std::to_string(vocab_size));
    }
    return target >= first && target < first + real_columns ? target - first : -1;
  }
};

template <class T>
struct LossInputs {
  const T *logits, *max, *sums;
  const std::int32_t* targets;
};

// dlogits = (softmax - one-hot) * weight; 0 for padding and for rows without a target.
template <class T>
void write_gradient(const CrossEntropy& op, const LossInputs<T>& in, T weight, T* dlogits, const Call& call) {
  const Shard shard(op.dims, call.context());
  each_row(call, op.dims.rows, op.dims.cols, [&](std::int64_t r) {
    const T *x = in.logits + r * op.dims.cols, top = in.max[r], factor = weight / in.sums[r];
    T* d = dlogits + r * op.dims.cols;
    if (in.targets[r] < 0) {
      std::fill_n(d, op.dims.cols, T{0});
      return;
    }
    each(shard.real_columns, [=](std::int64_t c) { d[c] = exp_saturating(x[c] - top) * factor; });
    std::fill(d + shard.real_columns, d + op.dims.cols, T{0});
    if (const std::int64_t c = shard.column(in.targets[r]); c >= 0) d[c] -= weight;
  });
}

// Sum of log(sum exp) - target logit, both relative to the maximum, over rows with a target.
template <class T>
double total_loss(const LossInputs<T>& in, std::int64_t rows) {
  double total = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    if (in.targets[r] < 0) continue;
    total += std::log(static_cast<double>(in.sums[r])) - static_cast<double>(in.sums[rows + r]);
  }
  return total;
}

template <class T>
void write_max(const VocabDims& dims, const T* logits, T* max, const Call& call) {
  const Shard shard(dims, call.context());
  each_row(call, dims.rows, dims.cols, [&](std::int64_t r) {
    max[r] = lane_max<T>(shard.real_columns, -std::numeric_limits<T>::infinity(),
                         [row = logits + r * dims.cols](std::int64_t c) { return row[c]; });
  });
}

template <class T>
void write_sums(const VocabDims& dims, const LossInputs<T>& in, T* sums, const Call& call) {
  const Shard shard(dims, call.context());
  each_row(call, dims.rows, dims.cols, [&](std::int64_t r) {
    const T* logits = in.logits + r * dims.cols;
    const std::int64_t target = shard.column(in.targets[r]);
    sums[r] =
        lane_sum<T>(shard.real_columns, [=, top = in.max[r]](std::int64_t c) { return exp_saturating(logits[c] - top); });
    sums[dims.rows + r] = target < 0 ? T{0} : logits[target] - in.max[r];
  });
}

}  // namespace

template <class T>
void compute(const VocabMax& op, Call& call) {
  const T* logits = call.in<T>(0);
  write_max(op.dims, logits, call.out<T>(0), call);
}

template <class T>
void compute(const VocabExpSum& op, Call& call) {
  const LossInputs<T> in{call.in<T>(0), call.in<T>(1), nullptr, call.in<std::int32_t>(2)};
  write_sums(op.dims, in, call.out<T>(0), call);
}

template <class T>
void compute(const CrossEntropy& op, Call& call) {
  LossInputs<T> in{call.in<T>(0), nullptr, nullptr, call.in<std::int32_t>(op.one_kernel ? 1 : 3)};
  std::vector<T> max, sums;
  if (op.one_kernel) {
    require(op.dims.whole || call.context().tensor_size == 1, "a loss in one kernel needs all columns");
    max.resize(static_cast<std::size_t>(op.dims.rows));
    sums.resize(2 * max.size());
    write_max(op.dims, in.logits, max.data(), call);
    in.max = max.data();
    write_sums(op.dims, in, sums.data(), call);
    in.sums = sums.data();
  } else {
    in.max = call.in<T>(1);
    in.sums = call.in<T>(2);
  }
  double* loss = call.out<double>(0);
  const double targets = loss_targets(call.table(), op.global_tokens);
  const double added = total_loss(in, op.dims.rows) / targets * op.weight;
  *loss = op.first ? added : *loss + added;
  const T weight = static_cast<T>(call.table().loss_scale / targets * op.weight);
  write_gradient(op, in, weight, call.out<T>(1), call);
}

TANDEM_KERNEL(VocabMax);
TANDEM_KERNEL(VocabExpSum);
TANDEM_KERNEL(CrossEntropy);

}  // namespace tandem::exec::cpu

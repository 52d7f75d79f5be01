#include "exec/run/loss_rows.hpp"

#include <cmath>
#include <cstring>
#include <map>

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

double number(const std::vector<std::byte>& stored, DType type, std::size_t index) {
  if (type == DType::fp32) {
    float value = 0;
    std::memcpy(&value, stored.data() + index * sizeof value, sizeof value);
    return static_cast<double>(value);
  }
  double value = 0;
  std::memcpy(&value, stored.data() + index * sizeof value, sizeof value);
  return value;
}

void add(SequenceScore& to, bool label, double loss, bool hit) {
  (label ? to.label_loss : to.loss) += loss;
  (label ? to.labels : to.targets) += 1;
  (label ? to.label_hits : to.hits) += hit ? 1 : 0;
}

}  // namespace

void LossRows::copy(const CrossEntropy& op, std::span<const Tensor> in, const Source& source, Queue& queue) {
  require(!op.one_kernel, "a loss in one kernel keeps no sums of its rows");
  const Tensor &sums = in[2], &targets = in[3];
  require(sums.dtype == DType::fp32 || sums.dtype == DType::fp64, "sums of a loss in 16 bits");
  const auto rows = static_cast<std::size_t>(op.dims.rows);
  const auto bytes = static_cast<std::size_t>(bytes_of(sums.dtype, 2 * op.dims.rows).count());
  Kept& kept = kept_.emplace_back(Kept{source, sums.dtype, std::vector<std::byte>(bytes), std::vector<std::int32_t>(rows)});
  queue.download(kept.sums, sums.address);
  queue.download(std::as_writable_bytes(std::span(kept.targets)), targets.address);
}

std::vector<SequenceScore> LossRows::scores() const {
  std::map<std::int64_t, SequenceScore> all;
  for (const Kept& k : kept_) {
    const std::size_t rows = k.targets.size(), each = rows / static_cast<std::size_t>(k.source.sequences);
    for (std::size_t r = 0; r < rows; ++r) {
      SequenceScore& score = all[k.source.first_sequence + static_cast<std::int64_t>(r / each)];
      if (k.targets[r] < 0) continue;
      const double target = number(k.sums, k.type, rows + r);
      add(score, k.source.labels, std::log(number(k.sums, k.type, r)) - target, target == 0);
    }
  }
  std::vector<SequenceScore> out;
  for (auto& [sequence, score] : all) {
    score.sequence = sequence;
    out.push_back(score);
  }
  return out;
}

}  // namespace tandem::exec

#include "exec/cuda/measure/streaming.hpp"

#include <algorithm>
#include <memory>

#include "exec/cuda/kernels.hpp"

namespace tandem::exec::cuda {
namespace {

constexpr std::size_t kLeast = std::size_t{64} << 10, kMost = std::size_t{4} << 30, kStep = 4;
constexpr double kEpsilon = 1e-5;
constexpr std::int64_t kTargets = std::int64_t{1} << 20;  // rows of the largest loss

/// Collects the cases of one bench, kernel by kernel.
class Cases {
 public:
  explicit Cases(Bench& bench) : b_(bench), targets_(std::make_shared<Buffer>(kTargets * sizeof(std::int32_t))) {
    check(cudaMemset(targets_->data(), 0, targets_->size()), "clearing memory");
    fill_random(b_.inputs.data(), static_cast<std::int64_t>(b_.inputs.size() / 2), Element::bf16, true, b_.stream);
    fill_random(b_.outputs.data(), static_cast<std::int64_t>(b_.outputs.size() / 2), Element::bf16, true, b_.stream);
  }

  std::vector<StreamingCase> all() {
    for (std::size_t size = kLeast; size <= kMost && b_.outputs.holds(2 * size); size *= kStep)
      of_size(static_cast<std::int64_t>(size));
    return std::move(cases_);
  }

 private:
  std::byte* in(std::int64_t bytes) { return b_.inputs.next(static_cast<std::size_t>(bytes)); }
  std::byte* out(std::int64_t bytes) { return b_.outputs.next(static_cast<std::size_t>(bytes)); }
  float* floats(std::int64_t n) { return reinterpret_cast<float*>(out(4 * n)); }

  void put(const Op& op, DType t, std::int64_t bytes, std::function<void()> call) {
    CostSample s{op, t, 0};
    s.moved = Bytes(bytes);
    cases_.push_back({std::move(s), std::move(call)});
  }

  void of_size(std::int64_t bytes) {
    elementwise(bytes);
    for (std::int64_t cols : {1024, 4096, 12288}) norms(bytes, cols);
    for (std::int64_t cols : {512, 2048, 8192}) softmaxes(bytes, cols);
    for (std::int64_t vocab : {51200, 128256}) losses(bytes, vocab);
  }

  void elementwise(std::int64_t bytes) {
    constexpr std::int64_t kUnit = 4096;  // every count is a multiple of this, for rows of so many columns
    const auto count = [&](std::int64_t each) { return std::max(bytes / each / kUnit, std::int64_t{1}) * kUnit; };
    const cudaStream_t s = b_.stream;
    std::int64_t n = count(4);
    put(Accumulate{n, DType::bf16, DType::bf16, true}, DType::bf16, 4 * n, [this, n, s] { copy(in(2 * n), out(2 * n), n, s); });
    put(Pointwise{n, PointwiseKind::gelu_tanh, kUnit}, DType::bf16, 4 * n,
        [this, n, s] { bias_gelu(in(2 * n), b_.inputs.data(), out(2 * n), n, kUnit, s); });
    put(Fill{n, DType::fp32}, DType::fp32, 4 * n, [this, n, s] { fill_zero(out(4 * n), 4 * n, s); });
    n = count(6);
    put(Elementwise{n / kUnit, kUnit, ElementwiseKind::add}, DType::bf16, 6 * n,
        [this, n, s] { add(in(2 * n), in(2 * n), out(2 * n), n, s); });
    n = count(3);
    put(Accumulate{n, DType::bf16, DType::fp8, true}, DType::bf16, 3 * n, [this, n, s] { cast_fp8(in(2 * n), out(n), n, s); });
    n = count(10);
    put(Accumulate{n, DType::bf16, DType::fp32, false}, DType::bf16, 10 * n,
        [this, n, s] { accumulate(in(2 * n), floats(n), n, s); });
    n = count(30);
    put(AdamW{n, 0.9, 0.95, 1e-8, 0.1, true, DType::fp32, DType::bf16, DType::fp32}, DType::fp32, 30 * n, [this, n, s] {
      adamw({reinterpret_cast<const float*>(in(4 * n)), out(2 * n), floats(n), floats(n), floats(n)}, n, s);
    });
  }

  void norms(std::int64_t bytes, std::int64_t cols) {
    const std::int64_t rows = std::max(bytes / (4 * cols), std::int64_t{1}), n = rows * cols;
    for (bool rms : {false, true})
      put(LayerNorm{rows, cols, kEpsilon, rms}, DType::bf16, 4 * n + 8 * rows, [=, this, s = cudaStream_t(b_.stream)] {
        const NormOperands o{in(2 * n), b_.inputs.data(), b_.inputs.data() + 2 * kMostRow, out(2 * n), floats(2 * rows)};
        rms ? rms_norm(o, rows, cols, s) : layer_norm(o, rows, cols, s);
      });
  }

  void softmaxes(std::int64_t bytes, std::int64_t cols) {
    const std::int64_t queries = std::min(cols, std::max(bytes / (4 * cols), std::int64_t{1}));
    const std::int64_t heads = std::max(bytes / (4 * cols * queries), std::int64_t{1}), rows = heads * queries;
    AttentionDims d{1, heads, queries, 128};
    d.keys = cols;
    d.causal = false;
    AttentionSoftmax op{d, 0, false};
    op.part = SoftmaxPart::softmax;
    put(op, DType::bf16, 4 * rows * cols,
        [=, this, s = cudaStream_t(b_.stream)] { softmax(in(2 * rows * cols), out(2 * rows * cols), rows, cols, s); });
  }

  void losses(std::int64_t bytes, std::int64_t vocab) {
    const std::int64_t rows = bytes / (4 * vocab);
    if (rows < 1 || rows > kTargets) return;
    CrossEntropy op{{rows, vocab, vocab, true}, rows, true, true};
    put(op, DType::bf16, 4 * rows * vocab, [=, this, targets = targets_, s = cudaStream_t(b_.stream)] {
      cross_entropy(
          {in(2 * rows * vocab), reinterpret_cast<const std::int32_t*>(targets->data()), floats(rows), out(2 * rows * vocab)}, rows,
          vocab, s);
    });
  }

  Bench& b_;
  std::shared_ptr<Buffer> targets_;
  std::vector<StreamingCase> cases_;
};

}  // namespace

std::vector<StreamingCase> streaming_cases(Bench& bench) {
  auto cases = std::make_shared<Cases>(bench);
  auto out = cases->all();
  for (StreamingCase& c : out) c.call = [cases, call = std::move(c.call)] { call(); };  // keeps the operands of the calls alive
  return out;
}

std::vector<CopySample> time_copies(Bench& bench, double busy_s) {
  constexpr std::size_t kMostHost = std::size_t{1} << 30;
  const Buffer host(std::min(kMostHost, bench.inputs.size()), Buffer::Where::host);
  std::vector<CopySample> out;
  const auto time = [&](const char* kind, std::size_t bytes, auto copy_one) {
    const double t = bench.stopwatch.seconds([&] { check(copy_one(bytes), "copying"); }, busy_s);
    out.push_back({kind, Bytes(static_cast<std::int64_t>(bytes)), t});
  };
  const cudaStream_t s = bench.stream;
  for (std::size_t n = kLeast; n <= kMost && bench.inputs.holds(n); n *= kStep)
    time("device", n, [&](std::size_t b) {
      return cudaMemcpyAsync(bench.outputs.next(b), bench.inputs.next(b), b, cudaMemcpyDeviceToDevice, s);
    });
  for (std::size_t n = kLeast; n <= host.size(); n *= kStep) {
    time("to_device", n, [&](std::size_t b) { return cudaMemcpyAsync(bench.inputs.next(b), host.data(), b, cudaMemcpyHostToDevice, s); });
    time("to_host", n, [&](std::size_t b) { return cudaMemcpyAsync(host.data(), bench.inputs.next(b), b, cudaMemcpyDeviceToHost, s); });
  }
  return out;
}

}  // namespace tandem::exec::cuda

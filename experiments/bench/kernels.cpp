// Speed of the CPU backend, one core: GFLOP/s of matrix products over shapes, GB/s of every other operation.
//   bench_kernels            the table, by thread CPU time, best of several batches
// Bytes are those of models/ops/op.hpp's traffic(): every operand moved once.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "exec/cpu/backend.hpp"

namespace {

using namespace tandem;

constexpr double kBatchSeconds = 0.02;
constexpr int kBatches = 7;
constexpr std::size_t kOperandBytes = std::size_t{64} << 20;

struct Case {
  std::string shape;
  Op op;
  int integer_input = -1;  ///< index of the int32 input: tokens or targets
};

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Seconds of one call: the fastest of several batches.
double seconds_per_call(const std::function<void()>& call) {
  call();
  const double start = cpu_seconds();
  call();
  const int calls = std::max(1, static_cast<int>(kBatchSeconds / std::max(1e-7, cpu_seconds() - start)));
  double best = 1e30;
  for (int b = 0; b < kBatches; ++b) {
    const double begin = cpu_seconds();
    for (int i = 0; i < calls; ++i) call();
    best = std::min(best, (cpu_seconds() - begin) / calls);
  }
  return best;
}

// Operands large enough for every case; one backend.
class Bench {
 public:
  Bench() {
    for (int i = 0; i < 6; ++i) inputs_.push_back(backend_->allocate(kOperandBytes));
    for (int i = 0; i < 5; ++i) outputs_.push_back(backend_->allocate(kOperandBytes));
    integers_ = backend_->allocate(kOperandBytes);
    integers_->fill(0, kOperandBytes, std::byte{0});
    context_.table = exec::table_address(*backend_);
    context_.seq_length = 128;
  }

  void run(const Case& c, DType dtype) {
    dtype == DType::fp32 ? fill<float>() : fill<double>();
    exec::write_value(backend_->step_table(), 0,
                      exec::StepTable{.learning_rate = 1e-3, .bias_correction1 = 0.5, .bias_correction2 = 0.5});
    const exec::PieceRow whole{.count = elements(c.op), .decay = true, .counted = true};
    backend_->load_pieces({&whole, 1});
    const auto in = inputs(c.integer_input, dtype);
    const auto out = tensors(outputs_, dtype);
    exec::Queue& queue = backend_->queue(Stream::compute);
    const double seconds = seconds_per_call([&] { queue.run({c.op, dtype, in, out, context_}); });
    print(c, dtype, seconds);
  }

 private:
  template <class T>
  void fill() {
    for (auto* group : {&inputs_, &outputs_}) {
      for (auto& memory : *group) {
        std::vector<T> values(kOperandBytes / sizeof(T));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(i % 97) / 64;
        memory->write(0, std::as_bytes(std::span(values)));
      }
    }
  }

  static std::int64_t elements(const Op& op) {
    return std::visit(
        [](const auto& o) -> std::int64_t {
          if constexpr (requires { o.gradients; }) return o.elements;
          return 0;
        },
        op);
  }

  using Memories = std::vector<std::unique_ptr<exec::Memory>>;
  static exec::Tensor tensor(exec::Memory& memory, DType dtype) {
    return {memory.address(), dtype, static_cast<std::int64_t>(kOperandBytes) * 8 / bits(dtype)};
  }
  static std::vector<exec::Tensor> tensors(const Memories& memories, DType dtype) {
    std::vector<exec::Tensor> all;
    for (const auto& memory : memories) all.push_back(tensor(*memory, dtype));
    return all;
  }
  std::vector<exec::Tensor> inputs(int integer_input, DType dtype) const {
    auto all = tensors(inputs_, dtype);
    if (integer_input >= 0) all[static_cast<std::size_t>(integer_input)] = tensor(*integers_, DType::int32);
    return all;
  }

  static void print(const Case& c, DType dtype, double seconds) {
    const auto flops = static_cast<double>(matrix_flops(c.op).count());
    const auto bytes = static_cast<double>(traffic(c.op, dtype).count());
    std::printf("%-26s %-5s %-22s %11.2f us", std::string(kind_name(c.op)).c_str(), std::string(name(dtype)).c_str(),
                c.shape.c_str(), seconds * 1e6);
    if (flops > 0)
      std::printf(" %9.1f GFLOP/s", flops / seconds * 1e-9);
    else
      std::printf(" %9.1f GB/s", bytes / seconds * 1e-9);
    std::printf("\n");
  }

  std::unique_ptr<exec::Backend> backend_ = exec::make_cpu_backend();
  Memories inputs_, outputs_;
  std::unique_ptr<exec::Memory> integers_;
  exec::KernelContext context_;
};

// Forward, data gradient and weight gradient of one linear layer of `tokens` rows.
void add_linear(std::vector<Case>& cases, std::int64_t tokens, std::int64_t in, std::int64_t out) {
  const std::string shape = std::to_string(tokens) + "x" + std::to_string(in) + "->" + std::to_string(out);
  cases.push_back({shape + " y", MatMul{tokens, out, in, false, true, true}});
  cases.push_back({shape + " dx", MatMul{tokens, in, out}});
  cases.push_back({shape + " dw", MatMul{out, in, tokens, true, false, false}});
}

std::vector<Case> linear_cases() {
  std::vector<Case> cases;
  for (const std::int64_t hidden : {48, 128, 256, 768}) {
    for (const std::int64_t tokens : {32, 128, 512}) {
      add_linear(cases, tokens, hidden, 3 * hidden);
      add_linear(cases, tokens, 4 * hidden, hidden);
    }
  }
  cases.push_back({"8x128 rows 256->512", GroupedMatMul{8, 8, 128, 512, 256, true}});
  cases.push_back({"8x128 rows 256->512", GroupedWeightGrad{8, 8, 128, 512, 256}});
  return cases;
}

std::vector<Case> attention_cases() {
  std::vector<Case> cases;
  for (const AttentionDims d : {AttentionDims{4, 4, 64, 16}, {4, 4, 128, 32}, {1, 12, 512, 64}}) {
    const std::string shape = std::to_string(d.batch) + "x" + std::to_string(d.heads) + "x" + std::to_string(d.seq) +
                              "x" + std::to_string(d.head_dim);
    cases.push_back({shape, AttentionScores{d}});
    cases.push_back({shape, AttentionSoftmax{d, 0, false}});
    cases.push_back({shape + " dropout", AttentionSoftmax{d, 0.1, false}});
    cases.push_back({shape, AttentionContext{d}});
    cases.push_back({shape, AttentionContextBackward{d}});
    cases.push_back({shape, AttentionSoftmaxBackward{d, 0}});
    cases.push_back({shape + " dropout", AttentionSoftmaxBackward{d, 0.1}});
    cases.push_back({shape, AttentionScoresBackward{d}});
    cases.push_back({shape, FlashAttention{d, 0, false}});
    cases.push_back({shape + " dropout", FlashAttention{d, 0.1, false}});
    cases.push_back({shape, FlashAttentionBackward{d, 0, false}});
  }
  return cases;
}

std::vector<Case> recurrence_cases() {
  std::vector<Case> cases;
  for (const RecurrenceRule rule : {RecurrenceRule::gated_delta, RecurrenceRule::mamba2}) {
    const RecurrenceDims d{rule, 1, 8, 512, 4, 64, 64};
    const bool delta = rule == RecurrenceRule::gated_delta;
    const std::string shape = delta ? "8x512x64x64 delta" : "8x512x64x64 mamba2";
    cases.push_back({shape, Recurrence{d}});
    cases.push_back({shape, RecurrenceBackward{d}});
    cases.push_back({shape, ShortConv{d, 4, false}});
    cases.push_back({shape, ShortConvBackward{d, 4, false}});
    const std::int64_t parts = delta ? d.heads : d.key_heads, cols = d.values() / parts;
    cases.push_back({shape, GatedNorm{d.rows(), parts, cols, delta, 1e-5, !delta}});
    cases.push_back({shape, GatedNormBackward{d.rows(), parts, cols, delta, !delta}});
  }
  cases.push_back({"512x512", SigmoidGate{512 * 512}});
  cases.push_back({"512x512", SigmoidGateBackward{512 * 512}});
  return cases;
}

std::vector<Case> row_cases(std::int64_t rows, std::int64_t cols) {
  const std::string shape = std::to_string(rows) + "x" + std::to_string(cols);
  const auto site = DropoutSite::mlp_output;
  const VocabDims vocab{rows, cols, cols - 5};
  return {
      {shape, BiasGrad{rows, cols}},
      {shape, LayerNorm{rows, cols, 1e-5}},
      {shape, LayerNormBackward{rows, cols, true}},
      {shape, Pointwise{rows * cols, PointwiseKind::gelu_tanh}},
      {shape, PointwiseBackward{rows * cols, PointwiseKind::gelu_tanh}},
      {shape, Pointwise{rows * cols, PointwiseKind::relu}},
      {shape, PointwiseBackward{rows * cols, PointwiseKind::relu}},
      {shape, BiasDropoutAdd{rows, cols, 0, true, site}},
      {shape + " dropout", BiasDropoutAdd{rows, cols, 0.1, true, site}},
      {shape, BiasDropoutAddBackward{rows, cols, 0, true, site}},
      {shape + " dropout", BiasDropoutAddBackward{rows, cols, 0.1, true, site}},
      {shape, Embedding{rows, cols, 256}, 0},
      {shape, EmbeddingBackward{rows, cols, 256}, 0},
      {shape, PositionDropout{rows / 32, 32, cols, 0, true}},
      {shape, PositionDropoutBackward{rows / 32, 32, cols, 32, 0, true}},
      {shape, VocabMax{vocab}},
      {shape, VocabExpSum{vocab}, 2},
      {shape, CrossEntropy{vocab, rows, true}, 3},
      {shape, Accumulate{rows * cols, DType::fp32, DType::fp32}},
      {shape, GradNorm{rows * cols}},
      {shape, AdamW{rows * cols, 0.9, 0.95, 1e-8, 0.1, false}},
      {shape, Sgd{rows * cols, 0.9, 0.1, false}},
      {shape + " lamb", LayerwiseMoments{LayerwiseKind::lamb, rows * cols, 1, 0.9, 0.95, 1e-8, 0.1, false}},
      {shape + " lamb", LayerwiseApply{LayerwiseKind::lamb, rows * cols, 1, 0.9, 0.95, 1e-8, 0.1, false}},
  };
}

}  // namespace

int main() {
  std::vector<Case> cases = linear_cases();
  for (const auto& more : {attention_cases(), recurrence_cases(), row_cases(128, 256), row_cases(2048, 768)}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  Bench bench;
  for (const DType dtype : {DType::fp32, DType::fp64}) {
    for (const Case& c : cases) bench.run(c, dtype);
  }
}

#include "exec/cuda/algorithm_timer.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "exec/cuda/kernels.hpp"
#include "exec/cuda/stopwatch.hpp"

namespace tandem::exec::cuda {
namespace {

constexpr int kMostAlgorithms = 16;
constexpr std::size_t kFinalists = 4;
constexpr double kNear = 1.2;     // times the fastest of the first round: within its noise
constexpr double kBusy = 4e-3;    // seconds of load for each finalist
constexpr std::size_t kLine = 256;

std::size_t rounded(std::size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }
std::size_t bytes(DType type, std::int64_t elements) { return static_cast<std::size_t>(bytes_of(type, elements).count()); }

/// Consecutive operands of a product: random inputs, other operands zero.
class ScratchOperands {
 public:
  ScratchOperands(const GemmShape& s, cudaStream_t stream)
      : inputs_(bytes(s.type, s.first.span(s.batch)), bytes(s.type, s.second.span(s.batch))),
        out_(rounded(bytes(s.result, s.out.span(s.batch)))),
        buffer_(rounded(inputs_.first) + rounded(inputs_.second) + 2 * out_ +
                rounded(bytes(s.result, std::max(s.out.rows, s.out.cols)))) {
    check(cudaMemsetAsync(buffer_.data(), 0, buffer_.size(), stream), "clearing memory");
    fill(s.type, rounded(inputs_.first) + rounded(inputs_.second), stream);
  }

  Gemm::Operands operands(const Workspace& workspace) const {
    std::byte* second = buffer_.data() + rounded(inputs_.first);
    std::byte* out = second + rounded(inputs_.second);
    return {buffer_.data(), second, out, out + 2 * out_, workspace.data, workspace.bytes, 1, out + out_};
  }

 private:
  void fill(DType type, std::size_t bytes, cudaStream_t stream) const {
    const auto numbers = [&](Element element, std::size_t size) {
      fill_random(buffer_.data(), static_cast<std::int64_t>(bytes / size), element, false, stream);
    };
    if (type == DType::bf16) numbers(Element::bf16, 2);
    if (type == DType::fp16) numbers(Element::fp16, 2);
    if (type == DType::fp32 || type == DType::tf32) numbers(Element::fp32, 4);
  }

  std::pair<std::size_t, std::size_t> inputs_;
  std::size_t out_;
  Buffer buffer_;
};

std::optional<ScratchOperands> scratch(const GemmShape& shape, cudaStream_t stream) {
  try {
    return std::optional<ScratchOperands>(std::in_place, shape, stream);
  } catch (const DeviceError&) {
    cudaGetLastError();  // clears the error: too little memory must not fail the next call
    return std::nullopt;
  }
}

struct Timed {
  Gemm::Algorithm algorithm;
  double seconds;
};

/// Times one call of each algorithm that works, after a warm-up call.
std::vector<Timed> first_look(Gemm& gemm, const Gemm::Operands& at, cudaStream_t stream) {
  const Event begin, end;
  std::vector<Timed> all;
  for (const Gemm::Algorithm& a : gemm.algorithms(kMostAlgorithms)) {
    if (!gemm.use(a)) continue;
    gemm.run(at, stream);
    begin.record(stream);
    gemm.run(at, stream);
    end.record(stream);
    end.wait();
    all.push_back({a, end.since(begin)});
  }
  return all;
}

bool faster(const Timed& a, const Timed& b) { return a.seconds < b.seconds; }

void keep_near(std::vector<Timed>& all) {
  std::stable_sort(all.begin(), all.end(), faster);
  const double most = kNear * all.front().seconds;
  std::erase_if(all, [&](const Timed& t) { return t.seconds > most; });
  all.resize(std::min(all.size(), kFinalists));
}

/// Only one thread of the process measures at a time, without others' calls beside it.
std::mutex& one_at_a_time() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

void load_kernel(Gemm& gemm, const device::GemmShape& shape, const Workspace& workspace, cudaStream_t stream) {
  const std::lock_guard lock(one_at_a_time());
  const auto memory = scratch(shape, stream);
  if (!memory) return;
  gemm.run(memory->operands(workspace), stream);
  check(cudaStreamSynchronize(stream), "waiting for the device");
}

std::optional<double> use_fastest(Gemm& gemm, const device::ProductKey& key, const Workspace& workspace, cudaStream_t stream) {
  const std::lock_guard lock(one_at_a_time());
  const Gemm::Algorithm first = gemm.algorithm();
  const auto memory = scratch(key.shape, stream);
  if (!memory) return std::nullopt;
  const Gemm::Operands at = memory->operands(workspace);
  const Stopwatch stopwatch(stream);
  std::vector<Timed> all = first_look(gemm, at, stream);
  if (all.empty()) return gemm.use(first), std::nullopt;
  keep_near(all);
  for (Timed& t : all) {
    gemm.use(t.algorithm);
    t.seconds = stopwatch.seconds([&] { gemm.run(at, stream); }, kBusy);
  }
  const Timed& best = *std::min_element(all.begin(), all.end(), faster);
  gemm.use(best.algorithm);
  return best.seconds;
}

}  // namespace tandem::exec::cuda

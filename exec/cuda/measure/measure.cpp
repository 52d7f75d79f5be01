#include "exec/measure/measure_cuda.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <sstream>
#include <stdexcept>

#include "exec/cuda/measure/attention_bench.hpp"
#include "exec/cuda/device_facts.hpp"
#include "exec/cuda/measure/footprint.hpp"
#include "exec/cuda/measure/host_costs.hpp"
#include "exec/cuda/measure/product_shapes.hpp"
#include "exec/cuda/measure/products.hpp"
#include "exec/cuda/measure/streaming.hpp"
#include "exec/measure/today.hpp"
#include "models/base/threads.hpp"
#include "reports/prediction/op_fields.hpp"

namespace tandem::exec {
namespace cuda {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBusy = 0.02;                          // seconds of load for each operation
constexpr double kSteadyBefore = 1.0, kSteady = 0.25;   // seconds of load before and during a sustained measurement
constexpr double kAttentionShare = 0.2;                 // largest share of the total time
constexpr std::size_t kLargestPool = std::size_t{8} << 30;
constexpr std::size_t kHopperWorkspace = std::size_t{32} << 20, kWorkspace = std::size_t{8} << 20;

/// Equal for equal operations with equal types.
std::string identity(const CostSample& s) {
  std::ostringstream out;
  out << s.op.index() << ' ' << name(s.dtype);
  Op copy = s.op;
  visit_fields(copy, [&](const char*, const auto& v) {
    if constexpr (std::is_enum_v<std::decay_t<decltype(v)>>)
      out << ' ' << static_cast<int>(v);
    else
      out << ' ' << v;
  });
  return out.str();
}

/// The whole measurement of the device, up to the table.
class Measurement {
 public:
  explicit Measurement(const CudaMeasureOptions& options) : options_(options), device_(require_device()), nvml_(device_.pci) {}

  CostTable run() {
    describe();
    measure_footprint();
    bench_ = std::make_unique<Bench>(pool_bytes());
    timer_ = std::make_unique<ProductTimer>(*lt_, *bench_, workspace());
    warm_up();
    try {
      measure_launches();
      measure_sustained();
      measure_products();
      measure_streaming();
      measure_attention();
    } catch (const std::runtime_error& e) {  // keep what was measured so far, and mark it as incomplete
      table_.facts["stopped"] = e.what();
    }
    return std::move(table_);
  }

 private:
  double passed() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  void tell(const std::string& what) const {
    end_where_stopped(options_.stop);
    if (options_.progress) options_.progress(what, std::min(1.0, passed() / options_.seconds));
  }
  std::size_t workspace() const { return device_.major >= 9 ? kHopperWorkspace : kWorkspace; }
  void figure(const std::string& key, std::optional<double> value, const char* unit, const char* how) {
    if (value) table_.figures.push_back({key, *value, unit, how});
  }

  void describe() {
    table_.device = options_.device.empty() ? slug(device_.card) : options_.device;
    table_.date = today();
    table_.host = device_.card;
    table_.compiler = "CUDA " + device_.runtime;
    table_.facts = {{"card", device_.card}, {"compute_capability", device_.capability()}, {"driver", nvml_.driver()},
                    {"cuda_driver", device_.driver}, {"cuda_runtime", device_.runtime},
                    {"source", "own measurement, tandem measure --device cuda"}, {"law", table_.device},
                    {"times", "seconds: short bursts; sustained_s: after a second of the same product without a pause"}};
    for (const Figure& f : device_.figures) table_.figures.push_back(f);
    figure("power_limit", nvml_.power_limit_watts(), "W", "enforced, as the driver reports it");
    figure("clock_at_start", nvml_.clock_hz(), "Hz", "of the multiprocessors, before any load");
    figure("memory_clock_at_start", nvml_.memory_clock_hz(), "Hz", "as the driver reports it, before any load");
  }

  void measure_footprint() {
    tell("memory of the libraries");
    Footprint footprint(nvml_);
    footprint.context();
    lt_ = footprint.cublaslt();
    const std::string nccl = footprint.nccl();
    table_.facts["cublaslt"] = lt_->version();
    table_.facts["nccl"] = nccl.empty() ? "not found" : nccl;
    table_.facts["attention"] = attention_fact();
    table_.runtime_bytes = footprint.total();
    for (const Figure& f : footprint.figures()) table_.figures.push_back(f);
  }

  std::size_t pool_bytes() const {
    std::size_t free = 0, all = 0;
    check(cudaMemGetInfo(&free, &all), "asking for free memory");
    return std::min(kLargestPool, free / 3) / 256 * 256;
  }

  void warm_up() { timer_->sustained(MatMul{4096, 4096, 4096, false, true}, DType::bf16, kSteadyBefore, kBusy); }

  void measure_launches() {
    tell("launches");
    for (const Figure& f : time_launches(*bench_)) table_.figures.push_back(f);
    figure("cublaslt_call", timer_->host_seconds(), "s", "host time of cublasLtMatmul, 200 in a row");
    table_.launch_s = find("launch_submit");
  }
  double find(const std::string& key) const {
    for (const Figure& f : table_.figures)
      if (f.name == key) return f.value;
    throw ContractError("a figure that was measured is not there");
  }

  /// Times products at the clock frequencies that the card has after one second of load.
  void measure_sustained() {
    const MatMul square{8192, 8192, 8192, false, true};
    const CostSample cases[] = {{square, DType::bf16, 0},
                                {MatMul{16384, 24576, 12288, false, true}, DType::bf16, 0},
                                {MatMul{24576, 12288, 16384, true, false, false, true}, DType::bf16, 0},
                                {MatMul{2048, 6144, 2048, false, true}, DType::bf16, 0},
                                {square, DType::fp16, 0},
                                {square, DType::fp8, 0},
                                {square, DType::tf32, 0},
                                {square, DType::fp32, 0}};
    for (const CostSample& c : cases) {
      tell("sustained load");
      auto s = sustained(c);
      if (s && seen_.insert(identity(*s)).second) table_.samples.push_back(*s);
    }
  }
  std::optional<CostSample> sustained(CostSample s) {
    const auto alone = timer_->seconds(s.op, s.dtype, kBusy);
    if (!alone) return std::nullopt;
    std::optional<double> steady;
    ThreadGroup thread;
    thread.start([&] { steady = timer_->sustained(s.op, s.dtype, kSteadyBefore, kSteady); });
    std::this_thread::sleep_for(std::chrono::duration<double>(kSteadyBefore * 0.9));
    const auto clock = nvml_.clock_hz(), power = nvml_.power_watts(), heat = nvml_.temperature();
    thread.join();
    s.sustained_s = steady.value_or(0);
    s.seconds = *alone;
    const auto& p = std::get<MatMul>(s.op);
    const std::string load = std::string(name(s.dtype)) + " product of " + std::to_string(p.m) + " x " + std::to_string(p.n) +
                             " x " + std::to_string(p.k) + " after 0.9 s of it";
    figure("clock_under_load", clock, "Hz", load.c_str());
    figure("power_under_load", power, "W", load.c_str());
    figure("temperature_under_load", heat, "C", load.c_str());
    return s;
  }

  std::vector<CostSample> product_list() {
    std::vector<CostSample> list;
    for (const CostSample& s : options_.wanted) list.push_back(s);
    for (CostSample& s : default_products()) list.push_back(std::move(s));
    std::erase_if(list,
                  [&](const CostSample& s) { return products_of(s.op, s.dtype).empty() || !seen_.insert(identity(s)).second; });
    return list;
  }

  /// Times products until their share of the time is over, type by type, since another type needs new operands.
  void measure_products() {
    const std::vector<CostSample> list = product_list();
    const double until = options_.seconds * kProductsUntil;
    std::size_t done = 0, refused = 0;
    constexpr std::size_t kRun = 200;
    for (; done < list.size() && passed() < until; done += std::min(kRun, list.size() - done)) {
      std::vector<CostSample> part(list.begin() + static_cast<std::ptrdiff_t>(done),
                                   list.begin() + static_cast<std::ptrdiff_t>(std::min(done + kRun, list.size())));
      std::stable_sort(part.begin(), part.end(), [](const CostSample& a, const CostSample& b) { return a.dtype < b.dtype; });
      refused += measure_part(part, until);
    }
    table_.facts["products"] = std::to_string(std::min(done, list.size())) + " of " + std::to_string(list.size()) +
                               " listed products reached in the time, " + std::to_string(refused) +
                               " without an algorithm or too large";
  }
  std::size_t measure_part(std::vector<CostSample>& part, double until) {
    std::size_t refused = 0;
    for (CostSample& s : part) {
      if (passed() >= until) break;
      tell("matrix products");
      const auto seconds = timer_->seconds(s.op, s.dtype, kBusy);
      if (!seconds) {
        ++refused;
        continue;
      }
      s.seconds = *seconds;
      table_.samples.push_back(s);
    }
    return refused;
  }

  void measure_streaming() {
    tell("copies");
    table_.copies = time_copies(*bench_, kBusy);
    tell("memory-bound kernels");
    for (StreamingCase& c : streaming_cases(*bench_)) {
      tell("memory-bound kernels");
      c.sample.seconds = bench_->stopwatch.seconds(c.call, kBusy);
      table_.samples.push_back(c.sample);
    }
  }

  void measure_attention() {
    tell("attention");
    const double until = passed() + kAttentionShare * options_.seconds;
    for (const CostSample& s : time_attention(*bench_, kBusy, [&](double) { tell("attention"); return passed() < until; }))
      table_.samples.push_back(s);
  }

  static constexpr double kProductsUntil = 0.72;  // fraction of the total time

  const CudaMeasureOptions& options_;
  Clock::time_point begin_ = Clock::now();
  DeviceFacts device_;
  Nvml nvml_;
  CostTable table_;
  std::unique_ptr<CublasLt> lt_;
  std::unique_ptr<Bench> bench_;
  std::unique_ptr<ProductTimer> timer_;
  std::set<std::string> seen_;
};

constexpr const char* kHow =
    "Seconds of one call on an otherwise idle device: median over batches of calls between two events, about 20 ms of load after a "
    "warm-up, operands rotating through pools larger than the caches. Products: cuBLASLt, the heuristic's first algorithm, normally "
    "distributed operands, attention products in the layout (position, sequence, head); fp8 is e4m3 with a scale for each tensor, both operands "
    "along the summed dimension. sustained_s: after a second of the same product without a pause. moved: bytes that a kernel must "
    "read and write. Copies: of so many bytes, each read and written once; host memory is pinned.";

}  // namespace
}  // namespace cuda

bool measures_cuda() { return true; }

CostTable measure_cuda(const CudaMeasureOptions& options) {
  CostTable table = cuda::Measurement(options).run();
  table.notes = cuda::kHow;
  return table;
}

}  // namespace tandem::exec

#include "exec/measure/measure_host.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "exec/backend/forwarding_backend.hpp"
#include "exec/communicator/rendezvous.hpp"
#include "exec/cpu/backend.hpp"
#include "exec/measure/op_timer.hpp"
#include "exec/run/run.hpp"
#include "models/base/threads.hpp"

namespace tandem::exec {
namespace {

/// A queue that does nothing.
class IdleQueue final : public ForwardingQueue {
 public:
  using ForwardingQueue::ForwardingQueue;
  void run(const Launch&) override {}
};

class IdleBackend final : public ForwardingBackend {
 public:
  IdleBackend() : ForwardingBackend(make_cpu_backend()), queue_(inner().queue(Stream::compute)) {}
  std::string_view name() const override { return "idle"; }
  Queue& queue(Stream) override { return queue_; }

 private:
  IdleQueue queue_;
};

class NoTokens final : public TokenSource {
 public:
  std::int64_t vocab_size() const override { return 1; }
  void sequence(std::int64_t, std::span<std::int32_t>) const override {}
};

constexpr int kTasks = 16, kInstances = 200;  // kTasks: of a block; kInstances: of a small model's step

/// A one-rank program: many instances of one block, whose tasks have three operands each.
TaskGraph idle_graph() {
  Template block;
  block.name = "idle";
  block.slots = {{"scratch", MemoryKind::workspace, Bytes(256)}, {"x", MemoryKind::activations, Bytes(256)}};
  const Operand x{1, DType::fp32, 0, 64};
  for (int t = 0; t < kTasks; ++t)
    block.tasks.push_back({"task", PointwiseBackward{64, PointwiseKind::relu}, DType::fp32, Stream::compute, {x, x}, {x}, {}});
  Program program;
  program.stage = StageId(0);
  program.bindings = {0, 256};
  Instance instance;
  instance.tmpl = TemplateId(0);
  program.instances.assign(kInstances, instance);
  program.memory.arena_bytes = Bytes(512);
  TaskGraph graph;
  graph.templates.push_back(std::move(block));
  graph.programs.push_back(std::move(program));
  return graph;
}

Plan idle_plan() {
  Plan plan;
  plan.model.num_layers = plan.model.vocab_size = 1;
  plan.training.seq_length = plan.training.micro_batch_size = plan.training.global_batch_size = 1;
  plan.training.dtypes = {DType::fp32, DType::fp32, DType::fp32, DType::fp32, DType::fp32, DType::fp32};
  return plan;
}

/// Typical operations of small models, about a millisecond in all.
std::vector<Op> typical_operations(DType dtype) {
  return {MatMul{256, 512, 128, false, true, true}, MatMul{256, 128, 512, false, false, false},
          LayerNorm{256, 128, 1e-5},               Pointwise{256 * 512, PointwiseKind::gelu_tanh},
          AttentionScores{{2, 4, 128, 32}},        Accumulate{128 * 512, dtype, dtype}};
}

/// Seconds of the typical operations on each of k threads at once, averaged over the threads.
double typical_seconds(std::size_t k, DType dtype, double budget_s) {
  Rendezvous gate(k);
  std::vector<double> sums(k);
  const auto one = [&](std::size_t i) {
    OpTimer timer(dtype);
    for (const auto& op : typical_operations(dtype)) {
      if (!gate.arrive()) return;
      sums[i] += timer.seconds(op, budget_s);
    }
  };
  run_at_once(k, one, [&] { gate.abort(); });
  double sum = 0;
  for (const auto s : sums) sum += s;
  return sum / static_cast<double>(k);
}

/// The lowest of three measurements, because disturbances only ever add time.
double least_typical_seconds(std::size_t k, DType dtype, double budget_s) {
  double least = typical_seconds(k, dtype, budget_s);
  for (int i = 0; i < 2; ++i) least = std::min(least, typical_seconds(k, dtype, budget_s));
  return least;
}

std::string first_value(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.rfind(key, 0) == 0) {
      const auto at = line.find_first_not_of(": \t", line.find(':'));
      return at == std::string::npos ? "" : line.substr(at);
    }
  return "";
}

}  // namespace

double measure_launch() {
  const auto graph = idle_graph();
  RunOptions options;
  options.steps = 50;
  options.make_backend = [](Rank) { return std::make_unique<IdleBackend>(); };
  double least = 1;
  for (const auto& s : run(idle_plan(), graph, NoTokens(), options).steps) least = std::min(least, s.step_time_s);
  return least / (kTasks * kInstances);
}

std::vector<double> measure_slowdown(const MeasureOptions& options) {
  const auto cores = static_cast<std::size_t>(all_cores());
  const double budget = options.quick ? 0.005 : 0.02;
  const double alone = least_typical_seconds(1, options.dtypes.front(), budget);
  std::vector<double> slowdown{1.0};
  for (std::size_t k = 2; k <= cores; ++k) {
    end_where_stopped(options.stop);
    slowdown.push_back(std::max(1.0, least_typical_seconds(k, options.dtypes.front(), budget) / alone));
  }
  return slowdown;
}

std::string describe_host() {
  auto model = first_value("/proc/cpuinfo", "model name");
  if (model.empty()) model = "unknown processor";
  const double pages = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  return model + ", " + std::to_string(all_cores()) + " cores, " +
         std::to_string(static_cast<std::int64_t>(pages / (1024.0 * 1024 * 1024) + 0.5)) + " GiB";
}

std::string describe_compiler() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "g++ " __VERSION__;
#endif
}

std::int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace tandem::exec

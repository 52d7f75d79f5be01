#pragma once
// Task graphs of a few tasks made by hand, and a backend that only knows how to add: what the executor is tested with
// apart from lowering and kernels.

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "exec/backend/forwarding_backend.hpp"
#include "exec/run/run.hpp"
#include "models/base/error.hpp"
#include "tests/backends.hpp"

namespace tandem::exec::hand {

/// Every buffer of these graphs holds this many fp32 values; buffer b lies at byte b*256 of the arena.
inline constexpr std::int64_t kElements = 16;

/// One template a stage with a slot a buffer; buffer 1 is the flat "weights", for tests to see. Slot 0 is scratch.
struct StageSketch {
  std::vector<std::vector<Task>> instances;  ///< tasks of every instance, one template each
  std::vector<Edge> edges;
  std::vector<std::int32_t> micro_batches;   ///< by instance; empty: 0
};

inline Operand buffer(std::uint16_t b) { return {b, DType::fp32, 0, kElements}; }

/// destination += source.
inline Task add(std::uint16_t source, std::uint16_t destination) {
  return {"add", Accumulate{kElements, DType::fp32, DType::fp32}, DType::fp32, Stream::compute,
          {buffer(source), buffer(destination)}, {buffer(destination)}, {}};
}

/// Whatever the backend's `pointwise` does.
inline Task compute(std::uint16_t in, std::uint16_t out) {
  return {"compute", Pointwise{kElements, PointwiseKind::relu}, DType::fp32, Stream::compute, {buffer(in)}, {buffer(out)}, {}};
}

inline Task all_reduce(Group group, Stream stream, std::uint16_t b) {
  return {"all_reduce", Collective{CollectiveKind::all_reduce, group, kElements, DType::fp32}, DType::fp32, stream,
          {buffer(b)}, {buffer(b)}, {}};
}

inline Task send(int offset, std::uint16_t b) {
  return {"send", Send{kElements, DType::fp32, offset}, DType::fp32, Stream::send, {buffer(b)}, {}, {}};
}

inline Task recv(int offset, std::uint16_t b) {
  return {"recv", Recv{kElements, DType::fp32, offset}, DType::fp32, Stream::recv, {}, {buffer(b)}, {}};
}

inline Task after(std::vector<std::uint16_t> deps, Task t) {
  t.deps = std::move(deps);
  return t;
}

inline constexpr std::uint16_t kBuffers = 6;

inline void add_stage(TaskGraph& graph, const StageSketch& sketch) {
  Program program;
  program.stage = StageId(static_cast<std::int32_t>(graph.programs.size()));
  for (std::uint16_t b = 0; b < kBuffers; ++b) program.bindings.push_back(b * 256);
  for (std::size_t i = 0; i < sketch.instances.size(); ++i) {
    Template t;
    t.name = "template" + std::to_string(graph.templates.size());
    for (std::uint16_t b = 0; b < kBuffers; ++b)
      t.slots.push_back({b == 5 ? "tokens" : "buffer" + std::to_string(b), MemoryKind::activations, Bytes(256)});
    t.tasks = sketch.instances[i];
    Instance instance;
    instance.tmpl = TemplateId(static_cast<std::int32_t>(graph.templates.size()));
    instance.layer = static_cast<std::int32_t>(i);
    instance.micro_batch = sketch.micro_batches.empty() ? 0 : sketch.micro_batches[i];
    graph.templates.push_back(std::move(t));
    program.instances.push_back(instance);
  }
  program.edges = sketch.edges;
  const auto stage = program.stage.value();
  program.params.push_back({"weight" + std::to_string(stage), stage, 0, kElements, 1, kElements, 1, -1, false, true,
                            Param::Init::zeros, stage});
  program.flat_elements = program.shard_elements = kElements;
  program.units.push_back({0, kElements, 1, 0, Replication::data});
  program.memory.arena_bytes = Bytes(kBuffers * 256);
  const auto end = static_cast<std::uint32_t>(sketch.instances.size());
  program.memory.allocations.push_back({"weights", MemoryKind::weights, 256, Bytes(256), 0, end});
  graph.programs.push_back(std::move(program));
}

inline TaskGraph graph_of(const std::vector<StageSketch>& stages) {
  TaskGraph graph;
  for (const auto& s : stages) add_stage(graph, s);
  return graph;
}

inline Plan plan_of(std::int64_t tensor, std::int64_t pipeline, std::int64_t data, std::int64_t context = 1) {
  Plan plan;
  plan.model.num_layers = pipeline;
  plan.model.vocab_size = 256;
  plan.parallel.tensor = tensor;
  plan.parallel.pipeline = pipeline;
  plan.parallel.data = data;
  plan.parallel.context = context;
  plan.training.seq_length = 4;
  plan.training.micro_batch_size = 2;
  plan.training.global_batch_size = 2 * data;
  plan.training.dtypes = {DType::fp32, DType::fp32, DType::fp32, DType::fp32, DType::fp32, DType::fp32};
  return plan;
}

/// Sequence i is i, i+1, i+2 ...
class CountingTokens final : public TokenSource {
 public:
  std::int64_t vocab_size() const override { return 256; }
  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    for (std::size_t t = 0; t < tokens.size(); ++t)
      tokens[t] = static_cast<std::int32_t>(index) * 10 + static_cast<std::int32_t>(t);
  }
};

using PointwiseBody = std::function<void(const float* in, float* out, const KernelContext&)>;

class AddingQueue final : public ForwardingQueue {
 public:
  AddingQueue(Queue& inner, const PointwiseBody& pointwise) : ForwardingQueue(inner), pointwise_(pointwise) {}
  void run(const Launch& launch) override {
    const auto* x = reinterpret_cast<const float*>(launch.in[0].address);
    auto* y = reinterpret_cast<float*>(launch.out[0].address);
    if (std::holds_alternative<Pointwise>(launch.op)) return pointwise_(x, y, launch.context);
    for (std::int64_t i = 0; i < kElements; ++i) y[i] += x[i];
  }

 private:
  const PointwiseBody& pointwise_;
};

/// Adds; and for Pointwise does what the test says. Supports nothing else.
class AddingBackend final : public ForwardingBackend {
 public:
  explicit AddingBackend(PointwiseBody pointwise)
      : ForwardingBackend(make_cpu_backend()),
        pointwise_(std::move(pointwise)),
        queue_(inner().queue(Stream::compute), pointwise_) {}
  std::string_view name() const override { return "adding"; }
  Answer supports(const Op& op, const OperandTypes& types) const override {
    const bool known = std::holds_alternative<Accumulate>(op) || std::holds_alternative<Pointwise>(op);
    const std::string reason = std::string(kind_name(op)) + " in " + std::string(tandem::name(types.compute));
    return {types.compute == DType::fp32 && known, reason};
  }
  Queue& queue(Stream) override { return queue_; }

 private:
  PointwiseBody pointwise_;
  AddingQueue queue_;
};

inline RunResult run_graph(const Plan& plan, const TaskGraph& graph, PointwiseBody pointwise, RunOptions options = {}) {
  options.gather_weights = true;
  options.make_backend = [&](Rank rank) { return tests::under_test(std::make_unique<AddingBackend>(pointwise), rank); };
  return run(plan, graph, CountingTokens(), options);
}

/// The value all elements of weight buffer `stage` have; throws when they differ.
inline double weight(const RunResult& result, std::size_t stage) {
  const auto& v = result.weights.at(stage).values;
  for (const auto x : v) require(x == v[0], "the weight buffer's elements differ");
  return v[0];
}

inline void fill(float* out, float value) { std::fill_n(out, kElements, value); }
inline void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

}  // namespace tandem::exec::hand

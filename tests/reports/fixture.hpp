#pragma once
// A step small enough to work out by hand: two stages, one rank each (tensor 1), one micro-batch.
//   stage 0: matmul (compute), all-reduce (tensor), send down, receive gradient
//   stage 1: receive, matmul, send gradient up

#include <filesystem>
#include <string>

#include "models/graph/task_graph.hpp"
#include "reports/timeline/timeline.hpp"

namespace fixture {

using namespace tandem;

inline Task task(const std::string& name, const Op& op, Stream stream) {
  Task t;
  t.name = name;
  t.op = op;
  t.stream = stream;
  return t;
}

inline Template block(const std::string& name, std::vector<Task> tasks) {
  Template t;
  t.name = name;
  t.tasks = std::move(tasks);
  return t;
}

inline Instance instance(int tmpl, Phase phase) {
  Instance i;
  i.tmpl = TemplateId(tmpl);
  i.layer = tmpl;
  i.micro_batch = 0;
  i.phase = phase;
  return i;
}

inline TaskGraph graph() {
  const MatMul product{2, 3, 5};  // 60 FLOPs
  const Collective reduce{CollectiveKind::all_reduce, Group::tensor, 10, DType::fp32};  // 40 bytes
  TaskGraph g;
  g.templates = {block("first", {task("product", product, Stream::compute), task("reduce", reduce, Stream::tensor),
                                 task("down", Send{7, DType::fp32, 1}, Stream::send)}),
                 block("second", {task("from_above", Recv{7, DType::fp32, -1}, Stream::recv),
                                  task("product", product, Stream::compute)}),
                 block("back", {task("up", Send{7, DType::fp32, -1}, Stream::send)}),
                 block("end", {task("from_below", Recv{7, DType::fp32, 1}, Stream::recv)})};
  Program upper, lower;
  upper.stage = StageId(0);
  upper.instances = {instance(0, Phase::forward), instance(3, Phase::backward)};
  upper.memory.allocations = {{"weights", MemoryKind::weights, 0, Bytes(1 << 20), 0, 1},
                              {"kept", MemoryKind::activations, 1 << 20, Bytes(512), 1, 1}};
  lower.stage = StageId(1);
  lower.instances = {instance(1, Phase::forward), instance(2, Phase::backward)};
  g.programs = {upper, lower};
  return g;
}

inline Duration ns(std::int64_t n) { return Duration::nanoseconds(n); }

inline Span span(std::uint32_t instance, std::uint16_t task, std::int64_t ready, std::int64_t started, std::int64_t ended) {
  return {instance, task, ns(0), ns(ready), ns(started), ns(ended)};
}

inline Lane lane(int stage, std::vector<std::int32_t> ranks, std::int64_t arena) {
  Lane l;
  l.coords[Axis::pp] = stage;
  l.ranks = std::move(ranks);
  l.arena_bytes = Bytes(arena);
  return l;
}

inline const char* plan_json() {
  return R"({"model":{"num_layers":2},"parallel":{"pipeline":2},"training":{"steps":1,"seq_length":8}})";
}

/// Two lanes, `ranks` each; stage 1 begins when stage 0 has sent.
inline Timeline timeline(Performer performer, int ranks = 1) {
  Timeline t;
  t.performer = performer;
  t.plan_json = plan_json();
  t.step_time = ns(100);
  std::vector<std::int32_t> first, second;
  for (int r = 0; r < ranks; ++r) first.push_back(r), second.push_back(ranks + r);
  Lane upper = lane(0, first, 4096);
  upper.spans = {span(0, 0, 0, 0, 20), span(0, 1, 20, 25, 35), span(0, 2, 35, 35, 45), span(1, 0, 45, 80, 90)};
  Lane lower = lane(1, second, 2048);
  lower.spans = {span(0, 0, 0, 35, 45), span(0, 1, 45, 45, 75), span(1, 0, 75, 80, 90)};
  t.lanes = {upper, lower};
  return t;
}

/// A file of its own in the temporary folder, removed at the end.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& stem)
      : path_((std::filesystem::temp_directory_path() / ("tandem_test_" + stem + std::to_string(counter()++))).string()) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  static std::uint64_t& counter() {
    static std::uint64_t n = static_cast<std::uint64_t>(std::filesystem::file_time_type::clock::now().time_since_epoch().count());
    return n;
  }
  std::string path_;
};

}  // namespace fixture

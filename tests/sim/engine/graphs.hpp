#pragma once
// Hand-made task graphs.

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/graph/task_graph.hpp"
#include "tests/sim/engine/fakes.hpp"

namespace tandem::sim::test {

/// Adds templates of one task and instances of them, and keeps the edges in order.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::int32_t stages) {
    for (std::int32_t s = 0; s < stages; ++s) graph_.programs.emplace_back().stage = StageId(s);
  }

  TemplateId one(const std::string& name, Stream stream, const Op& op) {
    Task task;
    task.name = name;
    task.op = op;
    task.stream = stream;
    return many(name, {task});
  }

  TemplateId many(const std::string& name, std::vector<Task> tasks) {
    Template t;
    t.name = name;
    t.tasks = std::move(tasks);
    graph_.templates.push_back(std::move(t));
    return TemplateId(static_cast<std::int32_t>(graph_.templates.size() - 1));
  }

  std::uint32_t add(std::int32_t stage, TemplateId tmpl, Phase phase = Phase::forward, std::int32_t micro_batch = -1) {
    auto& instances = graph_.programs[static_cast<std::size_t>(stage)].instances;
    instances.push_back({tmpl, -1, micro_batch, 0, phase, 0});
    return static_cast<std::uint32_t>(instances.size() - 1);
  }

  void edge(std::int32_t stage, std::uint32_t from, std::uint32_t to, EdgeKind kind = EdgeKind::data) {
    graph_.programs[static_cast<std::size_t>(stage)].edges.push_back({from, to, 0, 0, kind});
  }

  TaskGraph take() {
    for (Program& p : graph_.programs)
      std::sort(p.edges.begin(), p.edges.end(), [](const Edge& a, const Edge& b) {
        return std::tie(a.to_instance, a.to_task, a.from_instance) <
               std::tie(b.to_instance, b.to_task, b.from_instance);
      });
    return std::move(graph_);
  }

 private:
  TaskGraph graph_;
};

/// A pass of a micro-batch through a stage.
struct Pass {
  bool forward;
  int micro_batch;
};

inline std::vector<Pass> one_f_one_b(int p, int m, int s) {
  std::vector<Pass> passes;
  const int warm = std::min(m, p - s - 1);
  int f = 0, b = 0;
  for (; f < warm; ++f) passes.push_back({true, f});
  while (f < m) {
    passes.push_back({true, f++});
    passes.push_back({false, b++});
  }
  for (; b < m; ++b) passes.push_back({false, b});
  return passes;
}

inline std::vector<Pass> gpipe(int m) {
  std::vector<Pass> passes;
  for (int i = 0; i < m; ++i) passes.push_back({true, i});
  for (int i = 0; i < m; ++i) passes.push_back({false, i});
  return passes;
}

struct PipelineCase {
  int stages = 2, micro_batches = 2;
  bool gpipe = false;
  std::vector<Duration> forward, backward;  ///< by stage
  int buffers = 2;                          ///< receive buffers a direction
  int send_buffers = 1 << 20;               ///< outputs a direction that may wait to be sent
  int prefetch = 1;                         ///< passes ahead of the computation at which receives are issued
};

inline PipelineCase equal_stages(int p, int m, Duration f, Duration b) {
  const auto n = static_cast<std::size_t>(p);
  PipelineCase c;
  c.stages = p;
  c.micro_batches = m;
  c.forward.assign(n, f);
  c.backward.assign(n, b);
  return c;
}

/// One stage of a pipeline. The issue order that meets the closed forms, and that the lowering uses: the receive of the
/// next pass (each buffer has a credit edge from the computation that last read it), the computation of this one, its
/// send. All sends on one stream, all receives on another.
class StageBuilder {
 public:
  StageBuilder(GraphBuilder& graph, const PipelineCase& c, int stage, const std::array<TemplateId, 4>& comm)
      : graph_(graph), c_(c), s_(stage), comm_(comm) {
    const auto i = static_cast<std::size_t>(stage);
    forward_ = graph.one("forward" + std::to_string(stage), Stream::compute, work(c.forward[i]));
    backward_ = graph.one("backward" + std::to_string(stage), Stream::compute, work(c.backward[i]));
    passes_ = c.gpipe ? gpipe(c.micro_batches) : one_f_one_b(c.stages, c.micro_batches, stage);
  }

  void build() {
    const auto ahead = static_cast<std::size_t>(c_.prefetch);
    for (std::size_t k = 0; k < std::min(ahead, passes_.size()); ++k) receive(passes_[k]);
    for (std::size_t k = 0; k < passes_.size(); ++k) {
      if (k + ahead < passes_.size()) receive(passes_[k + ahead]);
      compute(passes_[k]);
    }
  }

 private:
  void receive(const Pass& pass) {
    if (pass.forward ? s_ == 0 : s_ == c_.stages - 1) return;
    const std::uint32_t r = graph_.add(s_, comm_[pass.forward ? 1 : 3], phase(pass), pass.micro_batch);
    received_[pass.forward][pass.micro_batch] = r;
    // The buffer was last read by the computation of the micro-batch `buffers` ago.
    const auto user = computed_[pass.forward].find(pass.micro_batch - c_.buffers);
    if (user != computed_[pass.forward].end())
      graph_.edge(s_, user->second, r, EdgeKind::credit);
    else if (pass.micro_batch >= c_.buffers)
      late_.push_back({r, pass});
  }

  void compute(const Pass& pass) {
    const std::uint32_t i = graph_.add(s_, pass.forward ? forward_ : backward_, phase(pass), pass.micro_batch);
    computed_[pass.forward][pass.micro_batch] = i;
    if (received_[pass.forward].count(pass.micro_batch) != 0)
      graph_.edge(s_, received_[pass.forward][pass.micro_batch], i);
    for (const auto& [r, waiting] : late_)
      if (waiting.forward == pass.forward && waiting.micro_batch - c_.buffers == pass.micro_batch)
        graph_.edge(s_, i, r, EdgeKind::credit);
    if (pass.forward ? s_ == c_.stages - 1 : s_ == 0) return;
    auto& sent = sent_[pass.forward];
    const auto old = sent.find(pass.micro_batch - c_.send_buffers);
    if (old != sent.end()) graph_.edge(s_, old->second, i, EdgeKind::credit);
    sent[pass.micro_batch] = graph_.add(s_, comm_[pass.forward ? 0 : 2], phase(pass), pass.micro_batch);
    graph_.edge(s_, i, sent[pass.micro_batch]);
  }

  static Phase phase(const Pass& p) { return p.forward ? Phase::forward : Phase::backward; }

  GraphBuilder& graph_;
  const PipelineCase& c_;
  int s_;
  const std::array<TemplateId, 4>& comm_;
  TemplateId forward_, backward_;
  std::vector<Pass> passes_;
  std::map<int, std::uint32_t> received_[2], computed_[2], sent_[2];
  std::vector<std::pair<std::uint32_t, Pass>> late_;
};

/// Stage 0 computes and sends; stage 1 receives and computes.
inline TaskGraph relay_graph(Duration first, Duration second) {
  GraphBuilder graph(2);
  const std::uint32_t a = graph.add(0, graph.one("first", Stream::compute, work(first)));
  graph.edge(0, a, graph.add(0, graph.one("send", Stream::send, Send{0, DType::fp32, 1})));
  const std::uint32_t r = graph.add(1, graph.one("recv", Stream::recv, Recv{0, DType::fp32, -1}));
  graph.edge(1, r, graph.add(1, graph.one("second", Stream::compute, work(second))));
  return graph.take();
}

inline TaskGraph pipeline_graph(const PipelineCase& c) {
  GraphBuilder graph(c.stages);
  const std::array<TemplateId, 4> comm{graph.one("send_forward", Stream::send, Send{0, DType::fp32, 1}),
                                       graph.one("recv_forward", Stream::recv, Recv{0, DType::fp32, -1}),
                                       graph.one("send_backward", Stream::send, Send{0, DType::fp32, -1}),
                                       graph.one("recv_backward", Stream::recv, Recv{0, DType::fp32, 1})};
  for (int s = 0; s < c.stages; ++s) StageBuilder(graph, c, s, comm).build();
  return graph.take();
}

}  // namespace tandem::sim::test

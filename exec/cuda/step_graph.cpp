#include "exec/cuda/step_graph.hpp"

#include <memory>

namespace tandem::exec::cuda {
namespace {

/// Makes the other streams wait for the first one, so that they join its capture.
void fork(const std::vector<cudaStream_t>& streams, const Event& begin) {
  begin.record(streams.front());
  for (std::size_t i = 1; i < streams.size(); ++i) check(cudaStreamWaitEvent(streams[i], begin, 0), "making a stream wait");
}

/// Makes the first stream wait for the others, one after the other. The event can be reused once a stream waits for it.
void join(const std::vector<cudaStream_t>& streams, const Event& end) {
  for (std::size_t i = 1; i < streams.size(); ++i) {
    end.record(streams[i]);
    check(cudaStreamWaitEvent(streams.front(), end, 0), "making a stream wait");
  }
}

/// Ends a stream's capture, even after an exception.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "beginning to capture a step");
  }
  ~Capture() {
    cudaGraph_t left = nullptr;
    if (open_) cudaStreamEndCapture(stream_, &left);
    if (left != nullptr) cudaGraphDestroy(left);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  cudaGraph_t end() {
    cudaGraph_t graph = nullptr;
    open_ = false;
    check(cudaStreamEndCapture(stream_, &graph), "capturing a step");
    return graph;
  }

 private:
  cudaStream_t stream_;
  bool open_ = true;
};

struct DestroyGraph {
  void operator()(cudaGraph_t graph) const { cudaGraphDestroy(graph); }
};

}  // namespace

StepGraph::StepGraph(const std::vector<cudaStream_t>& streams, const std::function<void()>& issue) : stream_(streams.front()) {
  const Event begin(cudaEventDisableTiming), end(cudaEventDisableTiming);
  Capture capture(stream_);
  fork(streams, begin);
  issue();
  join(streams, end);
  const std::unique_ptr<CUgraph_st, DestroyGraph> graph(capture.end());
  check(cudaGraphInstantiate(&graph_, graph.get(), 0), "making a graph of a step");
}

StepGraph::~StepGraph() {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
}

void StepGraph::start() { check(cudaGraphLaunch(graph_, stream_), "launching the graph of a step"); }

}  // namespace tandem::exec::cuda

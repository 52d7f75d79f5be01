// A rank that only computes issues its second step once, and replays it from then on.
#include <functional>
#include <memory>
#include <vector>

#include "exec/backend/forwarding_backend.hpp"
#include "exec/run/run.hpp"
#include "tests/backends.hpp"
#include "tests/catch.hpp"
#include "tests/exec/cpu/numbers.hpp"
#include "tests/plans.hpp"

namespace tandem::exec::test {
namespace {

/// What a backend was asked for.
struct Counts {
  int captures = 0, replays = 0;
};

/// Keeps what is issued while a capture goes on, as a CUDA stream does.
struct Keeping {
  bool on = false;
  std::vector<std::function<void()>> kept;
};

/// A launch whose operands and context stay.
struct KeptLaunch {
  const Op& op;
  DType compute;
  std::vector<Tensor> in, out;
  KernelContext context;

  explicit KeptLaunch(const Launch& l)
      : op(l.op), compute(l.compute), in(l.in.begin(), l.in.end()), out(l.out.begin(), l.out.end()), context(l.context) {}
  void run(Queue& queue) const { queue.run({op, compute, in, out, context}); }
};

class KeepingQueue final : public ForwardingQueue {
 public:
  KeepingQueue(Queue& inner, Keeping& keeping) : ForwardingQueue(inner), keeping_(keeping) {}
  void run(const Launch& launch) override {
    perform([this, kept = KeptLaunch(launch)] { kept.run(inner()); });
  }
  void mark(Mark& mark) override {
    perform([this, &mark] { inner().mark(mark); });
  }
  void wait(const Mark& mark) override {
    perform([this, &mark] { inner().wait(mark); });
  }

 private:
  void perform(std::function<void()> call) {
    if (!keeping_.on) return call();
    keeping_.kept.push_back(std::move(call));
  }

  Keeping& keeping_;
};

/// The asynchronous CPU backend with captures.
class ReplayingBackend final : public ForwardingBackend {
 public:
  ReplayingBackend(Counts& counts, bool needs_rows)
      : ForwardingBackend(make_async_cpu_backend()), counts_(counts), needs_rows_(needs_rows) {
    for (std::size_t s = 0; s < kStreams; ++s)
      queues_.push_back(std::make_unique<KeepingQueue>(inner().queue(static_cast<Stream>(s)), keeping_));
  }
  bool needs_rows() const override { return needs_rows_; }
  Queue& queue(Stream stream) override { return *queues_[static_cast<std::size_t>(stream)]; }
  std::unique_ptr<Replay> capture(const std::function<void()>& issue) override {
    class Again final : public Replay {
     public:
      Again(std::vector<std::function<void()>> kept, Counts& counts) : kept_(std::move(kept)), counts_(counts) {}
      void start() override {
        ++counts_.replays;
        for (const auto& call : kept_) call();
      }

     private:
      std::vector<std::function<void()>> kept_;
      Counts& counts_;
    };
    ++counts_.captures;
    keeping_ = {true, {}};
    issue();
    keeping_.on = false;
    return std::make_unique<Again>(std::move(keeping_.kept), counts_);
  }

 private:
  Counts& counts_;
  bool needs_rows_;
  Keeping keeping_;
  std::vector<std::unique_ptr<KeepingQueue>> queues_;
};

struct Trained {
  RunResult result;
  Counts counts;
  std::vector<std::string> notes;
};

Trained train(Plan plan, CudaGraphs graphs, bool needs_rows = false) {
  plan.training.cuda_graphs = graphs;
  Trained t;
  RunOptions options;
  options.steps = 6;
  options.timeline_step = 3;
  options.gather_weights = true;
  options.on_note = [&](const std::string& note) { t.notes.push_back(note); };
  options.make_backend = [&](Rank) { return std::make_unique<ReplayingBackend>(t.counts, needs_rows); };
  t.result = run(plan, lower(plan), Numbers(), options);
  return t;
}

bool equal(const RunResult& a, const RunResult& b) {
  for (std::size_t i = 0; i < a.steps.size(); ++i)
    if (a.steps[i].loss != b.steps[i].loss || a.steps[i].grad_norm != b.steps[i].grad_norm) return false;
  for (std::size_t i = 0; i < a.weights.size(); ++i)
    if (a.weights[i].values != b.weights[i].values) return false;
  return a.steps.size() == b.steps.size() && a.weights.size() == b.weights.size();
}

}  // namespace

TEST_CASE("A step that only computes is replayed bit for bit, but for the first and the one that is recorded") {
  const Plan plan = tests::SmallPlan{}.plan();
  const Trained issued = train(plan, CudaGraphs::none), replayed = train(plan, CudaGraphs::iteration);
  CHECK(issued.counts.captures == 0);
  CHECK(replayed.counts.captures == 1);
  CHECK(replayed.counts.replays == 4);  // of steps 0 to 5 all but 0 and 3
  CHECK(equal(issued.result, replayed.result));
  CHECK(replayed.notes.empty());
}

TEST_CASE("Steps that communicate are issued task by task, and a note says so") {
  tests::SmallPlan small;
  small.tensor = 2;
  const Trained t = train(small.plan(), CudaGraphs::iteration);
  CHECK(t.counts.captures == 0);
  REQUIRE(t.notes.size() == 1);
  CHECK(t.notes[0].find("training.cuda_graphs iteration is not performed") == 0);
}

TEST_CASE("Steps whose host reads the rows of dropless experts are issued task by task") {
  std::string json = tests::SmallPlan{}.json();
  json.insert(json.find("\"vocab_size\""), R"("moe": {"num_experts": 4, "experts_per_token": 2}, )");
  for (const bool needs : {false, true}) {
    const Trained t = train(parse_plan(json, "test.json"), CudaGraphs::iteration, needs);
    CHECK(t.counts.captures == (needs ? 0 : 1));
    CHECK(t.notes.size() == (needs ? 1u : 0u));
  }
}

}  // namespace tandem::exec::test

#include "reports/timeline/chrome_trace.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "models/base/error.hpp"
#include "models/base/output.hpp"
#include "reports/timeline/json_text.hpp"
#include "reports/timeline/memory_over_time.hpp"
#include "reports/timeline/task_payload.hpp"
#include "reports/timeline/trace_flows.hpp"

namespace tandem {

namespace {

constexpr Stream kAllStreams[] = {Stream::compute, Stream::tensor, Stream::data, Stream::send, Stream::recv,
                                   Stream::host};
constexpr const char* kAxisNames[] = {"tp", "cp", "ep", "dp", "pp"};

int thread_id(Stream s) {
  switch (s) {
    case Stream::compute: return 0;
    case Stream::tensor: return 10;
    case Stream::data: return 20;
    case Stream::send: return 30;
    case Stream::recv: return 31;
    case Stream::host: return 40;
  }
  return 99;
}

/// Picoseconds as microseconds, exactly.
std::string microseconds(Duration d) {
  const std::string whole = std::to_string(d.ps() / 1'000'000);
  const std::string rest = std::to_string(d.ps() % 1'000'000);
  return whole + "." + std::string(6 - rest.size(), '0') + rest;
}

class Writer {
 public:
  Writer(const Timeline& timeline, const TaskGraph& graph) : timeline_(timeline), graph_(graph), payload_(timeline.plan_json) {}

  std::string text() {
    const std::vector<const Lane*> lanes = shown_lanes();
    out_ = "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"performer\":" + quoted(performer()) +
           ",\"step_time_us\":" + microseconds(timeline_.step_time) + ",\"note\":" + quoted(note(lanes.size())) +
           "},\n\"traceEvents\":[";
    for (const Lane* lane : lanes) write(*lane);
    for (const TraceFlow& flow : flows(lanes, graph_)) write(flow);
    return std::move(out_) + "\n]}\n";
  }

 private:
  std::string performer() const { return timeline_.performer == Performer::simulated ? "simulated" : "executed"; }

  std::vector<const Lane*> shown_lanes() const {
    std::vector<const Lane*> out;
    std::set<std::int32_t> stages;
    const bool all = timeline_.lanes.size() <= kTraceLanes;
    for (const Lane& lane : timeline_.lanes)
      if (all || stages.insert(lane.coords[Axis::pp]).second) out.push_back(&lane);
    if (out.size() > kTraceLanes) out.resize(kTraceLanes);
    return out;
  }

  std::string note(std::size_t shown) const {
    std::size_t ranks = 0;
    for (const Lane& lane : timeline_.lanes) ranks += lane.ranks.size();
    if (shown == ranks) return "every rank is shown";
    return std::to_string(shown) + " representatives of " + std::to_string(ranks) + " ranks are shown";
  }

  void event(const std::string& fields) {
    out_ += first_ ? "\n{" : ",\n{";
    out_ += fields + "}";
    first_ = false;
  }

  void metadata(const char* what, int pid, int tid, const std::string& args) {
    event("\"ph\":\"M\",\"name\":\"" + std::string(what) + "\",\"pid\":" + std::to_string(pid) +
          ",\"tid\":" + std::to_string(tid) + ",\"args\":{" + args + "}");
  }

  /// Whether ranks differ along an axis.
  bool split(std::size_t axis) const {
    return std::any_of(timeline_.lanes.begin(), timeline_.lanes.end(), [&](const Lane& l) { return l.coords.at[axis] > 0; });
  }

  std::string process_name(const Lane& lane) const {
    std::string out = "rank " + std::to_string(lane.ranks.front()) + " |";
    for (std::size_t a = kAxes; a-- > 0;)
      if ((a != 1 && a != 2) || split(a)) out += std::string(" ") + kAxisNames[a] + std::to_string(lane.coords.at[a]);
    return lane.ranks.size() == 1 ? out : out + " | stands for " + std::to_string(lane.ranks.size()) + " ranks";
  }

  void write(const Lane& lane) {
    const int pid = lane.ranks.front();
    metadata("process_name", pid, 0, "\"name\":" + quoted(process_name(lane)));
    metadata("process_sort_index", pid, 0, "\"sort_index\":" + std::to_string(pid));
    for (Stream s : kAllStreams) {
      metadata("thread_name", pid, thread_id(s), "\"name\":" + quoted(name(s)));
      metadata("thread_sort_index", pid, thread_id(s), "\"sort_index\":" + std::to_string(thread_id(s)));
    }
    const Program& program = graph_.program(StageId(lane.coords[Axis::pp]));
    write_spans(lane, program);
    write_memory(lane, program);
  }

  void write_spans(const Lane& lane, const Program& program) {
    std::map<Stream, Duration> free;
    for (const Span& s : lane.spans) {
      const Instance& instance = program.instances.at(s.instance);
      const Task& task = graph_.of(instance).tasks.at(s.task);
      const Duration from = std::max(free[task.stream], is_communication(task.op) ? s.ready : s.started);
      free[task.stream] = std::max(from, s.ended);
      slice(lane, s, {&instance, &task, from, free[task.stream]});
    }
  }

  struct Slice {
    const Instance* instance;
    const Task* task;
    Duration from, to;
  };

  void slice(const Lane& lane, const Span& span, const Slice& s) {
    const Task& task = *s.task;
    std::string args = "\"block\":" + quoted(graph_.of(*s.instance).name) + ",\"phase\":" + quoted(name(s.instance->phase)) +
                       ",\"layer\":" + std::to_string(s.instance->layer) +
                       ",\"microbatch\":" + std::to_string(s.instance->micro_batch) +
                       ",\"issued_us\":" + microseconds(span.issued);
    if (matrix_flops(task.op).count()) args += ",\"flops\":" + std::to_string(matrix_flops(task.op).count());
    if (const Bytes bytes = payload_.of(task.op); bytes.count() > 0) args += ",\"bytes\":" + std::to_string(bytes.count());
    if (is_communication(task.op)) args += ",\"wait_us\":" + microseconds(std::max(span.started, s.from) - s.from);
    if (const auto* c = std::get_if<Collective>(&task.op)) args += ",\"group\":" + quoted(name(c->group));
    event("\"ph\":\"X\",\"name\":" + quoted(task.name) + ",\"cat\":" + quoted(kind_name(task.op)) +
          ",\"pid\":" + std::to_string(lane.ranks.front()) + ",\"tid\":" + std::to_string(thread_id(task.stream)) +
          ",\"ts\":" + microseconds(s.from) + ",\"dur\":" + microseconds(s.to - s.from) + ",\"args\":{" + args + "}");
  }

  void write_memory(const Lane& lane, const Program& program) {
    for (const MemorySample& sample : memory_over_time(lane, program)) {
      std::string args;
      for (std::size_t k = 0; k < kMemoryKinds; ++k)
        args += (k ? "," : "") + quoted(name(static_cast<MemoryKind>(k))) + ":" + mebibytes(sample.live[k]);
      event("\"ph\":\"C\",\"name\":\"memory MiB\",\"pid\":" + std::to_string(lane.ranks.front()) +
            ",\"ts\":" + microseconds(sample.at) + ",\"args\":{" + args + "}");
    }
  }

  static std::string mebibytes(Bytes b) { return std::to_string(static_cast<double>(b.count()) / 1048576.0); }

  void write(const TraceFlow& f) {
    const std::string common = "\"name\":\"pipeline\",\"cat\":\"p2p\",\"id\":" + std::to_string(f.id);
    event("\"ph\":\"s\"," + common + ",\"pid\":" + std::to_string(f.from_rank) + ",\"tid\":30,\"ts\":" + microseconds(f.sent));
    event("\"ph\":\"f\",\"bp\":\"e\"," + common + ",\"pid\":" + std::to_string(f.to_rank) +
          ",\"tid\":31,\"ts\":" + microseconds(f.received));
  }

  const Timeline& timeline_;
  const TaskGraph& graph_;
  const TaskPayload payload_;
  std::string out_;
  bool first_ = true;
};

}  // namespace

std::string chrome_trace(const Timeline& timeline, const TaskGraph& graph) { return Writer(timeline, graph).text(); }

void save_chrome_trace(const Timeline& timeline, const TaskGraph& graph, const std::string& path) {
  write_text(path, chrome_trace(timeline, graph));
}

}  // namespace tandem

#include "reports/page/timeline_boxes.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "models/base/error.hpp"

namespace tandem {

namespace {

/// Boxes nearer than 1 / kPixels of a step are drawn together: that is less than a pixel without zoom.
constexpr std::int64_t kPixels = 4000;

std::int64_t nanoseconds(Duration d) { return d.ps() / 1000; }

class Boxer {
 public:
  Boxer(const Timeline& timeline, const TaskGraph& graph, bool merge)
      : timeline_(timeline), graph_(graph), merge_(merge), gap_(nanoseconds(timeline.step_time) / kPixels) {}

  BoxedLane lane(std::size_t index) {
    const Lane& lane = timeline_.lanes[index];
    const Program& program = graph_.program(StageId(lane.coords[Axis::pp]));
    std::map<Stream, std::vector<Box>> streams;
    for (const Span& s : lane.spans) {
      require(s.instance < program.instances.size(), "a timeline's span names an instance that its program lacks");
      const Instance& i = program.instances[s.instance];
      add(streams[graph_.of(i).tasks.at(s.task).stream], box(s, i));
    }
    BoxedLane out{index, {}};
    for (auto& [stream, boxes] : streams) out.streams.push_back({stream, std::move(boxes)});
    return out;
  }

  std::vector<std::string> tasks() && { return std::move(names_); }

 private:
  Box box(const Span& s, const Instance& i) {
    return {nanoseconds(s.started), nanoseconds(s.ended), static_cast<std::int32_t>(i.phase), task(i, s.task), i.layer,
            i.micro_batch};
  }

  std::int32_t task(const Instance& i, std::uint16_t t) {
    const auto next = static_cast<std::int32_t>(names_.size());
    const auto [at, added] = indices_.try_emplace({i.tmpl, t}, next);
    if (added) names_.push_back(graph_.of(i).name + ": " + graph_.of(i).tasks[t].name);
    return at->second;
  }

  void add(std::vector<Box>& boxes, const Box& b) const {
    if (merge_ && !boxes.empty() && alike(boxes.back(), b)) {
      Box& last = boxes.back();
      last.to = std::max(last.to, b.to);
      if (last.task != b.task) last.task = -1;
      if (last.layer != b.layer) last.layer = -1;
    } else {
      boxes.push_back(b);
    }
  }

  bool alike(const Box& a, const Box& b) const {
    return a.phase == b.phase && a.micro_batch == b.micro_batch && b.from >= a.from && b.from - a.to <= gap_;
  }

  const Timeline& timeline_;
  const TaskGraph& graph_;
  bool merge_;
  std::int64_t gap_;
  std::vector<std::string> names_;
  std::map<std::pair<TemplateId, std::uint16_t>, std::int32_t> indices_;
};

}  // namespace

BoxedTimeline boxes(const Timeline& timeline, const TaskGraph& graph, const std::vector<std::size_t>& chosen,
                    std::size_t most) {
  std::size_t spans = 0;
  for (std::size_t l : chosen) spans += timeline.lanes.at(l).spans.size();
  BoxedTimeline out;
  out.merged = spans > most;
  Boxer boxer(timeline, graph, out.merged);
  for (std::size_t l : chosen) out.lanes.push_back(boxer.lane(l));
  out.tasks = std::move(boxer).tasks();
  return out;
}

std::vector<std::size_t> picked_lanes(std::size_t lanes, std::size_t limit, const std::vector<std::size_t>& always) {
  std::set<std::size_t> out;
  for (std::size_t l : always)
    if (l < lanes) out.insert(l);
  if (lanes <= limit) limit = lanes;
  for (std::size_t i = 0; i < limit && out.size() < limit; ++i)
    out.insert(limit == 1 ? 0 : i * (lanes - 1) / (limit - 1));
  return {out.begin(), out.end()};
}

}  // namespace tandem

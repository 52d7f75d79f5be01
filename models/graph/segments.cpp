#include "models/graph/segments.hpp"

#include <algorithm>

#include "models/plan/batch_growth.hpp"

namespace tandem {
namespace {

Segment part_of(const Segment& s, std::int64_t begin, std::int64_t end) {
  return {s.kind, s.global_batch_size, end - begin, begin, s.first_sample + (begin - s.first_step) * s.global_batch_size};
}

}  // namespace

std::vector<Segment> segments(const Plan& plan, std::int64_t steps) { return segments(plan, steps, {}); }

std::vector<Segment> segments(const Plan& plan, std::int64_t steps, const Begun& begun) {
  std::vector<Segment> all;
  const std::int64_t full = plan.training.global_batch_size;
  const BatchGrowth growth{full, plan.training.batch_rampup};
  if (begun.steps > 0) all.push_back({Segment::Kind::train, full, begun.steps, 0, begun.samples - begun.steps * full});
  for (std::int64_t step = begun.steps, consumed = begun.samples; step < steps;) {
    const std::int64_t batch = growth.batch_after(consumed);
    const std::int64_t n = growth.steps_at(consumed, steps - step);
    all.push_back({Segment::Kind::train, batch, n, step, consumed});
    step += n;
    consumed += n * batch;
  }
  return all;
}

std::vector<Segment> with_evaluations(const Plan& plan, const std::vector<Segment>& training,
                                      const EvaluationRhythm& rhythm) {
  if (rhythm.every == 0) return training;
  std::vector<Segment> all;
  for (const Segment& s : training) {
    const std::int64_t last = s.first_step + s.steps;
    for (std::int64_t begin = s.first_step; begin < last;) {
      const std::int64_t end = std::min(last, (begin / rhythm.every + 1) * rhythm.every);
      all.push_back(part_of(s, begin, end));
      if (due_after(end, rhythm))
        all.push_back({Segment::Kind::evaluate, plan.training.global_batch_size, rhythm.batches, end, 0});
      begin = end;
    }
  }
  return all;
}

std::vector<Segment> from_step(const std::vector<Segment>& all, std::int64_t done) {
  if (done == 0) return all;
  std::vector<Segment> left;
  for (const Segment& s : all) {
    const std::int64_t end = s.first_step + s.steps;
    if (s.kind == Segment::Kind::evaluate && s.first_step >= done) left.push_back(s);
    if (s.kind == Segment::Kind::train && end > done) left.push_back(part_of(s, std::max(s.first_step, done), end));
  }
  return left;
}

Plan with_batch(const Plan& plan, std::int64_t global_batch_size) {
  Plan p = plan;
  p.training.global_batch_size = global_batch_size;
  p.training.batch_rampup = {};
  return p;
}

const GraphCache::Entry& GraphCache::of(Segment::Kind kind, std::int64_t global_batch_size) {
  const auto found = entries_.find({kind, global_batch_size});
  if (found != entries_.end()) return found->second;
  Plan p = with_batch(plan_, global_batch_size);
  TaskGraph graph = kind == Segment::Kind::train ? lower(p) : lower_evaluation(p, kept_);
  return entries_.try_emplace({kind, global_batch_size}, Entry{std::move(p), std::move(graph)}).first->second;
}

}  // namespace tandem

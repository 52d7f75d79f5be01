#pragma once
// Random steps on random machines: everything contends with everything.

#include <random>

#include "tests/sim/engine/graphs.hpp"

namespace tandem::sim::test {

/// A random but consistent step: every stage computes, reduces over several groups on several streams, and exchanges
/// with its neighbours; enough for everything to contend with everything.
class RandomStep {
 public:
  RandomStep(std::mt19937& random, std::int32_t stages) : random_(random), graph_(stages), stages_(stages) {}

  TaskGraph build() {
    const int rounds = static_cast<int>(1 + random_() % 4);
    for (int r = 0; r < rounds; ++r) {
      const Group group = pick();
      const Stream stream = random_() % 2 == 0 ? Stream::tensor : Stream::data;
      const TemplateId reduce = graph_.one("reduce", stream, collective(group));
      const std::int64_t elements = size();
      const TemplateId send = graph_.one("send", Stream::send, Send{elements, DType::fp32, 1});
      const TemplateId recv = graph_.one("recv", Stream::recv, Recv{elements, DType::fp32, -1});
      for (std::int32_t stage = 0; stage < stages_; ++stage) round(stage, reduce, send, recv);
    }
    return graph_.take();
  }

 private:
  Group pick() {
    constexpr Group groups[] = {Group::tensor, Group::data, Group::model, Group::world, Group::pipeline};
    return groups[random_() % 5];
  }
  std::int64_t size() { return static_cast<std::int64_t>(1 + random_() % 300'000); }
  Op collective(Group group) {
    constexpr CollectiveKind kinds[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                        CollectiveKind::all_to_all};
    return Collective{kinds[random_() % 3], group, size(), DType::fp32, Reduce::sum};
  }
  Op random_work() { return work(Duration::nanoseconds(static_cast<std::int64_t>(random_() % 20'000))); }

  void round(std::int32_t stage, TemplateId reduce, TemplateId send, TemplateId recv) {
    const std::uint32_t c = graph_.add(stage, graph_.one("work", Stream::compute, random_work()));
    const std::uint32_t r = graph_.add(stage, reduce);
    if (random_() % 2 == 0) graph_.edge(stage, c, r);
    if (stage > 0) {
      const std::uint32_t in = graph_.add(stage, recv);
      const std::uint32_t after = graph_.add(stage, graph_.one("after", Stream::compute, random_work()));
      graph_.edge(stage, in, after);
    }
    if (stage + 1 < stages_) graph_.edge(stage, c, graph_.add(stage, send));
  }

  std::mt19937& random_;
  GraphBuilder graph_;
  std::int32_t stages_;
};

struct Layout {
  std::int64_t tp, dp, pp;
};

inline Layout random_layout(std::mt19937& random) {
  const std::int64_t degrees[] = {1, 2, 3, 4};
  return {degrees[random() % 4], degrees[random() % 4], degrees[random() % 4]};
}

inline Shape random_shape(std::mt19937& random, std::int64_t world) {
  Shape shape;
  constexpr ScaleUp kinds[] = {ScaleUp::crossbar, ScaleUp::full_mesh, ScaleUp::torus};
  shape.scale_up = kinds[random() % 3];
  shape.ranks_per_device = random() % 3 == 0 && world % 2 == 0 ? 2 : 1;
  shape.devices = world / shape.ranks_per_device;
  shape.latency = Duration::nanoseconds(static_cast<std::int64_t>(random() % 2000));
  shape.synchronous = random() % 3 == 0;
  return shape;
}

}  // namespace tandem::sim::test

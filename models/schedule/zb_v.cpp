#include "models/schedule/zb_v.hpp"

#include <algorithm>

#include "models/schedule/folded_order.hpp"

namespace tandem {

std::vector<Action> zb_v(const ScheduleShape& shape, StageId stage) {
  const std::int64_t before = stage.value(), from_here = shape.stages - before;
  // The order of as many micro-batches as fill the pipeline, without the passes of those that are missing.
  const std::int64_t micro_batches = std::max(shape.micro_batches, 2 * shape.stages - 1);
  const std::int64_t turns = micro_batches - shape.stages, with_forward = turns - from_here + 1;
  FoldedOrder o;
  for (std::int64_t i = 0; i < 2 * from_here - 1; ++i) o.forward(0);
  for (std::int64_t i = 0; i < before; ++i) o.forward(1), o.forward(0);
  for (std::int64_t i = 0; i < from_here; ++i) o.forward(1), o.backward(1), o.weight(1);
  for (std::int64_t i = 0; i < turns; ++i) {
    if (i < with_forward) o.forward(0);
    o.backward(0), o.weight(0);
    o.forward(1), o.backward(1), o.weight(1);
  }
  for (std::int64_t i = 0; i < before; ++i) o.backward(0), o.backward(1);
  for (std::int64_t i = 0; i < from_here; ++i) o.backward(0), o.weight(0);
  for (const std::int32_t chunk : {1, 0})
    for (std::int64_t i = 0; i < before; ++i) o.weight(chunk);
  std::vector<Action> order = o.take();
  std::erase_if(order, [&](const Action& a) { return a.micro_batch >= shape.micro_batches; });
  return order;
}

}  // namespace tandem

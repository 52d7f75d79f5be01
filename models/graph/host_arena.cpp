#include "models/graph/host_arena.hpp"

#include <algorithm>
#include <tuple>

#include "models/base/error.hpp"
#include "models/graph/host_activations.hpp"

namespace tandem {
namespace {

/// "exp_avg" of "exp_avg_to_host".
std::string_view buffer_of(const Task& copy) {
  const std::string_view name = copy.name, end = std::get<HostCopy>(copy.op).to_host ? "_to_host" : "_from_host";
  require(name.size() > end.size() && name.ends_with(end), "a copy between device and host that does not name what it copies");
  return name.substr(0, name.size() - end.size());
}

auto order(const HostTensor& t) { return std::tuple(t.buffer != "weights", std::string_view(t.buffer), t.unit); }

HostTensor tensor_of(const Task& task, const Instance& instance) {
  const auto& copy = std::get<HostCopy>(task.op);
  require(task.stream == Stream::host, "a copy between device and host on another stream than the host's");
  require(instance.layer >= 0, "a copy between device and host that belongs to no unit");
  return {std::string(buffer_of(task)), instance.layer, copy.dtype, copy.elements};
}

}  // namespace

HostArena::HostArena(const TaskGraph& graph, const Program& program) {
  for (const Instance& instance : program.instances)
    for (const Task& task : graph.of(instance).tasks) {
      if (!std::holds_alternative<HostCopy>(task.op) || copies_activation(graph.of(instance), task)) continue;
      HostTensor t = tensor_of(task, instance);
      const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), t,
                                       [](const HostTensor& a, const HostTensor& b) { return order(a) < order(b); });
      const bool known = at != tensors_.end() && order(*at) == order(t);
      require(!known || (at->dtype == t.dtype && at->elements == t.elements), "copies of one tensor to and from the host differ");
      if (!known) tensors_.insert(at, std::move(t));
    }
  for (HostTensor& t : tensors_) {
    t.offset = end_;
    end_ = arena_aligned(end_ + bytes_of(t.dtype, t.elements).count());
  }
}

const HostTensor* HostArena::find(std::string_view buffer, std::int32_t unit) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const HostTensor& t) { return t.unit == unit && t.buffer == buffer; });
  return found == tensors_.end() ? nullptr : &*found;
}

const HostTensor& HostArena::of(const Task& copy, const Instance& instance) const {
  const HostTensor* t = find(buffer_of(copy), instance.layer);
  require(t != nullptr, "a copy of what the host does not have");
  return *t;
}

bool HostArena::has_states(std::int32_t unit) const {
  return std::any_of(tensors_.begin(), tensors_.end(),
                     [&](const HostTensor& t) { return t.unit == unit && t.buffer != "weights"; });
}

}  // namespace tandem

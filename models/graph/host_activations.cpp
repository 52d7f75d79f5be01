#include "models/graph/host_activations.hpp"

#include <algorithm>

#include "models/base/error.hpp"

namespace tandem {
namespace {

const Operand& device_end(const Task& copy) { return copy.inputs.empty() ? copy.outputs.front() : copy.inputs.front(); }

/// "kept_1" of "kept_1_to_host".
std::string_view tensor_of(const Task& copy) {
  const std::string_view name = copy.name, end = std::get<HostCopy>(copy.op).to_host ? "_to_host" : "_from_host";
  require(name.size() > end.size() && name.ends_with(end), "a copy between device and host that does not name what it copies");
  return name.substr(0, name.size() - end.size());
}

std::uint64_t number(std::uint32_t instance, std::uint16_t task) { return (std::uint64_t{instance} << 16) | task; }

}  // namespace

bool copies_activation(const Template& t, const Task& task) {
  if (!std::holds_alternative<HostCopy>(task.op)) return false;
  require(task.inputs.size() + task.outputs.size() == 1, "a copy between device and host with other than one end on the device");
  return t.slots[device_end(task).slot].kind == MemoryKind::activations;
}

HostActivations::HostActivations(const TaskGraph& graph, const Program& program) {
  std::vector<bool> copies;  // by template
  for (const Template& t : graph.templates)
    copies.push_back(std::any_of(t.tasks.begin(), t.tasks.end(), [&](const Task& task) { return copies_activation(t, task); }));
  if (std::find(copies.begin(), copies.end(), true) == copies.end()) return;
  for (std::uint32_t i = 0; i < program.instances.size(); ++i) {
    const Instance& instance = program.instances[i];
    if (!copies[instance.tmpl.index()]) continue;
    const std::vector<Task>& tasks = graph.of(instance).tasks;
    for (std::uint16_t k = 0; k < tasks.size(); ++k) copy(instance, tasks[k], number(i, k));
  }
  require(held_.empty(), "activations stay in host memory after a step");
}

/// Notes where one task copies to or from.
void HostActivations::copy(const Instance& instance, const Task& task, std::uint64_t number) {
  require(task.stream == Stream::host, "a copy between device and host on another stream than the host's");
  const Operand& o = device_end(task);
  const std::int64_t bytes = arena_aligned(bytes_of(o.dtype, o.elements).count());
  const Key key{instance.layer, instance.micro_batch, instance.chunk, tensor_of(task)};
  const auto there = held_.find(key);
  std::vector<std::int64_t>& same = free_[bytes];
  if (!std::get<HostCopy>(task.op).to_host) {
    require(there != held_.end() && there->second.bytes == bytes, "an activation that is not in host memory is copied back");
    places_.emplace_back(number, there->second.offset);
    same.push_back(there->second.offset);
    held_.erase(there);
    return;
  }
  require(there == held_.end(), "an activation that is in host memory is copied there");
  if (same.empty()) same.push_back(std::exchange(end_, end_ + bytes));
  places_.emplace_back(number, same.back());
  held_.emplace(key, Held{same.back(), bytes});
  same.pop_back();
}

std::int64_t HostActivations::offset(std::uint32_t instance, std::uint16_t task) const {
  const Place wanted{number(instance, task), 0};
  const auto found = std::lower_bound(places_.begin(), places_.end(), wanted);
  require(found != places_.end() && found->first == wanted.first, "a copy of an activation that host memory does not have");
  return found->second;
}

}  // namespace tandem

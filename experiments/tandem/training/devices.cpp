#include "experiments/tandem/training/devices.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "exec/communicator/staged_communicator.hpp"
#include "exec/cpu/backend.hpp"
#include "exec/measure/today.hpp"
#include "exec/nccl/nccl.hpp"
#include "models/base/error.hpp"
#include "models/graph/deadlock.hpp"
#include "models/planfile/plan_trained.hpp"

namespace tandem::program {
namespace {

bool cuda(const DeviceOptions& w) { return w.backend == "cuda"; }

/// Resolves "auto".
std::string comm_of(const DeviceOptions& w, bool several) {
  if (w.comm != "auto") return w.comm;
  return cuda(w) && several ? "nccl" : "threads";
}

/// This process' index among those of its host, and their number.
std::pair<std::size_t, std::size_t> place_on_host(exec::World& world) {
  const auto& all = world.neighbours();
  const auto self = static_cast<std::size_t>(world.control().process());
  const auto here = [&](const exec::Neighbour& n) { return n.machine == all[self].machine; };
  const auto before = std::count_if(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(self), here);
  return {static_cast<std::size_t>(before), static_cast<std::size_t>(std::count_if(all.begin(), all.end(), here))};
}

void set(const char* name, const std::string& value, bool replace) { setenv(name, value.c_str(), replace ? 1 : 0); }

/// For tests: processes of a host may share a device.
bool may_share() {
  const char* share = std::getenv("TANDEM_SHARE_DEVICE");
  return share != nullptr && std::string(share) == "1";
}

/// True if the plan's device is this card.
bool same_device(const exec::CudaCard& card, const Device& device) {
  constexpr double kNear = 0.1;  // drivers reserve a part of the memory
  const double here = static_cast<double>(card.memory_bytes), there = static_cast<double>(device.memory.count());
  return card.multiprocessors == device.compute_units && std::abs(here - there) <= kNear * there;
}

/// The preset of the plan's device if it is this card, else the card's name, so that timings are not attributed to another card.
std::string device_of(const exec::CudaCard& card, const Device& device) {
  return same_device(card, device) && !device.preset.empty() ? device.preset : card.name;
}

std::shared_ptr<exec::device::ProductChoices> product_choices(const std::string& path, const Device& device) {
  const exec::CudaCard card = exec::cuda_card();
  const exec::device::ProductPlace place{card.name, card.products, device_of(card, device), exec::today()};
  return std::make_shared<exec::device::ProductChoices>(place, path.empty() ? exec::device::default_choices_path(place) : path);
}

}  // namespace

void settle_device(DeviceOptions& w, const Plan& plan, const std::string& path, const Device& device) {
  w.cuda.deterministic = plan.training.deterministic;
  if (cuda(w) && !w.cuda.deterministic) w.cuda.choices = product_choices(path, device);
}

std::optional<double> peak_flops(const DeviceOptions& w, exec::World& world, const Device& device, DType compute) {
  const auto peak = device.peak.find(compute);
  if (!cuda(w) || may_share() || peak == device.peak.end() || !same_device(exec::cuda_card(), device)) return std::nullopt;
  return peak->second.flops_per_second() * static_cast<double>(world.control().processes());
}

void require_consistent(const DeviceOptions& w, const exec::World& world) {
  if (w.comm == "nccl" && !cuda(w))
    throw ConfigError(Problem{"", "--comm", "nccl", "moves bytes of CUDA devices, and --backend is " + w.backend, "give --backend cuda"});
  if (w.comm == "threads" && world.several() && cuda(w))
    throw ConfigError(Problem{"", "--comm", "threads", "ranks of several processes share no device memory", "use --comm nccl or staged"});
}

void choose_device(const DeviceOptions& w, exec::World& world) {
  if (!cuda(w) || !world.several()) return;
  const auto devices = exec::visible_cuda_devices();
  const auto [place, count] = place_on_host(world);
  if (devices.empty()) return;  // require_device reports it
  const bool shared = count > devices.size();
  if (shared && !may_share())
    throw DeviceError(std::to_string(count) + " processes of this host have " + std::to_string(devices.size()) +
                      (devices.size() == 1 ? " CUDA device" : " CUDA devices") +
                      ": start one process a device, or set TANDEM_SHARE_DEVICE=1 to share them, for tests");
  set("CUDA_VISIBLE_DEVICES", devices[place % devices.size()], true);
  set("CUDA_MODULE_LOADING", "EAGER", false);  // lazy loading of a kernel would wait for the device, which may wait for a peer
  // NCCL refuses two ranks of one host on a device. Different host ids make it use sockets instead.
  if (shared) set("NCCL_HOSTID", "tandem-" + std::to_string(world.control().process()), true);
}

void require_device(const DeviceOptions& w, const exec::World& world) {
  if (cuda(w)) exec::require_cuda_device();
  if (comm_of(w, world.several()) == "nccl") exec::require_nccl();
}

// In deterministic mode a collective is two launches with a reduction in between, for which no order of starts is proved safe.
void require_launch_order(const DeviceOptions& w, exec::World& world, const TaskGraph& graph) {
  if (comm_of(w, world.several()) != "nccl") return;
  if (const auto stuck = find_deadlock(graph, Host::starts_in_order))
    throw InfeasibleError(Problem{"", "parallel.schedule", "",
                                  "NCCL starts communications in the order of their issue, and these would wait for each other: " +
                                      stuck->substr(0, stuck->find('\n')),
                                  "set parallel.overlap_p2p, or use --comm staged"});
  if (!w.cuda.deterministic) set("NCCL_LAUNCH_ORDER_IMPLICIT", "1", false);
}

void use_devices(const DeviceOptions& w, const Plan& plan, exec::RunOptions& options) {
  if (w.backend == "cpu-async")
    options.make_backend = [threads = computing_threads(plan)](Rank) { return exec::make_async_cpu_backend(threads); };
  if (cuda(w)) options.make_backend = [of = w.cuda](Rank) { return exec::make_cuda_backend(of); };
  options.make_communicators = [w](exec::World& world) {
    const std::string comm = comm_of(w, world.several());
    if (comm == "nccl") return exec::make_nccl_communicators(world, {w.cuda.deterministic});
    if (comm == "staged") {
      auto& area = cuda(w) ? exec::cuda_staging_area() : exec::host_staging_area();
      return exec::make_staged_communicators(world.make_communicators(), area, world.here());
    }
    return cuda(w) ? exec::make_cuda_communicators(static_cast<int>(world.here().size())) : world.make_communicators();
  };
}

}  // namespace tandem::program

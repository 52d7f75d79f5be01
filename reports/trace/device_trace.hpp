#pragma once
// What a trace of PyTorch's profiler says about one rank: the work of its device and what launched it.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/base/units.hpp"

namespace tandem {

enum class DeviceWork : std::uint8_t { kernel, copy, set };

/// What a kernel of NCCL says about its collective. Empty or 0: it does not say.
struct CollectiveFacts {
  std::string name;           ///< as PyTorch names it: "allreduce", "_allgather_base"
  std::string dtype;          ///< "BFloat16"
  std::string group;          ///< name of the process group
  std::string description;    ///< "TENSOR_MODEL_PARALLEL_GROUP"
  std::string ranks;          ///< "[0, 1, 2, 3]"; a long list is cut and ends in "..."
  std::int64_t in = 0, out = 0;  ///< elements of the message on this rank
  std::int64_t group_size = 0;
};

/// One kernel, copy or clearing on a device. Times count from the trace's first event.
struct DeviceEvent {
  Duration start, time;
  std::uint32_t name = 0;         ///< index into DeviceTrace::names
  std::int32_t collective = -1;   ///< index into DeviceTrace::collectives; -1: none
  std::int64_t correlation = -1;  ///< of its launch; -1: unknown
  std::int32_t device = 0;
  DeviceWork work = DeviceWork::kernel;

  Duration end() const { return start + time; }
};

/// An operation or annotation on a thread of the host.
struct HostRange {
  std::int64_t thread = 0;
  Duration start, end;
  std::uint32_t name = 0;
};

/// A call of the CUDA or HIP runtime that launched device work.
struct HostLaunch {
  std::int64_t thread = 0;
  Duration at;
  std::int64_t correlation = 0;
  bool graph = false;  ///< replays a captured graph: one launch of many kernels
};

/// A process group as the trace's head lists it.
struct ProcessGroup {
  std::string description;
  std::vector<std::int32_t> ranks;
};

/// How much work the second device of a file has beside the one with most.
struct SecondDevice {
  std::int32_t first = 0, second = 0;
  double share = 0;  ///< of the first one's time; 0: there is no second
};

/// A trace without what comparisons do not need: Python frames, flows, counters, memory.
struct DeviceTrace {
  std::string path;
  std::int64_t rank = -1, world_size = -1;  ///< -1: it does not say
  std::string device;                       ///< "NVIDIA H100 80GB HBM3"; may be empty
  std::vector<std::string> names;           ///< of events and ranges, each once
  std::vector<DeviceEvent> events;          ///< of one device, ascending start
  std::vector<HostRange> ranges;            ///< in the file's order
  std::vector<HostRange> device_ranges;     ///< annotations as laid over the device's work, in the file's order
  std::vector<HostLaunch> launches;         ///< in the file's order
  std::vector<CollectiveFacts> collectives;
  std::map<std::string, ProcessGroup> groups;  ///< by name
  SecondDevice second;
  std::int64_t other_devices = 0;           ///< events of other devices, which are left out
};

}  // namespace tandem

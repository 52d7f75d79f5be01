#pragma once
// The steps of a trace and the work that belongs to each.

#include <cstdint>
#include <string>
#include <vector>

#include "reports/trace/device_trace.hpp"

namespace tandem {

/// How the steps of a trace were found.
enum class StepEvidence : std::uint8_t {
  host_annotations,    ///< ProfilerStep#N on a thread of the host
  device_annotations,  ///< ProfilerStep#N over the device's work; the host was not recorded
  whole_trace,         ///< none: the trace is divided into as many equal steps as the caller says
};

/// One step. On the device it lasts from `begin` to `end`; its events were launched by it, and may end later.
struct TraceStep {
  std::string name;
  Duration begin, end;
  std::vector<std::uint32_t> events;  ///< indices of DeviceTrace::events, ascending

  Duration time() const { return end - begin; }
};

struct TraceSteps {
  StepEvidence evidence = StepEvidence::whole_trace;
  std::vector<TraceStep> steps;       ///< the steps that count
  std::string warm_up;                ///< name of the first step, if it was left out; else empty
  std::int64_t incomplete = 0;        ///< steps without work of the device, left out
  std::int64_t divisor = 1;           ///< whole_trace: number of steps in the one that `steps` has
};

/// Steps of a trace. A step begins where the host enters it, but not before the device has ended what earlier steps launched: a host
/// that runs ahead is no part of the step. It ends where the next one begins; the last one, where host and device have ended. Events
/// belong to the step that launched them; without a launch, to the step in which they start. Of three steps or more the first is
/// left out if it is 5 % longer than any later one: it warmed up. `whole_steps`: steps of a trace without annotations, else unused.
TraceSteps steps_of(const DeviceTrace& trace, std::int64_t whole_steps);

}  // namespace tandem

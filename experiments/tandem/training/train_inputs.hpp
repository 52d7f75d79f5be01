#pragma once
// The options and the inputs of `train`.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/process/world.hpp"
#include "experiments/tandem/training/data.hpp"
#include "experiments/tandem/training/devices.hpp"
#include "experiments/tandem/training/processes.hpp"
#include "models/graph/segments.hpp"

namespace tandem::program {

struct TrainOptions {
  std::string plan, trace, timeline, save, resume, weights, adapter, algorithms, metrics;
  DataOptions text;
  DeviceOptions device;
  LaunchOptions launch;
  std::int64_t steps = 0, schedule_steps = 0;
  std::int64_t eval_every = 0, eval_steps = 1, save_every = 0, keep = 2;
  std::int64_t timeline_step = -1;   ///< -1: the last
  bool json = false;
};

/// The inputs of a training; equal in every process.
struct TrainInputs {
  std::optional<exec::Checkpoint> resumed;
  std::unique_ptr<exec::SavedState> weights;  ///< nullptr: drawn ones, or those of `resumed`
  std::unique_ptr<GraphCache> graphs;
  Data data;
  double held_out = 0;
  std::int64_t data_since = 0;                ///< the sequence of the run that is the first of `data.training`
  DeviceOptions device;
  std::optional<double> peak_flops_per_s;
};

/// Throws if this machine lacks what the options ask for. Reads nothing.
void require_available(const TrainOptions& options, exec::World& world);

/// Opens everything that the options name, and says what a user may not expect of it. Throws ConfigError.
void open_inputs(const TrainOptions& options, exec::World& world, TrainInputs& out);

/// Throws ConfigError if options or inputs differ between processes.
void require_same(const TrainOptions& options, const TrainInputs& in, exec::World& world);

}  // namespace tandem::program

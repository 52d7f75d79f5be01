#pragma once
// Facts on power, failures and memory errors, as data: topology/budget/power.json and failures.json, topology/errors/memory.json.

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tandem {

/// Watts of a device and of its share of the host.
struct DevicePower {
  double busy_w = 0, idle_w = 0, host_busy_w = 0, host_idle_w = 0;
  std::optional<double> lowest_limit_w = {};   ///< the lowest power limit that can be set
};

/// How a power limit lowers a device's clock: see PowerCurve (topology/power_limit.hpp).
struct PowerLimitFacts {
  double clock_exponent = 1, floor_clock = 0;
  double lowest_share = 0;                     ///< lowest limit / rated power of a device that names none
};

struct PowerFacts {
  std::map<std::string, DevicePower> devices;  ///< by name of the device's preset
  std::optional<PowerLimitFacts> limit;        ///< nothing: the file has no law of limits
  double pue = 1;                              ///< power usage effectiveness: power of the building / power of the machines
  std::map<std::string, double> grids;         ///< kg of CO2 a kWh, by name
};

/// Defaults for failures and storage.
struct FailureFacts {
  double failures_per_device_day = 0;
  double detection_s = 0, restart_s = 0;
  double storage_device_bytes_per_s = 0;       ///< storage bandwidth for each accelerator of the job
};

/// Throw ConfigError on a broken file.
PowerFacts load_power_facts();
FailureFacts load_failure_facts();

/// Margin by which measured peak memory may exceed the prediction, as a share of the prediction. Throws ConfigError.
double load_memory_error();

}  // namespace tandem

#pragma once
// What `tandem plan` is asked.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::planning {

/// A field of a plan and the values that it takes, one plan each.
struct FieldValues {
  std::string field;
  std::vector<std::string> values;  ///< JSON, or plain text
};

/// Which plans are asked about.
struct PlanChoice {
  std::string plan;                 ///< a plan file, a Hugging Face config.json, or the name of a model preset
  std::vector<std::string> clusters;
  std::vector<std::int64_t> devices;
  std::vector<FieldValues> fields;
  std::int64_t sequences_per_device = 0;  ///< global batch over devices; 0: the plan's global batch
  std::string stack;
};

struct PriceChoice {
  std::map<std::string, double> device_hour;  ///< in any currency, by cluster preset; "" is for all others
  std::vector<std::string> kinds;             ///< in order of preference; empty: on demand, and no price is no error
  std::string provider;
};

/// What is not given is taken from topology/budget/failures.json.
struct FailureChoice {
  std::optional<double> per_device_day, mtbf_hours;  ///< of one device; at most one of both
  std::optional<double> detection_s, restart_s;
  std::optional<double> save_s, storage_bytes_per_s; ///< at most one of both
  bool async = false;                                ///< the job goes on while a checkpoint is written
  std::optional<double> interval_s;                  ///< between checkpoints; else the best one
  double repair_hours = 0;                           ///< of a broken node; 0: another is at hand
  std::optional<std::int64_t> spares;                ///< nodes
  std::optional<double> goodput;                     ///< in place of all of it
};

/// What is not given is taken from topology/budget/power.json.
struct PowerChoice {
  std::optional<double> busy_w, idle_w, host_w, pue;
  std::string grid;                                  ///< kg of CO2 a kWh, or the name of a grid
  std::optional<double> limit_kw;
};

struct Request {
  PlanChoice choice;
  double tokens = 0;
  std::optional<double> days;
  std::optional<double> step_s;     ///< measured, of the one plan, in place of the simulated step time
  PriceChoice price;
  FailureChoice failures;
  PowerChoice power;
  std::vector<std::pair<std::string, std::string>> what_if;  ///< name or plan field, value
  bool tornado = false;
  int jobs = 1;
};

}  // namespace tandem::planning

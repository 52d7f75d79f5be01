#pragma once
// The input of `tandem plan`.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::planning {

/// A plan field and its values; each value makes a plan.
struct FieldValues {
  std::string field;
  std::vector<std::string> values;  ///< JSON or plain text
};

/// Selects the plans.
struct PlanChoice {
  std::string plan;                 ///< a plan file, a Hugging Face config.json, or the name of a model preset
  std::vector<std::string> clusters;
  std::vector<std::int64_t> devices;
  std::vector<FieldValues> fields;
  std::int64_t sequences_per_device = 0;  ///< sets global batch = this x devices; 0: keep the plan's global batch
  std::string stack;
};

struct PriceChoice {
  std::map<std::string, double> device_hour;  ///< per cluster preset, in any currency; "" is for all others
  std::vector<std::string> kinds;             ///< in order of preference; empty: on demand, and a missing price is no error
  std::string provider;
};

/// Defaults: topology/budget/failures.json.
struct FailureChoice {
  std::optional<double> per_device_day, mtbf_hours;  ///< of one device; give at most one of them
  std::optional<double> detection_s, restart_s;
  std::optional<double> save_s, storage_bytes_per_s; ///< give at most one of them
  bool async = false;                                ///< the job continues while a checkpoint is written
  std::optional<double> interval_s;                  ///< between checkpoints; nullopt: the optimum
  double repair_hours = 0;                           ///< of a broken node; 0: it is replaced at once
  std::optional<std::int64_t> spares;                ///< number of nodes
  std::optional<double> goodput;                     ///< replaces all of the above
};

/// Defaults: topology/budget/power.json.
struct PowerChoice {
  std::optional<double> busy_w, idle_w, host_w, pue;
  std::string grid;                                  ///< kg of CO2 per kWh, or the name of a grid
  std::optional<double> limit_kw;
};

/// A part of a training with fields of its own.
struct Phase {
  double tokens = 0;
  std::vector<std::pair<std::string, std::string>> fields;  ///< plan fields and their values, JSON or plain text, in place of the plan's
};

struct Request {
  PlanChoice choice;
  std::vector<Phase> phases;        ///< in the order of the training, at least one
  std::optional<double> days;
  std::optional<double> budget;     ///< money that it may cost, in the currency of the prices
  std::optional<double> step_s;     ///< measured step time of the only plan; replaces the simulated one
  PriceChoice price;
  FailureChoice failures;
  PowerChoice power;
  std::vector<std::pair<std::string, std::string>> what_if;  ///< (name or plan field, value; see fields_of)
  bool tornado = false;
  int jobs = 1;
};

}  // namespace tandem::planning

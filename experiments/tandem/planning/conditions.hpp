#pragma once
// Inputs of a budget besides the simulated step: prices, failures, power. Options override data files.

#include <optional>
#include <string>
#include <vector>

#include "experiments/tandem/planning/assessment.hpp"
#include "experiments/tandem/planning/request.hpp"
#include "sim/budget/energy.hpp"
#include "sim/result/error_book.hpp"
#include "topology/budget_facts.hpp"
#include "topology/price_list.hpp"

namespace tandem::planning {

/// Data files shared by all plans.
struct Facts {
  PriceList prices;
  PowerFacts power;
  FailureFacts failures;
  double memory_error = 0;
  sim::ErrorBook errors;
  std::chrono::sys_days today;
};
/// Reads the data files. Throws ConfigError.
Facts load_facts();

struct PriceCondition {
  double device_hour = 0;
  std::string currency;         ///< empty for the user's own price
  const Offer* offer = nullptr; ///< in Facts::prices; null for the user's own price
};

struct FailureCondition {
  double per_device_day = 0;
  double detection_s = 0, restart_s = 0, save_s = 0, durable_s = 0;
  std::optional<double> interval_s, goodput;
  double repair_hours = 0;
  std::optional<std::int64_t> spares;
};

struct PowerCondition {
  sim::PowerDraw draw;
  double pue = 1;
  std::optional<double> carbon_kg_per_kwh, limit_kw;
};

struct Conditions {
  double tokens = 0;                     ///< of the phase
  double begin_s = 0;                    ///< the restart between a phase and the one before
  std::optional<double> days, budget;
  std::optional<PriceCondition> price;   ///< nullopt: no offer
  FailureCondition failures;
  std::optional<PowerCondition> power;   ///< nullopt: power is not known
  std::optional<double> measured_factor; ///< measured / simulated step time
  double step_factor = 1;                ///< factor on the step time, measured or simulated
};

/// " USD"; nothing without a price that has a currency, such as one of --price.
std::string currency_of(const Conditions& conditions);

/// The errors of predictions, with those that the assessed device's calibration names.
sim::ErrorBook errors_of(const Assessment& assessment, const Facts& facts);

/// The conditions of one phase of the request. Throws ConfigError: unknown kind of price or grid; idle or host watts without known busy watts.
Conditions conditions_of(const Request& request, const Facts& facts, const Assessment& assessment, std::size_t phase = 0);

/// True if --price-kind or --provider is given: all plans must then have a price.
inline bool asks_for_price(const Request& request) { return !request.price.kinds.empty() || !request.price.provider.empty(); }

/// Refuses a price for a cluster that is no preset, or that is not among those of the plans. Throws ConfigError.
void require_price_clusters(const PriceChoice& choice, const std::vector<std::string>& clusters);

/// The problem of a device without an offer. It names the kinds of prices that the device has, and --price.
Problem no_price(const Request& request, const Facts& facts, const Assessment& assessment);

}  // namespace tandem::planning

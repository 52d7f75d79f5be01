#pragma once
// What a budget rests on beside the simulated step: prices, failures, power. Options come before data.

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

/// Data files that all plans share.
struct Facts {
  PriceList prices;
  PowerFacts power;
  FailureFacts failures;
  double memory_error = 0;
  sim::ErrorBook errors;
  std::chrono::sys_days today;
};
/// Throws ConfigError.
Facts load_facts();

struct PriceCondition {
  double device_hour = 0;
  std::string currency;         ///< empty for a price of the user's own
  const Offer* offer = nullptr; ///< of Facts::prices; null for a price of the user's own
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
  double tokens = 0;
  std::optional<double> days;
  std::optional<PriceCondition> price;   ///< empty: no offer
  FailureCondition failures;
  std::optional<PowerCondition> power;   ///< empty: watts are not known
  std::optional<double> measured_factor; ///< a measured step time over the simulated one
  double step_factor = 1;                ///< on the step time, measured or simulated
};

/// The conditions of one plan. Throws ConfigError: unknown kind of price or grid, watts of a device without its own.
Conditions conditions_of(const Request& request, const Facts& facts, const Assessment& assessment);

/// The problem of a device without an offer: names the kinds that it has, and --price.
Problem no_price(const Request& request, const Facts& facts, const Assessment& assessment);

}  // namespace tandem::planning

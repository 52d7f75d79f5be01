#pragma once
// The Pareto front of layouts by step time, memory, cost and energy.

#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/tandem/planning/rent.hpp"
#include "experiments/tandem/search/search.hpp"

namespace tandem::search {

/// Price and power of a device; nullopt if unknown.
struct Rates {
  std::string cluster;
  std::optional<double> price;   ///< per device hour
  std::string currency;          ///< empty for the user's own price
  std::optional<double> kilowatts;  ///< of a busy device, including its share of host and building
  std::string no_price;          ///< why there is no price
  planning::RentedDevices rented;  ///< all of them are paid for
};

/// A sentence for each place and objective that is not known of it; once for places of one cluster.
std::vector<std::string> left_out(const std::vector<Search*>& searches, const std::vector<Rates>& rates);

/// Rates of a space's devices, from topology/budget and the user's options. Throws ConfigError.
Rates rates_of(const Space& space, const planning::PriceChoice& price);

/// A simulated step of one of several searches.
struct ParetoPoint {
  std::size_t search = 0;
  Simulated step;
  std::optional<double> cost, energy_kwh;    ///< of the step; nothing if the place's rate is unknown
  std::optional<double> cost_without_idle;  ///< of the devices that are used alone
  double likely = 1;                        ///< factor on the step of a bound that makes it the (geometric) middle of its range

  /// Likely step time, memory, cost and energy; less is better. An unknown one is infinite.
  std::array<double, 4> figures() const {
    constexpr double kUnknown = std::numeric_limits<double>::infinity();
    return {likely * static_cast<double>(step.time_ps), static_cast<double>(step.needed), likely * cost.value_or(kUnknown),
            likely * energy_kwh.value_or(kUnknown)};
  }
};

struct ParetoFront {
  std::vector<ParetoPoint> points;   ///< fastest first
  std::vector<ParetoPoint> others;   ///< simulated and fitting, but dominated by one of `points`
  std::vector<Answer> answers;       ///< by search
  std::vector<Rates> rates;          ///< by search
  bool cost = false, energy = false; ///< objectives; false if all clusters' rates are unknown
  bool complete = true;              ///< false: a search reached its limit --events, or was interrupted
  bool interrupted = false;
};

/// Estimates the search's whole shard. Then simulates the front of the estimates, then that of the remaining ones, until none of
/// them can be on the front. The order of simulations depends only on the space. Returns the steps, and whether all were simulated.
/// Throws program::Interrupted.
struct FrontSearch {
  std::map<CandidateId, Simulated> simulated;
  bool complete = true;
  bool interrupted = false;          ///< all that the search has simulated counts
};
FrontSearch explore_front(Search& search);

/// The Pareto front over several searched spaces.
ParetoFront pareto_front(const std::vector<Search*>& searches, std::vector<FrontSearch> searched, std::vector<Rates> rates);

}  // namespace tandem::search

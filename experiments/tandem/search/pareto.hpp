#pragma once
// Layouts of which none is better than another in step time, memory, cost and energy at once.

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/tandem/planning/request.hpp"
#include "experiments/tandem/search/search.hpp"

namespace tandem::search {

/// What an hour of a device costs and takes; nothing where it is not known.
struct Rates {
  std::optional<double> price;   ///< of a device hour
  std::string currency;          ///< empty for a price of the user's own
  std::optional<double> kilowatts;  ///< of a busy device with its share of host and building
  std::string no_price;          ///< why there is none
};

/// Of the devices of a space, by topology/budget and what the user says. Throws ConfigError.
Rates rates_of(const Space& space, const planning::PriceChoice& price);

/// A simulated step of one of several searches.
struct ParetoPoint {
  std::size_t search = 0;
  Simulated step;
  double cost = 0, energy_kwh = 0;   ///< of the step; 0 where they are no objective

  /// Step time, memory, cost, energy: less is better.
  std::array<double, 4> figures() const {
    return {static_cast<double>(step.time_ps), static_cast<double>(step.needed), cost, energy_kwh};
  }
};

struct ParetoFront {
  std::vector<ParetoPoint> points;   ///< fastest first
  std::vector<ParetoPoint> others;   ///< simulated and fitting, but no better than one of `points`
  std::vector<Answer> answers;       ///< by search
  std::vector<Rates> rates;          ///< by search
  bool cost = true, energy = true;   ///< objectives; false where a cluster's are not known
  bool complete = true;              ///< false: --events was reached in a search
};

/// Estimates the search's whole shard. Then simulates the front of the estimates, then the front of the remaining ones, until none of
/// them could be on the front. Returns the simulated steps, in an order that depends on the space alone, and whether none was left out.
/// Throws program::Interrupted.
struct FrontSearch {
  std::map<CandidateId, Simulated> simulated;
  bool complete = true;
};
FrontSearch explore_front(Search& search);

/// The front of several spaces, each searched.
ParetoFront pareto_front(const std::vector<Search*>& searches, std::vector<FrontSearch> searched, std::vector<Rates> rates);

}  // namespace tandem::search

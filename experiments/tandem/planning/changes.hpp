#pragma once
// The effect of changing one input on the budget: --what-if and --tornado.

#include <string>
#include <vector>

#include "experiments/tandem/planning/option.hpp"

namespace tandem::planning {

/// Makes changes of one option. Its arguments must outlive it.
class ChangeMaker {
 public:
  ChangeMaker(const Request& request, const Facts& facts, const Option& option)
      : request_(request), facts_(facts), option_(option) {}

  /// Changes a named input (see `change_names`) or plan fields (see `fields_of`) in all phases that do not set them. An impossible plan gets a refusal. Throws ConfigError,
  /// which names --what-if, if the name is unknown, the value is wrong, or the changed plan is none.
  Change change(const std::string& given, const std::string& value) const;

  /// Each input of the option at a low and a high value, sorted by their effect on money (else days), largest first.
  std::vector<Sensitivity> tornado() const;

 private:
  Change of_plan(const std::string& name, const std::string& value) const;
  /// Phases with changed conditions, whose budgets are not computed yet.
  Change with(const std::string& name, const std::string& value, std::vector<PricedPhase> phases) const;
  /// A changed plan of each phase.
  Change resimulated(const std::string& name, const std::string& value, const std::vector<CandidatePlan>& plans) const;
  Change with_network(const std::string& name, const std::string& value, double factor) const;
  Change with_fields(const Fields& fields) const;
  Change scaled(const std::string& name, double factor) const;
  Sensitivity sensitivity(const std::string& name, double low, double high) const;

  const Request& request_;
  const Facts& facts_;
  const Option& option_;
};

/// The fields and values of a change of several plan fields: ("parallel.schedule", "zb-h1,parallel.virtual_pipeline=1") has two. Throws
/// ConfigError, which names `flag`, for a field that is named twice.
Fields fields_of(const std::string& name, const std::string& value, const std::string& flag = "--what-if");

/// The clusters that --what-if names, in its order.
std::vector<std::string> changed_clusters(const Request& request);

/// The names that --what-if accepts besides plan fields, such as "network" or "price", with the meaning of their values.
std::vector<std::pair<std::string, std::string>> change_names();

}  // namespace tandem::planning

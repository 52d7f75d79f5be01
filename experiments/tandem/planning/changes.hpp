#pragma once
// What a change of one input does to a budget: --what-if and --tornado.

#include <string>
#include <vector>

#include "experiments/tandem/planning/option.hpp"

namespace tandem::planning {

/// Makes changes of one option. Everything that it is given must outlive it.
class ChangeMaker {
 public:
  ChangeMaker(const Request& request, const Facts& facts, const Option& option)
      : request_(request), facts_(facts), option_(option) {}

  /// A named change (see `change_names`), or a plan field with its new value. Throws ConfigError: unknown name, value that is no number
  /// above zero; a plan that cannot be or no longer fits.
  Change change(const std::string& name, const std::string& value) const;

  /// Every input that the option has at a low and a high value, the widest in money (else in days) first.
  std::vector<Sensitivity> tornado() const;

 private:
  Change with(const std::string& name, const std::string& value, const Conditions& conditions) const;
  Change resimulated(const std::string& name, const std::string& value, const CandidatePlan& plan) const;
  Change scaled(const std::string& name, double factor) const;
  Sensitivity sensitivity(const std::string& name, double low, double high) const;

  const Request& request_;
  const Facts& facts_;
  const Option& option_;
};

/// "network", "failures", "price", ...: names that --what-if takes beside plan fields, with what their value is.
std::vector<std::pair<std::string, std::string>> change_names();

}  // namespace tandem::planning

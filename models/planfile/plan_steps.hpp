#pragma once
// The steps from a parsed file to a valid Plan. Private to models/planfile/plan_*.cpp.

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "models/fields/plan_fields.hpp"
#include "models/plan/plan.hpp"

namespace tandem {

/// Fills every field that is not in `given`; needs the required ones.
void fill_defaults(Plan& plan, const Given& given);

/// Adds the problem if parallel.data or cluster.devices is left out and does not follow from the other. Exit code 4.
void check_derived_ranks(const Plan& plan, const Given& given, Problems& problems);

/// "field changes nothing: why" of every field in `given` that has no effect beside the others of the completed plan.
std::vector<std::string> ineffective_fields(const Plan& plan, const Given& given);

/// Adds the problems of a completed plan on any machine: values that contradict one another, sizes whose products
/// leave 64 bits. Exit code 3.
void check_values(const Plan& plan, Problems& problems);
void check_limits(const Plan& plan, Problems& problems);

/// Adds degrees and sizes that do not divide or do not match each other. Exit code 4.
void check_layout(const Plan& plan, Problems& problems);
void check_batch(const Plan& plan, Problems& problems);

/// Adds problems of a plan, each once. The printed value is the field's in the completed plan.
class Reporter {
 public:
  Reporter(const Plan& plan, Problems& problems) : plan_(plan), problems_(problems) {}
  void operator()(std::string_view field, std::string reason, std::string remedy) const;

 private:
  const Plan& plan_;
  Problems& problems_;
};

/// a x b x ... as text: "8 x 16 x 8 x 1".
std::string product_text(std::initializer_list<std::int64_t> factors);

/// Something other systems do and this one does not, and what would work.
struct UnsupportedFeature {
  std::string_view what, remedy;
};
/// By the key, or the family, that asks for it elsewhere; nullptr when it is no such name.
const UnsupportedFeature* unsupported_feature(std::string_view name);

}  // namespace tandem

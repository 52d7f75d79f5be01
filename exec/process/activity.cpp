#include "exec/process/activity.hpp"

#include "models/base/error.hpp"

namespace tandem::exec {

std::string_view name(Activity activity) {
  switch (activity) {
    case Activity::start: return "start";
    case Activity::training: return "training";
    case Activity::evaluation: return "evaluation";
    case Activity::saving: return "saving";
  }
  throw ContractError("unknown activity");
}

}  // namespace tandem::exec

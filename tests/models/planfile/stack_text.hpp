#pragma once
// Plans under a stack, of a month, on a device.

#include <string>

#include "models/plan/plan.hpp"
#include "tests/models/planfile/plan_text.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::test {

inline Plan read(const std::string& text) { return parse_plan(text, "plan.json"); }
inline Plan of(const std::string& stack, const std::string& month = "", const std::string& text = kGoodPlan) {
  return read(under(stack, month, text));
}
inline std::string on(const std::string& preset, const std::string& text = kGoodPlan) { return bent("\"dgx-a100-80gb\"", "\"" + preset + "\"", text); }

inline const std::string kData = bent("\"tensor\": 2, \"pipeline\": 2, \"data\": 2", "\"data\": 8");
inline const std::string kUnnamed = bent(" \"stack\": \"tandem\",", "");
inline const std::string kInterleaved = with("parallel", "\"schedule\": \"interleaved\"");

}  // namespace tandem::test

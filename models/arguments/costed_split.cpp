#include "models/arguments/costed_split.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/base/error.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;

/// A whole number from 1 to `most`. The product of any three stays below 2^63.
std::int64_t counted(const json& v, const char* what, std::int64_t most) {
  if (v.is_number_integer() && v.get<std::int64_t>() >= 1 && v.get<std::int64_t>() <= most) return v.get<std::int64_t>();
  throw ConfigError(Problem{"", "", value_text(v), std::string(what) + " must be a whole number from 1 to " + std::to_string(most), "give one"});
}

}  // namespace

json costed_split(const json& all, const json& of, const json& layer, const json& head) {
  const std::int64_t layers = counted(all, "layers", 10'000), stages = counted(of, "stages", 10'000);
  const std::int64_t each = counted(layer, "a layer's cost", 1'000'000'000), last = counted(head, "the head's cost", 1'000'000'000);
  const std::int64_t total = layers * each + last;
  std::vector<std::int64_t> out(static_cast<std::size_t>(stages));
  std::size_t stage = 0;
  for (std::int64_t placed = 1; placed <= layers; ++placed) {
    ++out[stage];
    const bool full = placed * each * stages > total * static_cast<std::int64_t>(stage + 1);
    if (full && stage + 1 < out.size()) ++stage;
  }
  return out;
}

}  // namespace tandem::arguments

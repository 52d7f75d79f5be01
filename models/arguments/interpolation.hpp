#pragma once
// OmegaConf's interpolations: `${model.hidden_size}`, `${.hidden_size}`, `${multiply:4,${.hidden_size}}`.

#include <string>
#include <vector>

#include "models/base/json.hpp"

namespace tandem::arguments {

/// Replaces the interpolations of a document by what they stand for: other values, and products, sums and quotients of them
/// (multiply, sum, divide_floor, divide_ceil). `mounted`: the name under which a launcher keeps the whole document, which absolute
/// paths may begin with. What stands for nothing here, such as a launcher's own folders, stays as it is written.
void resolve_interpolations(nlohmann::json& document, const std::string& mounted);

/// Whether a value is still to be filled in: an interpolation, or `???`.
bool is_open(const nlohmann::json& value);

}  // namespace tandem::arguments

#pragma once
// Expressions of the tables of model types: "hidden / heads", "$head_dim ?? hidden / heads", "gated ? 'swiglu' : 'gelu'".

#include <string>
#include <string_view>
#include <vector>

#include "models/base/json.hpp"

namespace tandem::huggingface {

/// What an expression asks its surroundings for.
class Names {
 public:
  virtual ~Names() = default;
  /// A field of the configuration, dotted: `$rope_scaling.type`. Null where there is none.
  virtual nlohmann::json field(const std::string& path) = 0;
  /// A fact of the table: a name without a dollar sign. Throws ConfigError where the table has none.
  virtual nlohmann::json fact(const std::string& name) = 0;
  /// A function of the surroundings' own: keys_in(window). Throws ConfigError where there is none.
  virtual nlohmann::json call(const std::string& name, const std::vector<nlohmann::json>& arguments) = 0;
};

/// The value of an expression. Whole numbers stay exact; a quotient that is not whole becomes a double. Operators, weakest first:
/// `a ? b : c`, `a ?? b` (b where a is null), `or`, `and`, `== != < <= > >=`, `+ -`, `* /`, `not -`. Branches that are not taken are
/// not evaluated. Throws ConfigError where the text cannot be read, a value has the wrong kind, or a number grows beyond 64 bits.
nlohmann::json evaluate(std::string_view text, Names& names);

}  // namespace tandem::huggingface

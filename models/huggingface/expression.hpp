#pragma once
// Expressions of the tables of model types: "hidden / heads", "$head_dim ?? hidden / heads", "gated ? 'swiglu' : 'gelu'".

#include <string>
#include <string_view>
#include <vector>

#include "models/base/json.hpp"

namespace tandem::huggingface {

/// Values and functions that an expression reads.
class Names {
 public:
  virtual ~Names() = default;
  /// A field of the configuration by dotted path: `$rope_scaling.type`. Null if it does not exist.
  virtual nlohmann::json field(const std::string& path) = 0;
  /// A fact of the table: a name without a dollar sign. Throws ConfigError if the table has none of this name.
  virtual nlohmann::json fact(const std::string& name) = 0;
  /// A function defined by the environment: keys_in(window). Throws ConfigError if there is none of this name.
  virtual nlohmann::json call(const std::string& name, const std::vector<nlohmann::json>& arguments) = 0;
};

/// The value of an expression. Integers stay exact; a quotient that is not an integer becomes a double. Operators, weakest
/// first: `a ? b : c`, `a ?? b` (b if a is null), `or`, `and`, `== != < <= > >=`, `+ -`, `* /`, `not -`. Branches not
/// taken are not evaluated. Throws ConfigError for a syntax error, a value of the wrong kind, or a number beyond 64 bits.
nlohmann::json evaluate(std::string_view text, Names& names);

}  // namespace tandem::huggingface

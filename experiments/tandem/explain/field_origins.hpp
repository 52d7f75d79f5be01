#pragma once
// Where the value of a plan's field comes from: the file, a preset that it names, a rule of the stack, or a default.

#include <map>
#include <string>

#include "experiments/tandem/explain/derived_ranks.hpp"
#include "models/fields/plan_fields.hpp"
#include "models/plan/plan.hpp"

namespace tandem::program {

/// What a plan file says, and what its presets say.
struct FieldOrigins {
  Given own;    ///< fields that the file itself gives
  Given given;  ///< those, and the fields of its presets
  std::map<std::string, std::string> presets;  ///< of each part that names one ("model"): the preset
  std::string stack;                           ///< that --stack names; or empty
  DerivedRanks derived;
};

/// Reads a plan file's text again. `plan`: what it was parsed to. `stack`: see --stack. Throws as read_draft() does.
FieldOrigins field_origins(const std::string& text, const Plan& plan, const std::string& stack);

/// Whether the value of a field is the parser's default: neither file, preset, stack nor other ranks gave it.
bool is_default(const Plan& plan, const FieldOrigins& origins, const std::string& field);

/// What a value of a field means where its number does not tell: "all gradients at once". Else "".
std::string meaning(const std::string& field, const nlohmann::json& value);

/// "from plan.json", "from the preset llama3-70b, which plan.json names", ... An object's fields may come from any of them.
std::string origin_text(const Plan& plan, const FieldOrigins& origins, const std::string& path);

}  // namespace tandem::program

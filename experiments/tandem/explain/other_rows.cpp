#include <nlohmann/json.hpp>

#include "experiments/tandem/explain/rows.hpp"
#include "models/base/json.hpp"
#include "models/plan/active_parameters.hpp"
#include "reports/prediction/plan_title.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

using nlohmann::json;

Row coordinate(const std::string& name, Axis axis, const std::string& what) {
  return {"coords." + name, "place of the role's first rank on the " + what + " axis",
          [axis](const ExplainedCase& c, std::size_t role) {
            const RolePrediction& r = c.prediction.roles[role];
            return "rank " + std::to_string(r.ranks.front()) + ": " + std::to_string(r.coords[axis]) + ", ranks laid out as " +
                   c.plan.parallel.rank_order;
          },
          RangeKind::exact, {}};
}

std::string count_of_roles(const ExplainedCase& c, std::size_t) {
  return count_text(c.prediction.ranks) + " ranks in " + std::to_string(c.prediction.roles.size()) + " roles";
}

std::string product(const ExplainedCase& c, std::size_t) {
  const ParallelSpec& p = c.plan.parallel;
  return std::to_string(p.tensor) + " x " + std::to_string(p.pipeline) + " x " + std::to_string(p.data) + " x " + std::to_string(p.context);
}

/// The schema of a field, or null: fields may lie in a part that is described as "one of several".
const json* field_schema(const json& schema, const std::string& path) {
  const json* at = &schema;
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t dot = std::min(path.find('.', from), path.size());
    if (!at->contains("properties") || !at->at("properties").contains(path.substr(from, dot - from))) return nullptr;
    at = &at->at("properties").at(path.substr(from, dot - from));
    from = dot + 1;
  }
  return at;
}

}  // namespace

std::vector<Row> other_rows() {
  return {
      {"schema_version", "version of these keys; it changes when one of them changes its meaning",
       [](const ExplainedCase&, std::size_t) { return std::string("1"); }, RangeKind::exact, {}},
      {"ranks", "parallel.tensor x parallel.pipeline x parallel.data x parallel.context", product, RangeKind::exact, {}},
      {"active_parameters", "all parameters except those of MTP modules and of routed experts that a token does not visit",
       [](const ExplainedCase& c, std::size_t) {
         const MoeSpec& moe = c.plan.model.moe;
         const ParameterCount count = count_parameters(c.plan.model, c.plan.model.vocab_size);
         return std::to_string(moe.experts_per_token) + " of " + std::to_string(moe.num_experts) + " routed experts; " +
                count_text(count.total) + " parameters, " + count_text(count.mtp) + " of MTP modules; " +
                count_text(active_parameters(c.plan.model) - count.embedding) + " active without the embedding";
       },
       RangeKind::exact, {}},
      {"trained_parameters", "parameters of all adapters: rank x (rows + columns) of each matrix that has one",
       [](const ExplainedCase& c, std::size_t) {
         const AdapterSpec& lora = c.plan.training.lora;
         std::string targets;
         for (const std::string& t : lora.targets) targets += (targets.empty() ? "" : ", ") + t;
         return "rank " + std::to_string(lora.rank) + "; matrices " + targets + "; " + std::to_string(c.plan.model.num_layers) +
                " layers";
       },
       RangeKind::exact, {}},
      {"roles", "classes of ranks with the same program, neighbours and links, in order of their first rank", count_of_roles, RangeKind::exact, {}},
      {"roles[]", "one class of ranks with the same program, neighbours and links", count_of_roles, RangeKind::exact, {}},
      {"coords", "place of the role's first rank on each axis of the mesh",
       [](const ExplainedCase& c, std::size_t) { return "ranks laid out as " + c.plan.parallel.rank_order + ", fastest first"; },
       RangeKind::exact, {}},
      {"notes", "what a reader of this prediction should know",
       [](const ExplainedCase& c, std::size_t) { return std::to_string(c.prediction.notes.size()) + " notes"; }, RangeKind::exact, {}},
      {"notes[]", "one thing that a reader of this prediction should know",
       [](const ExplainedCase& c, std::size_t place) { return c.prediction.notes.at(place); }, RangeKind::exact, {}},
      {"roles[].ranks", "number of ranks of the role",
       [](const ExplainedCase& c, std::size_t role) {
         return std::to_string(c.prediction.roles[role].ranks.size()) + " of " + count_text(c.prediction.ranks);
       },
       RangeKind::exact, {}},
      {"first_rank", "lowest rank of the role, which is simulated for all of them",
       [](const ExplainedCase& c, std::size_t role) { return std::to_string(c.prediction.roles[role].ranks.front()); },
       RangeKind::exact, {}},
      coordinate("tp", Axis::tp, "tensor"),
      coordinate("cp", Axis::cp, "context"),
      coordinate("ep", Axis::ep, "expert"),
      coordinate("dp", Axis::dp, "data"),
      coordinate("pp", Axis::pp, "pipeline"),
  };
}

Explanation explain_plan_field(const ExplainedCase& c, const std::string& key) {
  const std::string path = key == "plan" ? "" : key.substr(std::string("plan.").size());
  const json schema = json::parse(plan_json_schema());
  const json* field = path.empty() ? nullptr : field_schema(schema, path);
  Explanation out;
  out.formula = field && field->contains("description") ? field->at("description").get<std::string>() : "part of the completed plan, with every default filled in";
  if (field && field->contains("default")) out.formula += " Default: " + field->at("default").dump() + ".";
  out.filled = "from " + c.plan.file + ", its presets or the default";
  for (const StackDefault& d : c.plan.stack.facts.defaults)
    if (d.field == path) out.filled = "from the rule of " + stack_text(c.plan) + ": " + d.source;
  if (!path.empty() && c.derived.field == path) out.filled = "left out, so derived: " + c.derived.from;
  out.range = "exact: an input";
  return out;
}

}  // namespace tandem::program

#include "experiments/tandem/explain/rows.hpp"
#include "models/plan/active_parameters.hpp"
#include "reports/prediction/plan_title.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

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

}  // namespace tandem::program

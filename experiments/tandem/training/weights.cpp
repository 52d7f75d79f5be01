#include "experiments/tandem/training/weights.hpp"

#include <algorithm>

#include "exec/weights/joined_state.hpp"
#include "exec/weights/pretrained.hpp"
#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/export/adapter_import.hpp"
#include "experiments/tandem/export/hub_model.hpp"
#include "models/base/files.hpp"
#include "models/base/text.hpp"
#include "models/plan/mesh.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {
namespace {

/// The layouts of all ranks, without memory.
std::vector<exec::RankState> layouts(const Plan& plan, const TaskGraph& graph) {
  const Mesh mesh = make_mesh(plan);
  std::vector<exec::RankState> all;
  for (std::int64_t r = 0; r < mesh.world_size(); ++r) {
    const Rank rank(static_cast<std::int32_t>(r));
    all.push_back(exec::rank_state(graph.program(StageId(mesh.coords(rank)[Axis::pp])), mesh, rank, nullptr));
  }
  return all;
}

/// Names of the parameters that the state lacks.
std::string names_of_lacking(const std::vector<huggingface::WholeParameter>& parameters, const exec::SavedState& state) {
  std::vector<std::string> names;
  for (const huggingface::WholeParameter& p : parameters) {
    const auto is = [&](const exec::SavedTensor& t) { return t.name == p.name; };
    if (std::none_of(state.tensors().begin(), state.tensors().end(), is)) names.push_back(p.name);
  }
  return names.empty() ? "" : list_text(names);
}

}  // namespace

std::unique_ptr<exec::SavedState> open_weights(const Beginning& from, const Plan& plan, const TaskGraph& graph) {
  const std::string& path = from.weights;
  if (path.empty()) return nullptr;
  exec::WeightFiles files(path);
  const std::string config = files.folder() + "/config.json";
  const HubModel model = is_regular_file(config) ? hub_model_of_config(plan, config) : hub_model_of_plan(plan);
  const std::size_t tensors = files.tensors().size();
  const std::uint64_t bytes = files.bytes();
  const std::vector<exec::RankState> ranks = layouts(plan, graph);
  const auto parameters = exec::whole_parameters(ranks, plan);
  auto rows = naming(plan.file, [&] { return huggingface::rows_in_files(model.table, plan.model, parameters); });
  auto state = exec::open_pretrained(std::move(files), model.table, std::move(rows));
  log(path + ": " + from.told + " these weights: type " + model.table.type + ", " +
      count_text(static_cast<std::int64_t>(tensors)) + " tensors, " + bytes_text(static_cast<std::int64_t>(bytes)));
  for (const std::string& told : model.told) log(path + ": " + told);
  if (const std::string drawn = names_of_lacking(parameters, *state); !drawn.empty())
    log(path + ": has no weights of " + drawn + ": they begin with the plan's initial values");
  if (from.adapter.empty()) return state;
  auto adapter = open_adapters({from.adapter, plan, model.table, exec::whole_adapters(ranks, plan)});
  log(from.adapter + ": " + from.told + " these adapters, " + count_text(static_cast<std::int64_t>(adapter->tensors().size())) + " matrices");
  return exec::join_states(std::move(state), std::move(adapter));
}

}  // namespace tandem::program

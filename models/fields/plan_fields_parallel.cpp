#include <nlohmann/json.hpp>

#include "models/fields/plan_field_makers.hpp"
#include "models/plan/balanced_split.hpp"

#define AT(member) ([](auto& p) -> auto& { return p.member; })

namespace tandem {
namespace {

/// "auto", read as 0, is the same as leaving the field out.
PlanField data_ranks() {
  constexpr IntRange range{1, kMaxDegree};
  PlanField f{"parallel.data",
              "Replicas that share the batch.",
              "auto: cluster.devices (x ranks_per_device) / (tensor x pipeline x context)",
              false,
              {},
              {},
              [range] { return nlohmann::json{{"anyOf", {{{"const", "auto"}}, schema_of(range)}}}; }};
  f.read = [range](const nlohmann::json& v, Plan& p) -> std::optional<Refusal> {
    if (v == "auto") return p.parallel.data = 0, std::nullopt;
    return read_value(v, range, p.parallel.data);
  };
  f.write = [](const Plan& p) { return nlohmann::json(p.parallel.data); };
  return f;
}

std::vector<PlanField> axis_fields() {
  return {
      integer({"parallel.tensor", "Ranks that share every matrix."}, AT(parallel.tensor), {1, kMaxDegree}),
      integer({"parallel.pipeline", "Stages that share the layers."}, AT(parallel.pipeline), {1, kMaxDegree}),
      data_ranks(),
      integer({"parallel.context", "Ranks that share every sequence."}, AT(parallel.context), {1, kMaxDegree}),
      integer({"parallel.expert", "Ranks that share the experts; divides data x context x tensor."},
              AT(parallel.expert), {1, kMaxDegree}),
      integer({"parallel.expert_tensor",
               "Ranks that share the matrices of the same experts; with expert, divides data x context x tensor."},
              AT(parallel.expert_tensor), {1, kMaxDegree})
          .otherwise("tensor, or as much of it as parallel.expert leaves"),
      integer({"parallel.virtual_pipeline", "Chunks of layers that a stage holds."}, AT(parallel.virtual_pipeline),
              {1, kMaxLayers})
          .otherwise("1; interleaved, breadth-first: layers / pipeline; dualpipe-v, zb-v, v-half, v-min: 2"),
      choice({"parallel.schedule",
              "Order of forward and backward passes in the pipeline. DualPipe over n stages is dualpipe-v with pipeline n / 2 and twice the "
              "data ranks: step and memory are the same."},
             AT(parallel.schedule)),
  };
}

PlanField pipeline_split() {
  constexpr IntRange range{0, kMaxLayers};
  PlanField f{"parallel.pipeline_split", "Layers of every stage. auto: the split of the framework. balanced: even by FLOPs, where the stack has an option for it. The first stage may have 0 (the embedding alone), and the last one (the head alone).", "auto", false, {}, {}, [range] {
                const nlohmann::json list{{"type", "array"}, {"minItems", 1}, {"items", schema_of(range)}};
                return nlohmann::json{{"anyOf", {{{"enum", {"auto", "balanced"}}}, list}}};
              }};
  f.read = [range](const nlohmann::json& v, Plan& p) { return read_split(v, range, p.parallel.pipeline_split); };
  f.write = [](const Plan& p) {
    const auto& split = p.parallel.pipeline_split;
    if (asks_balance(p.parallel)) return nlohmann::json("balanced");
    return split.empty() ? nlohmann::json("auto") : nlohmann::json(split);
  };
  return f;
}

PlanField rank_order() {
  PlanField f{"parallel.rank_order", "Axes of the mesh, fastest first. The place of ep changes nothing: expert ranks divide those of a stage, tp fastest, then cp, then dp.", {}, false, {}, {}, [] {
                return nlohmann::json{{"type", "string"}, {"pattern", "^(tp|cp|ep|dp|pp)(-(tp|cp|ep|dp|pp)){4}$"}};
              }};
  f.read = [](const nlohmann::json& v, Plan& p) { return read_rank_order(v, p.parallel.rank_order); };
  f.write = [](const Plan& p) { return nlohmann::json(p.parallel.rank_order); };
  return f;
}

/// Printed only where some are, so that other plans read as if there were none.
PlanField offloaded_activations() {
  PlanField f{"parallel.offload.activations",
              "Tensors kept for the backward pass that wait in host memory: all, or what modules read; with recompute full a layer's input is all.",
              "[]",
              false,
              {},
              {},
              [] {
                return nlohmann::json{{"type", "array"}, {"uniqueItems", true}, {"items", schema_of_choice(kOffloadedActivations)}};
              }};
  f.read = [](const nlohmann::json& v, Plan& p) { return read_choices(v, kOffloadedActivations, p.parallel.offload.activations); };
  f.write = [](const Plan& p) {
    const std::vector<std::string>& tensors = p.parallel.offload.activations;
    return tensors.empty() ? nlohmann::json() : nlohmann::json(tensors);
  };
  return f;
}

std::vector<PlanField> sharding_fields() {
  return {
      flag({"parallel.sequence_parallel", "Tensor ranks also share the sequence outside matrix products."},
           AT(parallel.sequence_parallel)),
      choice({"parallel.context_mode", "How attention crosses the context ranks."}, AT(parallel.context_mode)),
      unless(1, integer({"parallel.ulysses",
                         "Neighbouring context ranks that exchange heads for positions; context_mode ring or all_gather joins such groups."},
                        AT(parallel.ulysses), {1, kMaxDegree})),
      integer({"parallel.zero_stage", "What data ranks shard: 1 optimizer states, 2 also gradients, 3 also weights."},
              AT(parallel.zero_stage), {0, 3}),
      integer({"parallel.zero_group", "Data ranks of one sharding group, replicated across groups; 0 is all."},
              AT(parallel.zero_group), {0, kMaxDegree}),
      choice({"parallel.optimizer_sync", "Whether the update waits for the global norm (global) or checks it afterwards, so that steps overlap (post_validated)."},
             AT(parallel.optimizer_sync)),
      flag({"parallel.overlap_grad_reduce", "Gradients are reduced while the backward pass runs; default: the stack's."},
           AT(parallel.overlap_grad_reduce)),
      flag({"parallel.overlap_param_gather", "Weights are gathered while the forward pass runs."},
           AT(parallel.overlap_param_gather)),
      flag({"parallel.tensor_overlap", "Tensor-parallel collectives overlap with matrix products."},
           AT(parallel.tensor_overlap)),
      flag({"parallel.overlap_tensor_sum",
            "An input's gradient is summed over tensor ranks while its matrix' gradient is computed; default: the stack's."},
           AT(parallel.overlap_tensor_sum)),
      flag({"parallel.overlap_p2p", "Stages compute while they send; default: the stack's."}, AT(parallel.overlap_p2p)),
      flag({"parallel.overlap_experts",
            "Rows of experts travel for one micro-batch while another computes: a forward and a backward pass at once, layer by layer."},
           AT(parallel.overlap_experts)),
      choice({"parallel.token_dispatcher",
              "How tokens reach the ranks of their experts: a row for each expert (alltoall), once to each rank and once between two "
              "nodes (deepep), or every token to every rank (allgather)."},
             AT(parallel.token_dispatcher)),
      flag({"parallel.scatter_gather_tensors_in_pipeline",
            "Each tensor rank sends its share of the activations to the next stage, which gathers them; default: the stack's."},
           AT(parallel.scatter_p2p)),
      size({"parallel.bucket_bytes", "Gradients that are reduced together; default: the stack's."}, AT(parallel.bucket_bytes),
           {1, std::int64_t{1} << 50}),
      integer({"parallel.prefetch_layers", "Layers whose weights are gathered ahead; zero_stage 3."},
              AT(parallel.prefetch_layers), {0, kMaxLayers}),
      integer({"parallel.reuse_distance",
               "Weights that are read again within this many parameters stay gathered, zero_stage 3; default: the stack's."},
              AT(parallel.reuse_distance), {0, kMaxParameters}),
      choice({"parallel.fsdp_copies",
              "What FSDP copies around its collectives, zero_stage 3: flat is FSDP1's flat parameters, per_parameter FSDP2's; default: the stack's."},
             AT(parallel.unit_copies)),
      unless_true(flag({"parallel.reduce_scatter", "Each rank gets its share of summed gradients; false: all of them. zero_stage 1 and 2."},
                       AT(parallel.reduce_scatter))),
      flag({"parallel.root_unit",
            "Embedding, last norm and output matrix are one unit that stays gathered in both passes, zero_stage 3; default: the stack's."},
           AT(parallel.root_unit)),
      pipeline_split(),
      rank_order(),
      flag({"parallel.offload.optimizer", "Optimizer states are kept in host memory."}, AT(parallel.offload.optimizer)),
      flag({"parallel.offload.parameters", "Weights are kept in host memory."}, AT(parallel.offload.parameters)),
      number({"parallel.offload.ratio", "Share of optimizer states that is offloaded."}, AT(parallel.offload.ratio), {0, 1}),
      offloaded_activations(),
      unless(0, integer({"parallel.offload.layers", "First layers of a stage whose activations are offloaded; 0 is all."},
                        AT(parallel.offload.layers), {0, kMaxLayers})),
  };
}

}  // namespace

std::vector<PlanField> parallel_fields() {
  std::vector<PlanField> all{
      directive({"parallel.preset", "A preset of models/presets/parallel that the other fields override."}),
      text({"parallel.name", "For people."}, AT(parallel.name)),
      text({"parallel.notes", "For people."}, AT(parallel.notes)),
  };
  for (PlanField& f : axis_fields()) all.push_back(std::move(f));
  for (PlanField& f : sharding_fields()) all.push_back(std::move(f));
  return all;
}

}  // namespace tandem

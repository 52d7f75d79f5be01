#include "models/fields/plan_fields.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "models/fields/plan_field_makers.hpp"
#include "models/fields/plan_names.hpp"

#define AT(member) ([](auto& p) -> auto& { return p.member; })

namespace tandem {
namespace {

/// Fields by older names, which are still read.
constexpr std::array kRenamed{Renamed{"parallel.scatter_p2p", "parallel.scatter_gather_tensors_in_pipeline"},
                              Renamed{"parallel.unit_copies", "parallel.fsdp_copies"},
                              Renamed{"training.recompute_products", "training.recompute_every_second_matmul"}};

constexpr NumberRange kOversubscription{1, 1e6};
constexpr NumberRange kWatts{1, 1e5};
constexpr IntRange kPerNode{1, kMaxDegree};
constexpr IntRange kThreads{1, 1024};
constexpr IntRange kDeviceMemory{1 << 20, std::int64_t{1} << 50};

std::vector<PlanField> build_table() {
  std::vector<PlanField> all = top_fields();
  for (const auto& part : {model_fields, parallel_fields, training_fields, cluster_fields, perturbation_fields}) {
    for (PlanField& f : part()) all.push_back(std::move(f));
  }
  return all;
}

auto read_bandwidth = [](const nlohmann::json& v, Bandwidth& out) { return read_value(v, out); };
auto read_memory = [](const nlohmann::json& v, Bytes& out) { return read_value(v, kDeviceMemory, out); };
auto read_oversubscription = [](const nlohmann::json& v, double& out) { return read_value(v, kOversubscription, out); };
auto read_watts = [](const nlohmann::json& v, double& out) { return read_value(v, kWatts, out); };
auto read_algorithm = [](const nlohmann::json& v, Algorithm& out) {
  std::size_t index = 0;
  std::optional<Refusal> refused = read_choice(v, Spelling<Algorithm>::names, index);
  if (!refused) out = static_cast<Algorithm>(index);
  return refused;
};
auto read_per_node = [](const nlohmann::json& v, std::int64_t& out) { return read_value(v, kPerNode, out); };

template <class Get>
PlanField algorithm(Place place, Get get) {
  PlanField f =
      maybe<Algorithm>(std::move(place), get, read_algorithm, [] { return schema_of_choice(Spelling<Algorithm>::names); });
  f.fallback = "the library's";
  f.write = [get](const Plan& p) { return get(p) ? nlohmann::json(std::string(name(*get(p)))) : nlohmann::json(); };
  return f;
}

/// Left out of the output where NCCL may choose.
PlanField nccl_algo() {
  PlanField f = word({"cluster.override.nccl_algo",
                      "NCCL_ALGO: rings alone, or all but reductions in switches; default: the stack's."},
                     AT(cluster.override.nccl_algo), kNcclAlgorithms);
  f.fallback = "NCCL's choice";
  f.write = [](const Plan& p) {
    const std::string& algo = p.cluster.override.nccl_algo;
    return algo.empty() ? nlohmann::json() : nlohmann::json(algo);
  };
  return f;
}

PlanField stack_month() {
  PlanField f{"stack.as_of", "Month of the framework's code, \"2024-07\": its defaults and rules are those of that month.",
              "the newest code that the stack's file was read from", false, {}, {}, [] {
                return nlohmann::json{{"type", "string"}, {"pattern", "^(199[0-9]|2[0-9]{3})-(0[1-9]|1[0-2])$"}};
              }};
  f.read = [](const nlohmann::json& v, Plan& p) -> std::optional<Refusal> {
    const auto month = v.is_string() ? parse_month(v.get<std::string>()) : std::nullopt;
    if (!month) return Refusal{"is no month", "write it as \"2024-07\""};
    p.stack.as_of = *month;
    return std::nullopt;
  };
  f.write = [](const Plan& p) { return p.stack.as_of.said() ? nlohmann::json(text_of(p.stack.as_of)) : nlohmann::json(); };
  return f;
}

PlanField stack_rules() {
  static constexpr std::array<std::string_view, 2> kNames{"note", "refuse"};
  PlanField f{"stack.rules", "Whether a plan that the framework cannot run is refused, or simulated with a note.",
              "refuse where the plan names the stack, else note", false, {}, {}, [] { return schema_of_choice(kNames); }};
  f.read = [](const nlohmann::json& v, Plan& p) {
    std::size_t index = 0;
    std::optional<Refusal> refused = read_choice(v, kNames, index);
    if (!refused) p.stack.refuses = index == 1;
    return refused;
  };
  f.write = [](const Plan& p) { return nlohmann::json(std::string(kNames[p.stack.refuses ? 1 : 0])); };
  return f;
}

}  // namespace

std::vector<PlanField> top_fields() {
  return {
      directive({"$schema", "For editors."}),
      text({"name", "For people."}, AT(name)),
      text({"notes", "For people."}, AT(notes)),
      text({"stack.name", "Framework to imitate: a file of models/stacks."}, AT(stack.name))
          .otherwise("the framework most used on the device"),
      stack_month(),
      stack_rules(),
  };
}

std::vector<PlanField> cluster_fields() {
  return {
      text({"cluster.name", "For people."}, AT(cluster.name)),
      text({"cluster.notes", "For people."}, AT(cluster.notes)),
      text({"cluster.preset", "A machine of topology/presets, or the path of such a file."}, AT(cluster.preset)).must(),
      integer({"cluster.devices", "Devices the plan uses. On Trainium a device is a NeuronCore, not a chip."}, AT(cluster.devices), {1, kMaxDevices})
          .otherwise("tensor x pipeline x data x context (/ ranks_per_device) where parallel.data is given, else required")
          .must(),
      integer({"cluster.threads_per_rank", "Threads with which a rank on processors computes; a device is then that many processors."},
              AT(cluster.threads_per_rank), kThreads),
      maybe<Bandwidth>({"cluster.override.scale_out_per_node", "Bandwidth of a node to the network, one direction."},
                       AT(cluster.override.scale_out_per_node), read_bandwidth, schema_of_bandwidth),
      maybe<Bandwidth>(
          {"cluster.override.scale_up_per_device", "Bandwidth of a device inside its node, one direction."},
          AT(cluster.override.scale_up_per_device), read_bandwidth, schema_of_bandwidth),
      maybe<Bytes>({"cluster.override.memory_bytes", "Memory of a device, as built; the driver reserves as many bytes of it as in the preset."},
                   AT(cluster.override.memory_bytes), read_memory, [] { return schema_of_size(kDeviceMemory); }),
      maybe<Bandwidth>({"cluster.override.memory_bytes_per_s", "Bandwidth of a device's memory."},
                       AT(cluster.override.memory_bytes_per_s), read_bandwidth, schema_of_bandwidth),
      maybe<double>({"cluster.override.power_limit_watts", "Power limit of a device. It lowers the clock, and so the rate of arithmetic."},
                    AT(cluster.override.power_limit_watts), read_watts, [] { return schema_of(kWatts); })
          .otherwise("the rated power"),
      maybe<Bandwidth>({"cluster.override.host_link_bytes_per_s", "Bandwidth between a device and its host's memory and NICs, each way."},
                       AT(cluster.override.host_link_bytes_per_s), read_bandwidth, schema_of_bandwidth),
      maybe<double>({"cluster.override.oversubscription", "Bandwidth of the network's edge / bandwidth of its core."},
                    AT(cluster.override.oversubscription), read_oversubscription,
                    [] { return schema_of(kOversubscription); }),
      maybe<std::int64_t>({"cluster.override.devices_per_node", "Devices of each node that the job gets, with their part of its NICs."},
                          AT(cluster.override.devices_per_node), read_per_node, [] { return schema_of(kPerNode); }),
      algorithm({"cluster.override.algorithms.all_reduce", 
                 "Algorithm of every all-reduce, instead of the library's choice, by the links' own times. two_way_ring: two rings in "
                 "opposite directions. direct: every rank sends to all others at once. tree: recursive doubling without pipelining, "
                 "which is not NCCL's tree (for NCCL's own choice see nccl_algo). hierarchical: inside the nodes, across them by one "
                 "ring per rail, inside again. halving_doubling: Rabenseifner's scatter and gather. multi_ring: as many rings through all "
                 "ranks as the smallest node has ranks."},
                AT(cluster.override.algorithms.all_reduce)),
      algorithm({"cluster.override.algorithms.all_gather", "Algorithm of every all-gather; as for all_reduce."}, AT(cluster.override.algorithms.all_gather)),
      algorithm({"cluster.override.algorithms.reduce_scatter", "Algorithm of every reduce-scatter; as for all_reduce."},
                AT(cluster.override.algorithms.reduce_scatter)),
      algorithm({"cluster.override.algorithms.all_to_all", "Algorithm of every all-to-all; as for all_reduce, but halving_doubling sends by pairs."}, AT(cluster.override.algorithms.all_to_all)),
      nccl_algo(),
      integer({"cluster.override.ranks_per_device", "Ranks that share a device."}, AT(cluster.ranks_per_device),
              kPerNode),
  };
}

const std::vector<PlanField>& plan_fields() {
  static const std::vector<PlanField> table = build_table();
  return table;
}

const PlanField* find_field(std::string_view path) {
  static const std::unordered_map<std::string_view, const PlanField*> by_path = [] {
    std::unordered_map<std::string_view, const PlanField*> out;
    for (const PlanField& f : plan_fields()) out.emplace(f.path, &f);
    for (const Renamed& r : kRenamed) out.emplace(r.older, out.at(r.name));
    return out;
  }();
  const auto found = by_path.find(path);
  return found == by_path.end() ? nullptr : found->second;
}

std::vector<std::string> keys_below(std::string_view prefix) {
  const std::string start = prefix.empty() ? std::string() : std::string(prefix) + ".";
  std::vector<std::string> keys;
  for (const PlanField& f : plan_fields()) {
    if (!f.path.starts_with(start)) continue;
    const std::string rest = f.path.substr(start.size());
    const std::string key = rest.substr(0, rest.find('.'));
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

}  // namespace tandem

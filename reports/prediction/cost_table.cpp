#include "reports/prediction/cost_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "models/base/files.hpp"
#include "models/base/json.hpp"
#include "models/base/output.hpp"
#include "models/ops/collective.hpp"
#include "reports/prediction/op_fields.hpp"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

// ---- fields as text ----

constexpr std::string_view kPointwise[] = {"gelu_tanh", "relu", "squared_relu", "tanh"};
constexpr std::string_view kProductActivations[] = {"none", "gelu", "gelu_gradient"};
constexpr std::string_view kGates[] = {"silu", "gelu_tanh", "clamped_silu"};
constexpr std::string_view kSites[] = {"embedding", "attention", "attention_output",
                                       "mlp_output", "cross_attention", "cross_attention_output",
                                       "lora_qkv", "lora_proj", "lora_fc1", "lora_fc2", "lora_experts_fc1", "lora_experts_fc2",
                                       "lora_q", "lora_k", "lora_v", "lora_gate", "lora_up"};
constexpr std::string_view kAttentionKernels[] = {"flash1", "triton", "flash2", "tuned", "own"};
constexpr std::string_view kShares[] = {"whole", "queries", "heads"};
constexpr std::string_view kRopeScalings[] = {"none", "linear", "llama3", "yarn"};
constexpr std::string_view kRecurrenceRules[] = {"gated_delta", "mamba2"};
constexpr std::string_view kLayerwise[] = {"lamb", "lans"};
constexpr std::string_view kReduce[] = {"sum", "max"};
constexpr std::string_view kNormParts[] = {"whole", "input", "parameters"};
constexpr std::string_view kGateParts[] = {"whole", "activation", "product"};
constexpr std::string_view kElementwise[] = {"add", "subtract", "multiply", "square"};
constexpr std::string_view kSpreads[] = {"full", "row", "column", "none"};
constexpr std::string_view kRowReduces[] = {"sum", "inverse_root_of_mean"};
constexpr std::string_view kSoftmaxParts[] = {"whole", "mask", "softmax", "dropout"};
constexpr std::string_view kRotaryParts[] = {"whole", "swap", "cosine", "sine", "add"};
constexpr std::string_view kRotaryHeads[] = {"both", "queries", "keys"};
constexpr std::string_view kRouterScores[] = {"softmax", "sigmoid"};
constexpr std::string_view kGroupScores[] = {"max", "top2"};
constexpr std::string_view kNormedValues[] = {"none", "own", "of_keys"};

std::string_view spelling(PointwiseKind k) { return kPointwise[static_cast<std::size_t>(k)]; }
std::string_view spelling(ProductActivation k) { return kProductActivations[static_cast<std::size_t>(k)]; }
std::string_view spelling(GateKind k) { return kGates[static_cast<std::size_t>(k)]; }
std::string_view spelling(DropoutSite s) { return kSites[static_cast<std::size_t>(s)]; }
std::string_view spelling(AttentionKernel k) { return kAttentionKernels[static_cast<std::size_t>(k)]; }
std::string_view spelling(AttentionShare s) { return kShares[static_cast<std::size_t>(s)]; }
std::string_view spelling(RopeScalingKind k) { return kRopeScalings[static_cast<std::size_t>(k)]; }
std::string_view spelling(RecurrenceRule r) { return kRecurrenceRules[static_cast<std::size_t>(r)]; }
std::string_view spelling(LayerwiseKind k) { return kLayerwise[static_cast<std::size_t>(k)]; }
std::string_view spelling(Reduce r) { return kReduce[static_cast<std::size_t>(r)]; }
std::string_view spelling(NormPart k) { return kNormParts[static_cast<std::size_t>(k)]; }
std::string_view spelling(GatePart k) { return kGateParts[static_cast<std::size_t>(k)]; }
std::string_view spelling(ElementwiseKind k) { return kElementwise[static_cast<std::size_t>(k)]; }
std::string_view spelling(Spread k) { return kSpreads[static_cast<std::size_t>(k)]; }
std::string_view spelling(RowReduceKind k) { return kRowReduces[static_cast<std::size_t>(k)]; }
std::string_view spelling(SoftmaxPart k) { return kSoftmaxParts[static_cast<std::size_t>(k)]; }
std::string_view spelling(RotaryPart k) { return kRotaryParts[static_cast<std::size_t>(k)]; }
std::string_view spelling(RotaryHeads k) { return kRotaryHeads[static_cast<std::size_t>(k)]; }
std::string_view spelling(RouterScores k) { return kRouterScores[static_cast<std::size_t>(k)]; }
std::string_view spelling(GroupScore k) { return kGroupScores[static_cast<std::size_t>(k)]; }
std::string_view spelling(NormedValues k) { return kNormedValues[static_cast<std::size_t>(k)]; }
std::string_view spelling(DType t) { return name(t); }
std::string_view spelling(CollectiveKind k) { return name(k); }
std::string_view spelling(Group g) { return name(g); }

/// The number of the enum value below `count` with this spelling, or -1.
template <class E>
int find_spelling(std::string_view text, int count) {
  for (int i = 0; i < count; ++i)
    if (spelling(static_cast<E>(i)) == text) return i;
  return -1;
}

constexpr int values_of(PointwiseKind) { return std::size(kPointwise); }
constexpr int values_of(ProductActivation) { return std::size(kProductActivations); }
constexpr int values_of(GateKind) { return std::size(kGates); }
constexpr int values_of(DropoutSite) { return std::size(kSites); }
constexpr int values_of(AttentionKernel) { return std::size(kAttentionKernels); }
constexpr int values_of(AttentionShare) { return std::size(kShares); }
constexpr int values_of(RopeScalingKind) { return std::size(kRopeScalings); }
constexpr int values_of(RecurrenceRule) { return std::size(kRecurrenceRules); }
constexpr int values_of(LayerwiseKind) { return std::size(kLayerwise); }
constexpr int values_of(Reduce) { return std::size(kReduce); }
constexpr int values_of(NormPart) { return std::size(kNormParts); }
constexpr int values_of(GatePart) { return std::size(kGateParts); }
constexpr int values_of(ElementwiseKind) { return std::size(kElementwise); }
constexpr int values_of(Spread) { return std::size(kSpreads); }
constexpr int values_of(RowReduceKind) { return std::size(kRowReduces); }
constexpr int values_of(SoftmaxPart) { return std::size(kSoftmaxParts); }
constexpr int values_of(RotaryPart) { return std::size(kRotaryParts); }
constexpr int values_of(RotaryHeads) { return std::size(kRotaryHeads); }
constexpr int values_of(RouterScores) { return std::size(kRouterScores); }
constexpr int values_of(GroupScore) { return std::size(kGroupScores); }
constexpr int values_of(NormedValues) { return std::size(kNormedValues); }
constexpr int values_of(DType) { return static_cast<int>(DType::int64) + 1; }
constexpr int values_of(CollectiveKind) { return static_cast<int>(CollectiveKind::shift) + 1; }
constexpr int values_of(Group) { return static_cast<int>(kGroups); }

/// Fields that tables of earlier versions lack. A field with its usual value is not written.
constexpr std::string_view kLater[] = {"activation", "window",        "chunked",     "sinks",       "plain",      "scores",
                                       "value_dim",  "keeps_length",  "fast",        "slow",        "fractional",
                                       "normalize",  "weight_scale", "expert_groups", "kept_groups", "group_score", "choice_bias",
                                       "soft_cap",   "weighted",     "weighted_inputs", "weighted_bias", "repeat",
                                       "common",     "common_first", "chosen",    "block",      "values",     "expert_scale", "room",        "experts_here",
                                       "head_ranks", "score_scale"};
bool is_left_out(std::string_view key) { return std::ranges::find(kLater, key) != std::end(kLater); }

template <class T>
T usual([[maybe_unused]] std::string_view key) {
  if constexpr (std::is_same_v<T, bool>) return key == "normalize" || key == "weighted";
  if constexpr (std::is_same_v<T, std::int64_t>) return key == "repeat" || key == "head_ranks" ? 1 : 0;
  if constexpr (std::is_same_v<T, double>) return key == "weight_scale" ? 1.0 : 0.0;
  return T{};
}

// ---- writing ----

Json to_json(const Op& op) {
  Json out = Json::object();
  Op copy = op;
  visit_fields(copy, [&](const char* key, const auto& value) {
    if (is_left_out(key) && value == usual<std::decay_t<decltype(value)>>(key)) return;
    if constexpr (std::is_enum_v<std::decay_t<decltype(value)>>)
      out[key] = spelling(value);
    else
      out[key] = value;
  });
  return out;
}

/// A list with one element a line.
std::string lines(const std::vector<Json>& items, const std::string& indent) {
  std::string out = "[";
  for (std::size_t i = 0; i < items.size(); ++i) out += (i ? ",\n" : "\n") + indent + "  " + items[i].dump();
  return out + "\n" + indent + "]";
}

void add_kernel(Json& entry, const ProductKernel& k) {
  entry["result"] = spelling(k.result);
  entry["alignment"] = k.alignment;
  entry["vector_alignment"] = k.vector_alignment;
  entry["algorithm"] = k.algorithm;
}

using Entries = std::map<std::string, std::map<std::string, std::vector<Json>>>;

Entries entries_of(const CostTable& table) {
  Entries out;
  for (const CostSample& s : table.samples) {
    Json entry = to_json(s.op);
    entry["seconds"] = s.seconds;
    if (s.sustained_s > 0) entry["sustained_s"] = s.sustained_s;
    if (s.moved.count() > 0) entry["moved"] = s.moved.count();
    if (s.kernel) add_kernel(entry, *s.kernel);
    out[std::string(name(s.dtype))][std::string(kind_name(s.op))].push_back(std::move(entry));
  }
  return out;
}

std::string entries_text(const Entries& entries) {
  std::string out = "{";
  const char* between = "\n";
  for (const auto& [dtype, kinds] : entries) {
    out += between + ("    " + Json(dtype).dump()) + ": {";
    between = "\n";
    for (const auto& [kind, items] : kinds) {
      out += between + ("      " + Json(kind).dump()) + ": " + lines(items, "      ");
      between = ",\n";
    }
    out += "\n    }";
    between = ",\n";
  }
  return out + "\n  }";
}

std::vector<Json> comm_entries(const CostTable& table) {
  std::vector<Json> out;
  for (const CommSample& s : table.comm)
    out.push_back({{"kind", s.kind}, {"ranks", s.ranks}, {"bytes", s.bytes.count()}, {"seconds", s.seconds}});
  return out;
}

std::vector<Json> copy_entries(const CostTable& table) {
  std::vector<Json> out;
  for (const CopySample& s : table.copies) out.push_back({{"kind", s.kind}, {"bytes", s.bytes.count()}, {"seconds", s.seconds}});
  return out;
}

std::vector<Json> figure_entries(const CostTable& table) {
  std::vector<Json> out;
  for (const Figure& f : table.figures) out.push_back({{"name", f.name}, {"value", f.value}, {"unit", f.unit}, {"how", f.how}});
  return out;
}

/// JSON of the parts that only tables of accelerators have.
std::string accelerator_text(const CostTable& t) {
  if (t.facts.empty()) return "";
  return "  \"facts\": " + Json(t.facts).dump() + ",\n  \"figures\": " + lines(figure_entries(t), "  ") + ",\n  \"copies\": " +
         lines(copy_entries(t), "  ") + ",\n";
}

std::string text_of_table(const CostTable& t) {
  const Json head = {{"schema_version", kVersion}, {"device", t.device},     {"date", t.date},
                     {"host", t.host},             {"compiler", t.compiler}, {"notes", t.notes},
                     {"launch_s", t.launch_s},     {"slowdown", t.slowdown}, {"runtime_bytes", t.runtime_bytes.count()}};
  std::string out = "{\n";
  for (const auto& [key, value] : head.items()) out += "  " + Json(key).dump() + ": " + value.dump() + ",\n";
  out += accelerator_text(t);
  out += "  \"entries\": " + entries_text(entries_of(t)) + ",\n";
  return out + "  \"comm\": " + lines(comm_entries(t), "  ") + "\n}\n";
}

// ---- reading ----

/// Largest number of elements or bytes of one operation, a pebibyte: sums of them stay within 64 bits.
constexpr std::int64_t kMostWhole = std::int64_t{1} << 50;
/// Largest product of an operation's five largest sizes: its FLOPs and bits stay within 64 bits.
constexpr double kMostWork = 0x1p56;

/// One value of the file with its place, for messages.
struct Node {
  const nlohmann::json& json;
  const std::string& file;
  std::string path;

  [[noreturn]] void refuse(const std::string& reason, const std::string& remedy = "run `tandem measure` again") const {
    throw ConfigError(Problem{file, path, value_text(json), reason, remedy});
  }
  bool has(const std::string& key) const { return json.is_object() && json.contains(key); }
  Node at(const std::string& key) const {
    if (!json.is_object()) refuse("must be an object, not " + kind_text(json));
    if (!json.contains(key)) refuse("lacks \"" + key + "\"");
    return {json.at(key), file, path.empty() ? key : path + "." + key};
  }
  std::vector<Node> items() const {
    if (!json.is_array()) refuse("must be a list, not " + kind_text(json));
    std::vector<Node> out;
    for (std::size_t i = 0; i < json.size(); ++i) out.push_back({json[i], file, path + "[" + std::to_string(i) + "]"});
    return out;
  }
  std::vector<std::pair<std::string, Node>> members() const {
    if (!json.is_object()) refuse("must be an object, not " + kind_text(json));
    std::vector<std::pair<std::string, Node>> out;
    for (const auto& [key, value] : json.items()) out.push_back({key, Node{value, file, path + "." + key}});
    return out;
  }
  std::string text() const {
    if (!json.is_string()) refuse("must be a string, not " + kind_text(json));
    return json.get<std::string>();
  }
  double number(double least) const {
    if (!json.is_number()) refuse("must be a number, not " + kind_text(json));
    const double v = json.get<double>();
    if (!std::isfinite(v) || v < least) refuse("must be at least " + Json(least).dump());
    return v;
  }
  std::int64_t whole(std::int64_t least, std::int64_t most = kMostWhole) const {
    if (!json.is_number_integer()) refuse("must be a whole number, not " + kind_text(json));
    const bool fits = !json.is_number_unsigned() || json.get<std::uint64_t>() <= static_cast<std::uint64_t>(most);
    const std::int64_t v = fits ? json.get<std::int64_t>() : most;
    if (v < least) refuse("must be at least " + std::to_string(least));
    if (!fits || v > most) refuse("must be at most " + std::to_string(most));
    return v;
  }
  bool truth() const {
    if (!json.is_boolean()) refuse("must be true or false, not " + kind_text(json));
    return json.get<bool>();
  }
  double seconds() const {
    const double v = number(0);
    if (v == 0) refuse("a measured time is above zero");
    return v;
  }
};

void read(const Node& n, std::int64_t& out) { out = n.whole(0); }
void read(const Node& n, int& out) {
  out = static_cast<int>(n.whole(std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
}
void read(const Node& n, double& out) { out = n.number(0); }
void read(const Node& n, bool& out) { out = n.truth(); }
template <class E>
  requires std::is_enum_v<E>
void read(const Node& n, E& out) {
  const int found = find_spelling<E>(n.text(), values_of(E{}));
  if (found < 0) n.refuse("is not a known value of this field");
  out = static_cast<E>(found);
}

/// Whether an operation never multiplies this size with its others.
bool stands_apart(std::string_view key) {
  return key == "global_tokens" || key == "global_queries" || key == "vocab_size" || key == "max_positions" || key == "original" ||
         key == "room";
}

void require_countable(const Node& n, std::vector<std::int64_t> sizes) {
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  sizes.resize(std::min<std::size_t>(sizes.size(), 5));
  double work = 1;
  for (const std::int64_t size : sizes) work *= static_cast<double>(std::max<std::int64_t>(size, 1));
  if (work > kMostWork) n.refuse("is an operation larger than any device's: its sizes multiply to more than 2^56");
}

Op op_from(const Node& n, std::size_t kind) {
  Op op = empty_op(kind);
  std::vector<std::int64_t> sizes;
  visit_fields(op, [&](const char* key, auto& value) {
    if (!is_left_out(key) || n.has(key)) read(n.at(key), value);
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::int64_t>)
      if (!stands_apart(key)) sizes.push_back(value);
  });
  require_countable(n, std::move(sizes));
  return op;
}

std::size_t kind_index(const Node& n, const std::string& kind) {
  for (std::size_t i = 0; i < kOpKinds; ++i)
    if (const Op op = empty_op(i); !is_communication(op) && kind_name(op) == kind) return i;
  n.refuse("\"" + kind + "\" is no kind of computation");
}

ProductKernel kernel_from(const Node& n) {
  ProductKernel k;
  read(n.at("result"), k.result);
  k.alignment = n.at("alignment").whole(1);
  k.vector_alignment = n.at("vector_alignment").whole(1);
  k.algorithm = n.at("algorithm").text();
  return k;
}

CostSample sample_from(const Node& n, std::size_t kind, DType dtype) {
  CostSample s{op_from(n, kind), dtype, n.at("seconds").seconds()};
  if (n.has("sustained_s")) s.sustained_s = n.at("sustained_s").seconds();
  if (n.has("moved")) s.moved = Bytes(n.at("moved").whole(1));
  if (n.has("algorithm")) s.kernel = kernel_from(n);
  return s;
}

void read_entries(const Node& root, CostTable& table) {
  for (const auto& [type, kinds] : root.members()) {
    const auto dtype = dtype_from_name(type);
    if (!dtype) kinds.refuse("\"" + type + "\" is no element type");
    for (const auto& [kind, list] : kinds.members())
      for (const Node& item : list.items())
        table.samples.push_back(sample_from(item, kind_index(list, kind), *dtype));
  }
}

void read_accelerator(const Node& root, CostTable& table) {
  for (const auto& [key, value] : root.at("facts").members()) table.facts[key] = value.text();
  for (const Node& n : root.at("figures").items())
    table.figures.push_back({n.at("name").text(), n.at("value").number(std::numeric_limits<double>::lowest()), n.at("unit").text(), n.at("how").text()});
  for (const Node& n : root.at("copies").items())
    table.copies.push_back({n.at("kind").text(), Bytes(n.at("bytes").whole(1)), n.at("seconds").seconds()});
}

void read_comm(const Node& root, CostTable& table) {
  for (const Node& n : root.items())
    table.comm.push_back({n.at("kind").text(), static_cast<int>(n.at("ranks").whole(2, std::numeric_limits<int>::max())), Bytes(n.at("bytes").whole(1)),
                          n.at("seconds").seconds()});
}

void read_slowdown(const Node& root, CostTable& table) {
  table.slowdown.clear();
  for (const Node& n : root.items()) table.slowdown.push_back(n.number(0.5));
  if (table.slowdown.empty()) root.refuse("needs at least the factor of one rank");
}

}  // namespace

std::string measured_table_path(std::string_view device) {
  const auto under = [&](const std::string& folder) { return folder + "/" + std::string(device) + ".json"; };
  const auto env = [](const char* key) -> std::string {
    const char* value = std::getenv(key);
    return value ? value : "";
  };
  if (const std::string own = env("TANDEM_MEASURED"); !own.empty()) return under(own);
  if (const std::string data = env("XDG_DATA_HOME"); !data.empty()) return under(data + "/tandem/measured");
  return under(env("HOME") + "/.local/share/tandem/measured");
}

void save_cost_table(const CostTable& table, const std::string& path) {
  make_folders(std::filesystem::path(path).parent_path().string());  // if that fails, the write reports it
  write_text(path, text_of_table(table));
}

CostTable load_cost_table(const std::string& path) {
  const nlohmann::json json = read_json(path);
  const Node root{json, path, ""};
  if (!root.has("schema_version") || !root.has("entries"))
    throw ConfigError(Problem{path, "", "", "is no cost table: it lacks \"schema_version\" or \"entries\"", "give a file that `tandem measure` wrote"});
  if (root.at("schema_version").whole(0) != kVersion) root.at("schema_version").refuse("only version 1 can be read");
  CostTable table;
  table.device = root.at("device").text();
  table.date = root.at("date").text();
  table.host = root.at("host").text();
  table.compiler = root.at("compiler").text();
  table.notes = root.at("notes").text();
  table.launch_s = root.at("launch_s").number(0);
  table.runtime_bytes = Bytes(root.at("runtime_bytes").whole(0));
  read_slowdown(root.at("slowdown"), table);
  read_entries(root.at("entries"), table);
  read_comm(root.at("comm"), table);
  if (root.has("facts")) read_accelerator(root, table);
  return table;
}

}  // namespace tandem

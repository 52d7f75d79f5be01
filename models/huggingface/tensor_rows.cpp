#include "models/huggingface/tensor_rows.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

#include "models/base/error.hpp"
#include "models/huggingface/row_order.hpp"

namespace tandem::huggingface {
namespace {

constexpr std::string_view kLayer = "layer", kModule = "mtp", kDecoderLayer = "decoder_layer";

/// The key of a parameter in a table, and the number of its layer: "layer.qkv.weight", 12. Modules of multi-token prediction follow
/// the layers: "mtp.join.weight". A decoder behind an encoder counts its own layers: "decoder_layer.cross_q.weight".
struct PlaceInModel {
  std::string key;
  std::int64_t layer = 0;
};

/// Numbers in the name of a tensor.
struct PlaceOfTensor {
  std::int64_t layer, expert;
};

PlaceInModel place_of(const std::string& name, const ModelSpec& model) {
  const std::string_view kind = name.starts_with(kModule) ? kModule : kLayer;
  std::size_t end = kind.size();
  while (name.starts_with(kind) && end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
  if (!name.starts_with(kind) || end == kind.size()) return {name, 0};
  const std::int64_t number = std::stoll(name.substr(kind.size(), end - kind.size()));
  if (kind == kModule) return {std::string(kind) + name.substr(end), model.num_layers + number};
  if (model.num_decoder_layers == 0 || number < model.num_layers) return {std::string(kind) + name.substr(end), number};
  return {std::string(kDecoderLayer) + name.substr(end), number - model.num_layers};
}

/// nullptr: the type has no such parameter. A module's layer is like any other; queries may come from the hidden state; a gated MLP
/// may have names of its own.
const TensorRule* rule_for(const WeightTable& table, const ModelSpec& model, PlaceInModel place) {
  std::string key = std::move(place.key);
  const auto find = [&](const std::string& name) {
    const auto found = table.parameters.find(name);
    return found == table.parameters.end() ? nullptr : &found->second;
  };
  if (const TensorRule* own = key.starts_with(kModule) ? find(key) : nullptr) return own;
  if (key.starts_with(kModule) && find("mtp.join.weight") != nullptr) key.replace(0, kModule.size(), kLayer);
  if (key == "layer.q_up.weight" && model.latent.query_rank == 0) key = "layer.q.weight";
  if (key == "layer.proj.weight" && model.kind(place.layer).has_recurrence()) key = "layer.recurrence.proj.weight";
  if (const std::size_t fc1 = key.find(".fc1."); fc1 != std::string::npos && model.gated())
    if (const TensorRule* gated = find(key.substr(0, fc1) + ".gated_fc1" + key.substr(fc1 + 4))) return gated;
  return find(key);
}

std::string with_number(std::string name, std::string_view mark, std::int64_t number) {
  if (const std::size_t at = name.find(mark); at != std::string::npos) name.replace(at, mark.size(), std::to_string(number));
  return name;
}

std::vector<std::int64_t> shape_of(std::int64_t rows, std::int64_t cols, const TensorRule& rule) {
  if (rule.rows == TensorRule::Rows::halves) return {rows / 2, 2 * cols};
  if (rule.rows == TensorRule::Rows::recurrence_conv || rule.rows == TensorRule::Rows::mamba_conv) return {rows, 1, cols};
  if (cols == 1) return {rows};
  return rule.transposed ? std::vector{cols, rows} : std::vector{rows, cols};
}

using TensorShapes = std::vector<std::vector<std::int64_t>>;

/// The tensors of one expert, of a parameter without experts, or of all experts if they are stacked.
void add_tensors(const TensorRule& rule, const TensorShapes& shapes, PlaceOfTensor place, ParameterRows& out) {
  for (std::size_t i = 0; i < rule.of.size(); ++i) {
    const std::string name = with_number(with_number(rule.of[i], "{layer}", place.layer), "{expert}", place.expert);
    out.tensors.push_back({name, shapes[i], rule.offset});
  }
}

HeadSizes sizes_in(const ModelSpec& model, std::int64_t layer) {
  const AttentionHeads heads = model.attention_heads(model.has_window(layer) ? Mixer::windowed : Mixer::full);
  return {heads, model.rotary_dim(heads.head_dim), model.latent.kv_rank, model.recurrence};
}

/// Nothing if the rule does not fit the parameter's rows.
std::optional<ParameterRows> rows_by(const TensorRule& rule, const ModelSpec& model, const WholeParameter& p, std::int64_t layer) {
  ParameterRows out{p, rule.transposed, {}, {}};
  const bool of_experts = rule.stacked || rule.of.front().find("{expert}") != std::string::npos;
  const std::int64_t experts = of_experts ? model.moe.num_experts : 1;
  if (experts == 0 || p.rows % experts != 0) return std::nullopt;
  const RowOrder one(rule, sizes_in(model, layer), p.rows / experts);
  const auto rows = one.tensors();
  if (!rows) return std::nullopt;
  TensorShapes shapes;
  for (const std::int64_t n : *rows) shapes.push_back(shape_of(n, p.cols, rule));
  if (rule.stacked)
    for (auto& shape : shapes) shape.insert(shape.begin(), experts);
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    const std::size_t first = rule.stacked ? 0 : out.tensors.size();
    one.add_runs(first, expert * (p.rows / experts), rule.stacked ? expert * rows->front() : 0, out.runs);
    if (out.tensors.size() == first) add_tensors(rule, shapes, {layer, expert}, out);
  }
  return out;
}

}  // namespace

std::vector<ParameterRows> rows_in_files(const WeightTable& table, const ModelSpec& model,
                                         const std::vector<WholeParameter>& parameters) {
  constexpr std::size_t kMostProblems = 20;
  std::vector<ParameterRows> out;
  std::vector<Problem> problems;
  for (const WholeParameter& p : parameters) {
    const PlaceInModel place = place_of(p.name, model);
    const TensorRule* const rule = rule_for(table, model, place);
    auto rows = rule == nullptr ? std::nullopt : rows_by(*rule, model, p, place.layer);
    const char* reason = rule == nullptr ? " has no such weights" : " has other rows here";
    if (rows) out.push_back(std::move(*rows));
    else if (problems.size() < kMostProblems)
      problems.push_back({"", p.name, std::to_string(p.rows) + " x " + std::to_string(p.cols), "type " + table.type + reason,
                          place.key.starts_with(kModule) ? "set model.mtp.num_layers to 0" : "use a plan of this type's models"});
  }
  if (!problems.empty()) throw InfeasibleError(problems);
  return out;
}

}  // namespace tandem::huggingface

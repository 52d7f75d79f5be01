#include "models/huggingface/tensor_rows.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "models/base/error.hpp"

namespace tandem::huggingface {
namespace {

constexpr std::string_view kLayer = "layer";

/// The key of a parameter in a table, and the number of its layer: "layer.qkv.weight", 12.
struct PlaceInModel {
  std::string key;
  std::int64_t layer = 0;
};

PlaceInModel place_of(const std::string& name) {
  std::size_t end = kLayer.size();
  while (name.starts_with(kLayer) && end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
  if (!name.starts_with(kLayer) || end == kLayer.size()) return {name, 0};
  return {std::string(kLayer) + name.substr(end), std::stoll(name.substr(kLayer.size(), end - kLayer.size()))};
}

std::string with_number(std::string name, std::string_view mark, std::int64_t number) {
  if (const std::size_t at = name.find(mark); at != std::string::npos) name.replace(at, mark.size(), std::to_string(number));
  return name;
}

/// Rows of one expert, or of a whole parameter without experts.
class RowsOfRule {
 public:
  RowsOfRule(const TensorRule& rule, const AttentionHeads& heads, std::int64_t rows) : rule_(rule), heads_(heads), rows_(rows) {}

  /// Rows of each tensor that the rule names; nothing if the parameter has other rows than the rule says.
  std::optional<std::vector<std::int64_t>> tensors() const {
    const auto n = static_cast<std::int64_t>(rule_.of.size());
    if (rule_.rows != TensorRule::Rows::groups) {
      if (rows_ % parts() != 0) return std::nullopt;
      return std::vector<std::int64_t>(rule_.of.size(), rows_ / n);
    }
    const std::array<std::int64_t, 3> parts = of_group();
    if (heads_.tied || (parts[0] + parts[1] + parts[2]) * heads_.keys != rows_) return std::nullopt;
    if (n == 1) return std::vector{rows_};
    return std::vector{parts[0] * heads_.keys, parts[1] * heads_.keys, parts[2] * heads_.keys};
  }

  /// Appends the runs of tensors `first` and following. `row`: the parameter's first row.
  void add_runs(std::size_t first, std::int64_t row, std::vector<RowRun>& out) const {
    if (rule_.rows == TensorRule::Rows::groups) return add_groups(first, row, out);
    const std::int64_t n = parts(), count = rows_ / n;
    const bool apart = rule_.of.size() > 1;
    for (std::int64_t i = 0; i < n; ++i) {
      if (apart) out.push_back({first + static_cast<std::size_t>(i), 0, row + i, n, count});
      else out.push_back({first, i * count, row + i, n, count});
    }
  }

 private:
  /// Number of parts that alternate: as many as tensors, or the two that are in one.
  std::int64_t parts() const {
    const auto n = static_cast<std::int64_t>(rule_.of.size());
    return rule_.rows == TensorRule::Rows::alternating && n == 1 ? 2 : n;
  }

  /// Rows of a group's queries, key and value.
  std::array<std::int64_t, 3> of_group() const {
    return {heads_.queries / heads_.keys * heads_.head_dim, heads_.head_dim, heads_.value_dim};
  }

  void add_groups(std::size_t first, std::int64_t row, std::vector<RowRun>& out) const {
    const std::array<std::int64_t, 3> parts = of_group();
    for (std::int64_t group = 0; group < heads_.keys; ++group) {
      std::int64_t above = 0;  // rows of other parts above this one, if all are in one tensor
      for (std::size_t part = 0; part < parts.size(); ++part) {
        const bool one = rule_.of.size() == 1;
        out.push_back({first + (one ? 0 : part), (one ? above : 0) + group * parts[part], row, 1, parts[part]});
        row += parts[part];
        above += parts[part] * heads_.keys;
      }
    }
  }

  const TensorRule& rule_;
  const AttentionHeads& heads_;
  std::int64_t rows_;
};

std::vector<std::int64_t> shape_of(std::int64_t rows, std::int64_t cols, bool transposed) {
  if (cols == 1) return {rows};
  return transposed ? std::vector{cols, rows} : std::vector{rows, cols};
}

/// Nothing if the rule does not fit the parameter's rows.
std::optional<ParameterRows> rows_by(const TensorRule& rule, const ModelSpec& model, const WholeParameter& p, std::int64_t layer) {
  ParameterRows out{p, rule.transposed, {}, {}};
  const bool stacked = rule.of.front().find("{expert}") != std::string::npos;
  const std::int64_t experts = stacked ? model.moe.num_experts : 1;
  if (experts == 0 || p.rows % experts != 0) return std::nullopt;
  const AttentionHeads heads = model.attention_heads(model.has_window(layer) ? Mixer::windowed : Mixer::full);
  const RowsOfRule one(rule, heads, p.rows / experts);
  const auto rows = one.tensors();
  if (!rows) return std::nullopt;
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    one.add_runs(out.tensors.size(), expert * (p.rows / experts), out.runs);
    for (std::size_t i = 0; i < rule.of.size(); ++i) {
      const std::string name = with_number(with_number(rule.of[i], "{layer}", layer), "{expert}", expert);
      out.tensors.push_back({name, shape_of((*rows)[i], p.cols, rule.transposed)});
    }
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
    const PlaceInModel place = place_of(p.name);
    const auto rule = table.parameters.find(place.key);
    auto rows = rule == table.parameters.end() ? std::nullopt : rows_by(rule->second, model, p, place.layer);
    const char* reason = rule == table.parameters.end() ? " has no such weights" : " has other rows here";
    if (rows) out.push_back(std::move(*rows));
    else if (problems.size() < kMostProblems)
      problems.push_back({"", p.name, std::to_string(p.rows) + " x " + std::to_string(p.cols), "type " + table.type + reason,
                          "use a plan of this type's models"});
  }
  if (!problems.empty()) throw InfeasibleError(problems);
  return out;
}

}  // namespace tandem::huggingface

#include "models/huggingface/adapter_rows.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>

#include "models/base/error.hpp"
#include "models/plan/adapter_parts.hpp"

namespace tandem::huggingface {
namespace {

constexpr std::string_view kWeight = ".weight", kWrapper = "base_model.model.";
constexpr const char *kA = ".lora_A.weight", *kB = ".lora_B.weight";

std::string module_of(const std::string& tensor) {
  return tensor.ends_with(kWeight) ? tensor.substr(0, tensor.size() - kWeight.size()) : tensor;
}

/// The tensors of A: each has all rows of A, or of its expert's.
ParameterRows rows_of_a(const ParameterRows& matrix, const WholeParameter& a, std::int64_t experts) {
  ParameterRows out{a, false, {}, {}};
  const std::size_t of_expert = matrix.tensors.size() / static_cast<std::size_t>(experts);
  const std::int64_t rank = a.rows / experts;
  for (std::size_t i = 0; i < matrix.tensors.size(); ++i) {
    out.tensors.push_back({std::string(kWrapper) + module_of(matrix.tensors[i].name) + kA, {rank, a.cols}});
    out.runs.push_back({i, 0, static_cast<std::int64_t>(i / of_expert) * rank, 1, rank});
  }
  return out;
}

bool is_of_experts(const std::string& matrix) { return matrix.find(".experts.") != std::string::npos; }

/// PEFT names modules as they are in memory, where a language model beside towers has other names than in files.
void require_no_towers(const WeightTable& table) {
  if (!table.towers.empty())
    throw InfeasibleError(Problem{"", "model_type", table.type, "not implemented: adapters of a model with towers",
                                  "use the configuration of its language model alone, or export merged weights"});
}

/// PEFT adapts modules; stacked experts are one parameter.
void require_modules(const WeightTable& table, const std::vector<ParameterRows>& matrices) {
  for (const ParameterRows& m : matrices)
    if (is_of_experts(m.parameter.name) && !m.tensors.empty() && m.tensors.front().shape.size() > 2)
      throw InfeasibleError(Problem{"", m.parameter.name, "", "not implemented: type " + table.type + " has all experts in one tensor, "
                                    "and adapters of single experts have no names there", "leave experts.fc1 and experts.fc2 out of training.lora.targets"});
}

/// The tensors of B, which have the matrix' rows.
ParameterRows rows_of_b(const ParameterRows& matrix, const WholeParameter& b) {
  ParameterRows out{b, false, matrix.tensors, matrix.runs};
  for (FileTensor& t : out.tensors) {
    const std::int64_t rows = matrix.transposed ? t.shape.back() : t.shape.front();
    t = {std::string(kWrapper) + module_of(t.name) + kB, {rows, b.cols}};
  }
  return out;
}

/// Appends the rows of `run` that are of a part, by their places in the part.
void add_part_of(const RowRun& run, const PartColumns& part, std::vector<RowRun>& out) {
  bool follows = false;
  for (std::int64_t i = 0; i < run.count; ++i) {
    const auto row = part.row_of(run.row + i * run.step);
    if (row && follows && out.back().count == 1 && *row > out.back().row) out.back().step = *row - out.back().row;
    if (row && follows && *row == out.back().row + out.back().count * out.back().step) ++out.back().count;
    else if (row) out.push_back({run.tensor, run.in_tensor + i, *row, 1, 1});
    follows = row.has_value();
  }
}

/// The rows of a part of a matrix. Nothing if a tensor has other rows as well.
std::optional<ParameterRows> rows_of_part(const ParameterRows& matrix, const PartColumns& part) {
  ParameterRows out{matrix.parameter, matrix.transposed, {}, {}};
  std::map<std::size_t, std::int64_t> all, mine;  // rows by tensor
  std::vector<RowRun> runs;
  for (const RowRun& run : matrix.runs) {
    all[run.tensor] += run.count;
    add_part_of(run, part, runs);
  }
  for (const RowRun& run : runs) mine[run.tensor] += run.count;
  std::map<std::size_t, std::size_t> places;
  for (const auto& [tensor, rows] : mine) {
    if (rows != all[tensor]) return std::nullopt;
    places[tensor] = out.tensors.size();
    out.tensors.push_back(matrix.tensors[tensor]);
  }
  for (RowRun& run : runs) {
    run.tensor = places.at(run.tensor);
    out.runs.push_back(run);
  }
  return out;
}

/// The number of the layer is that of a parameter of an adapter.
PartColumns part_of(const ModelSpec& model, const std::string& adapter) {
  const AdapterName name = adapter_name(adapter);
  return name.part.empty() ? PartColumns{} : part_columns(model, model.kind(layer_of_adapter(adapter)), name.part);
}

/// The whole matrices that these adapters are beside, one for each: rows are those of B, columns those of A.
std::vector<WholeParameter> matrices_of(const ModelSpec& model, const std::vector<WholeParameter>& adapters) {
  const auto key = [](const std::string& name) { return name.substr(0, name.rfind('.')); };
  std::map<std::string, WholeParameter> matrices;
  for (const WholeParameter& p : adapters) {
    WholeParameter& matrix = matrices[key(p.name)];
    const PartColumns part = part_of(model, p.name);
    matrix.name = adapter_name(p.name).matrix + std::string(kWeight);
    if (p.name.ends_with(kAdapterA)) matrix.cols = p.cols;
    else matrix.rows = part.width == 0 ? p.rows : p.rows / part.width * part.group;
  }
  std::vector<WholeParameter> out;
  for (const WholeParameter& p : adapters) out.push_back(matrices.at(key(p.name)));
  return out;
}

/// The tensors of the matrix beside an adapter, or of the part that it adapts.
ParameterRows rows_beside(const WeightTable& table, const ModelSpec& model, const ParameterRows& matrix,
                          const std::string& adapter) {
  const PartColumns part = part_of(model, adapter);
  if (part.width == 0) return matrix;
  if (auto rows = rows_of_part(matrix, part)) return std::move(*rows);
  throw InfeasibleError(Problem{"", "training.lora.targets", adapter_name(adapter).part,
                                "type " + table.type + " has this part in one tensor with others, and PEFT adapts a tensor as one",
                                "name qkv, fc1 or experts.fc1 in place of their parts"});
}

/// The last two parts of a module's name, or three if the second is an expert's number.
std::string last_parts(const std::string& module) {
  const auto before = [&](std::size_t dot) { return module.rfind('.', dot - 1); };
  const std::size_t last = module.rfind('.'), second = before(last);
  const bool numbered = std::isdigit(static_cast<unsigned char>(module[second + 1])) != 0;
  return module.substr((numbered ? before(second) : second) + 1);
}

}  // namespace

std::vector<ParameterRows> adapter_rows(const WeightTable& table, const ModelSpec& model,
                                        const std::vector<WholeParameter>& adapters) {
  require_no_towers(table);
  const std::vector<ParameterRows> rows = rows_in_files(table, model, matrices_of(model, adapters));
  require_modules(table, rows);
  std::vector<ParameterRows> out;
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    const WholeParameter& p = adapters[i];
    const ParameterRows beside = rows_beside(table, model, rows[i], p.name);
    const std::int64_t experts = is_of_experts(p.name) ? model.moe.num_experts : 1;
    out.push_back(p.name.ends_with(kAdapterA) ? rows_of_a(beside, p, experts) : rows_of_b(beside, p));
  }
  return out;
}

std::string module_of_adapter(const std::string& tensor) {
  if (!tensor.starts_with(kWrapper) || !(tensor.ends_with(kA) || tensor.ends_with(kB))) return "";
  return tensor.substr(kWrapper.size(), tensor.size() - kWrapper.size() - std::string_view(kA).size());
}

std::vector<std::string> modules_of(const std::vector<ParameterRows>& adapters) {
  std::set<std::string> out;
  for (const ParameterRows& p : adapters)
    for (const FileTensor& t : p.tensors) out.insert(module_of_adapter(t.name));
  return {out.begin(), out.end()};
}

std::vector<std::string> adapter_modules(const std::vector<ParameterRows>& adapters) {
  std::set<std::string> out;
  for (const std::string& module : modules_of(adapters)) out.insert(last_parts(module));
  return {out.begin(), out.end()};
}

bool adapts_transposed(const WeightTable& table, const std::vector<WholeParameter>& adapters) {
  return std::any_of(adapters.begin(), adapters.end(), [&](const WholeParameter& p) {
    const std::string matrix = adapter_name(p.name).matrix;
    const auto rule = table.parameters.find("layer" + matrix.substr(matrix.find('.')) + std::string(kWeight));
    return rule != table.parameters.end() && rule->second.transposed;
  });
}

}  // namespace tandem::huggingface

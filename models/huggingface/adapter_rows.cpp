#include "models/huggingface/adapter_rows.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "models/base/error.hpp"
#include "models/plan/adapters.hpp"

namespace tandem::huggingface {
namespace {

constexpr std::string_view kWeight = ".weight", kWrapper = "base_model.model.";
constexpr const char *kA = ".lora_A.weight", *kB = ".lora_B.weight";

/// "layer0.qkv" of "layer0.qkv.lora_a".
std::string matrix_of(const std::string& adapter) { return adapter.substr(0, adapter.rfind('.')); }

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
    t = {std::string(kWrapper) + module_of(t.name) + kB, {rows, b.cols}, t.factor, 0};
  }
  return out;
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
  std::map<std::string, WholeParameter> matrices;  // rows are those of B, columns those of A
  for (const WholeParameter& p : adapters) {
    WholeParameter& matrix = matrices[matrix_of(p.name)];
    matrix.name = matrix_of(p.name) + std::string(kWeight);
    (p.name.ends_with(kAdapterA) ? matrix.cols : matrix.rows) = p.name.ends_with(kAdapterA) ? p.cols : p.rows;
  }
  std::vector<WholeParameter> wanted;
  for (const WholeParameter& p : adapters) wanted.push_back(matrices.at(matrix_of(p.name)));
  const std::vector<ParameterRows> rows = rows_in_files(table, model, wanted);
  require_modules(table, rows);
  std::vector<ParameterRows> out;
  for (std::size_t i = 0; i < adapters.size(); ++i) {
    const WholeParameter& p = adapters[i];
    const std::int64_t experts = is_of_experts(p.name) ? model.moe.num_experts : 1;
    out.push_back(p.name.ends_with(kAdapterA) ? rows_of_a(rows[i], p, experts) : rows_of_b(rows[i], p));
  }
  return out;
}

std::vector<std::string> adapter_modules(const std::vector<ParameterRows>& adapters) {
  std::set<std::string> out;
  for (const ParameterRows& p : adapters)
    for (const FileTensor& t : p.tensors) {
      const std::string module = t.name.substr(0, t.name.size() - std::string_view(kA).size());
      out.insert(last_parts(module));
    }
  return {out.begin(), out.end()};
}

bool adapts_transposed(const WeightTable& table, const std::vector<WholeParameter>& adapters) {
  return std::any_of(adapters.begin(), adapters.end(), [&](const WholeParameter& p) {
    const std::string matrix = matrix_of(p.name);
    const auto rule = table.parameters.find("layer" + matrix.substr(matrix.find('.')) + std::string(kWeight));
    return rule != table.parameters.end() && rule->second.transposed;
  });
}

}  // namespace tandem::huggingface

#include "models/huggingface/adapter_rows.hpp"

#include <algorithm>
#include <map>
#include <set>

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

/// The tensors of A: each has all of its rows.
ParameterRows rows_of_a(const ParameterRows& matrix, const WholeParameter& a) {
  ParameterRows out{a, false, {}, {}};
  for (std::size_t i = 0; i < matrix.tensors.size(); ++i) {
    out.tensors.push_back({std::string(kWrapper) + module_of(matrix.tensors[i].name) + kA, {a.rows, a.cols}});
    out.runs.push_back({i, 0, 0, 1, a.rows});
  }
  return out;
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
  std::vector<ParameterRows> out;
  for (std::size_t i = 0; i < adapters.size(); ++i)
    out.push_back(adapters[i].name.ends_with(kAdapterA) ? rows_of_a(rows[i], adapters[i]) : rows_of_b(rows[i], adapters[i]));
  return out;
}

std::vector<std::string> adapter_modules(const std::vector<ParameterRows>& adapters) {
  std::set<std::string> out;
  for (const ParameterRows& p : adapters)
    for (const FileTensor& t : p.tensors) {
      const std::string module = t.name.substr(0, t.name.size() - std::string_view(kA).size());
      out.insert(module.substr(module.rfind('.', module.rfind('.') - 1) + 1));
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

#pragma once
// Where a plan's low-rank adapters are in the tensors of PEFT's files (huggingface/peft 0.21: src/peft/utils/save_and_load.py).

#include <string>
#include <vector>

#include "models/huggingface/tensor_rows.hpp"

namespace tandem::huggingface {

/// The adapters' parameters ("layer0.qkv.lora_a") in tensors like base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight. A
/// matrix that a model's files have in several tensors has its A in each of them, and its rows of B divided as its own rows are. The
/// adapter of a part of a matrix ("layer0.qkv.q.lora_a") is in the part's tensor. Throws InfeasibleError for matrices that the type has no
/// tensor for, or one for all experts, and for parts that are in one tensor with others.
std::vector<ParameterRows> adapter_rows(const WeightTable& table, const ModelSpec& model,
                                        const std::vector<WholeParameter>& adapters);

/// "model.layers.0.self_attn.q_proj" of such a tensor; empty for others.
std::string module_of_adapter(const std::string& tensor);
/// The modules that these tensors belong to, sorted.
std::vector<std::string> modules_of(const std::vector<ParameterRows>& adapters);
/// The same as PEFT's `target_modules`: the last two parts of their names, or three with an expert's
/// number, sorted.
std::vector<std::string> adapter_modules(const std::vector<ParameterRows>& adapters);

/// Whether the model's files have such a matrix transposed, PEFT's `fan_in_fan_out`.
bool adapts_transposed(const WeightTable& table, const std::vector<WholeParameter>& adapters);

}  // namespace tandem::huggingface

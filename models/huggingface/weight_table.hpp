#pragma once
// The names that the weights of a transformers model type have in its files: a file of weights/, completed by those it is like.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/json.hpp"

namespace tandem::huggingface {

/// Folder of the tables, for find_preset.
inline constexpr const char* kWeightsFolder = "models/huggingface/weights";

/// How one parameter of a plan is stored: in one tensor, or in several.
struct TensorRule {
  /// plain: rows of one tensor. alternating: row i is in tensor i % n. groups: rows of each key head's queries, then of its key and
  /// value, from tensors of all queries, all keys and all values. One tensor in place of two or three has them below each other.
  /// latent_queries: heads of latent attention, whose rotary dimensions the file has last. latent_keys: the compressed row, then
  /// rotary dimensions. Both are interleaved. halves: the parameter's upper rows are the left columns of the tensor.
  /// gated_groups: groups whose tensor of queries has a gate behind each head, which the plan has before all groups. The other three
  /// are of a recurrence: four tensors (queries, keys, values; gates; what forgets; what learns), two that have these by key heads,
  /// and its convolution. heads: each head's rows of the first tensor, then of the second. mamba_in, mamba_conv, mamba_bias: the one
  /// product before a recurrence of Mamba 2, its convolution, and the convolution's bias.
  enum class Rows : std::uint8_t {
    plain, alternating, groups, latent_queries, latent_keys, halves, gated_groups, recurrence, recurrence_heads, recurrence_conv,
    heads, mamba_in, mamba_conv, mamba_bias
  } rows = Rows::plain;
  bool transposed = false;        ///< the file's columns are the parameter's rows
  bool stacked = false;           ///< one tensor has a matrix or a vector for each expert
  bool interleaved = false;       ///< groups: the file pairs neighbouring rotary dimensions, the plan a head's halves
  std::vector<std::string> of;    ///< names with {layer} and {expert}; with {expert} the parameter has all experts' rows
  double offset = 0;              ///< a parameter is the stored number + offset
  std::int64_t shift = 0;         ///< plain: rows of the file above the parameter's first; they are its last ones
};

/// What weights of a configuration were trained with although the runtime computes something else.
struct WeightDifference {
  std::string name, instead;
  std::string field;              ///< of the configuration; config_of() has the runtime's value. Empty: none
  bool told = false;              ///< the weights are useful all the same
  std::string when;               ///< expression on a configuration
};

struct WeightTable {
  std::string type;               ///< model type: "qwen3"
  std::string architecture;       ///< class in transformers
  std::string prefix;             ///< of names; files that were saved without the head lack it
  std::vector<std::string> ignored;               ///< endings of tensors that are no parameters
  std::vector<std::string> left_out;              ///< beginnings of tensors of parts that the plan does without
  std::vector<std::string> towers;                ///< of these: parts beside the language model, which an export takes from the files
  std::map<std::string, std::string> copies;      ///< a tensor that files may have beside or in place of another: the other
  std::map<std::string, std::string> old_endings; ///< an ending of names in old files: the ending now
  std::vector<std::string> drawn;                 ///< beginnings of parameters of heads that files may lack: they get initial values
  std::map<std::string, TensorRule> parameters;   ///< by the parameter's name, "layer." for any layer
  std::map<std::string, std::string> config;      ///< field of config.json, dotted: expression on fields of a plan
  std::vector<std::string> nulls;                 ///< fields of `config` that are written although their value is null
  std::vector<WeightDifference> differences;
  std::int64_t scaled_block = 0;                  ///< of weights in 8 bits: rows and columns that share a scale; 0: none
  bool after_others = false;                      ///< chosen for a plan only if no other type says it
};

/// Throws ConfigError, with the types that have one, where the type has no table.
WeightTable weight_table(const std::string& type);

/// Model types that have a table, sorted.
std::vector<std::string> types_with_weights();

/// A config.json for a plan (as to_json(plan) prints it). It says what the type can say: import it again to see what is missing.
nlohmann::json config_of(const WeightTable& table, const nlohmann::json& plan);

/// Rows and columns that share a scale if a configuration's weights are in 8 bits (FP8 by blocks, as DeepSeek-V3's); else 0.
std::int64_t scaled_block(const nlohmann::json& config);

/// The table for weights of a configuration: with its block of scales.
WeightTable for_configuration(WeightTable table, const nlohmann::json& config);

/// The differences that a configuration has. Throws ConfigError if a field of it, read from `file`, has a wrong kind.
std::vector<WeightDifference> weight_differences(const WeightTable& table, const nlohmann::json& config, const std::string& file);

}  // namespace tandem::huggingface

#include "experiments/tandem/export/quantized_base.hpp"

#include <nlohmann/json.hpp>

#include "models/base/error.hpp"

namespace tandem::program {
namespace {

using nlohmann::json;

constexpr const char* kRemedy = "give the config.json of the model before it was quantized";

[[noreturn]] void refuse(const std::string& file, const std::string& field, const json& value) {
  throw InfeasibleError(Problem{file, "quantization_config." + field, value_text(value),
                                "not implemented: adapters beside weights in this format; only bitsandbytes' nf4 is read", kRemedy});
}

/// huggingface/transformers 5.24.0, src/transformers/utils/quantization_config.py, BitsAndBytesConfig: fp4 is its default.
nlohmann::ordered_json bitsandbytes(const json& said, const std::string& file) {
  if (said.value("load_in_8bit", json(false)) == true) refuse(file, "load_in_8bit", true);
  if (said.value("load_in_4bit", json(false)) != true) return nlohmann::ordered_json::object();
  const json type = said.value("bnb_4bit_quant_type", json("fp4"));
  if (type != "nf4") refuse(file, "bnb_4bit_quant_type", type);
  nlohmann::ordered_json out{{"base", "nf4"}};
  if (said.value("bnb_4bit_use_double_quant", json(false)) == true) out["double_quantization"] = true;
  return out;
}

/// Formats whose weights transformers dequantizes before it trains (Mxfp4Config, FineGrainedFP8Config: dequantize).
bool dequantized(const json& method) { return method == "mxfp4" || method == "fp8"; }

}  // namespace

nlohmann::ordered_json quantized_base(const json& config, const std::string& file) {
  const json said = config.is_object() ? config.value("quantization_config", json()) : json();
  if (!said.is_object() || said.empty()) return nlohmann::ordered_json::object();
  const bool bits = said.contains("load_in_4bit") || said.contains("load_in_8bit");  // older files have no quant_method
  const json method = said.value("quant_method", json(bits ? "bitsandbytes" : ""));
  if (method == "bitsandbytes") return bitsandbytes(said, file);
  if (!dequantized(method)) refuse(file, "quant_method", method);
  return nlohmann::ordered_json::object();
}

}  // namespace tandem::program

#pragma once
// Configurations for tests of the import: written to a file, read, and what of them is refused.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/base/error.hpp"
#include "models/huggingface/imported_model.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace tandem::tests {

using huggingface::ImportedModel;
using nlohmann::json;

class Configs : public TemporaryFolder {
 public:
  ImportedModel import(const std::string& text, std::int64_t sequence = 0) {
    file("config.json", text);
    return huggingface::import_model(at("config.json"), sequence);
  }
  ImportedModel import(const json& config, std::int64_t sequence = 0) { return import(config.dump(), sequence); }

  /// "field: reason" of the first problem; empty where it is read.
  std::string refusal(const json& config) {
    try {
      import(config);
      return "";
    } catch (const ConfigError& e) {
      CHECK(e.problems().front().file == at("config.json"));
      return e.problems().front().field + ": " + e.problems().front().reason;
    }
  }
};

inline const json kSmall = {{"model_type", "llama"}, {"hidden_size", 64}, {"num_hidden_layers", 2}, {"num_attention_heads", 4},
                     {"intermediate_size", 96}, {"vocab_size", 128}, {"max_position_embeddings", 256}};

inline json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

inline std::vector<std::string> refused(const ImportedModel& model) {
  std::vector<std::string> out;
  for (const huggingface::MissingFeature& f : model.features)
    if (f.refused) out.push_back(f.name);
  return out;
}

}  // namespace tandem::tests

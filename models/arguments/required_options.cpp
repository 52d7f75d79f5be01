#include "models/arguments/required_options.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "models/arguments/table_facts.hpp"
#include "models/base/error.hpp"

namespace tandem::arguments {
namespace {

/// Plan fields that no framework has a default for, and the argument that gives each.
constexpr std::pair<const char*, const char*> kRequired[] = {{"model.num_layers", "num_layers"},
                                                             {"model.hidden_size", "hidden_size"},
                                                             {"model.num_attention_heads", "num_attention_heads"},
                                                             {"training.seq_length", "seq_length"},
                                                             {"training.micro_batch_size", "micro_batch_size"},
                                                             {"model.vocab_size", "vocab_size"}};

std::string option_of(std::string argument) {
  std::replace(argument.begin(), argument.end(), '_', '-');
  return "--" + argument;
}

}  // namespace

void require_options(const Table& table, TableFacts& facts, const std::string& file) {
  std::vector<Problem> problems;
  for (const auto& [field, argument] : kRequired) {
    if (!table.says_model() && std::string_view(field).starts_with("model.")) continue;
    if (!facts.value(table.document->at("plan").at(field).get<std::string>()).value().is_null()) continue;
    const bool vocabulary = std::string(argument) == "vocab_size";
    problems.push_back({file, argument, "", vocabulary ? "is missing: the tokenizer decides it, and import reads none" : "is missing",
                        "add " + option_of(argument) + " N to the options"});
  }
  if (!problems.empty()) throw ConfigError(std::move(problems));
}

}  // namespace tandem::arguments

#pragma once
// Facts of a framework's table, with the functions that such a table may call.

#include "models/arguments/stage_layers.hpp"
#include "models/huggingface/facts.hpp"

namespace tandem::arguments {

class TableFacts : public huggingface::Facts {
 public:
  using Facts::Facts;
  nlohmann::json call(const std::string& name, const std::vector<nlohmann::json>& arguments) override {
    return stage_call(name, arguments);
  }
};

}  // namespace tandem::arguments

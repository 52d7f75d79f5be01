#include "experiments/tandem/commands/examples.hpp"

#include <map>

#include "models/base/error.hpp"

namespace tandem::program {

std::string example(const std::string& command) {
  static const std::map<std::string, std::string> examples = {
      {"simulate", "experiments/plans/gpt3-175b-1024.json"},
      {"search", "llama3-8b --cluster dgx-h100 --devices 16"},
      {"plan", "llama3-8b --cluster dgx-h100 --devices 64 --search --tokens 1e12 --days 60"},
      {"sweep", "experiments/studies/bert-5b-gaudi/study.json --out sweep"},
      {"explain", "experiments/plans/gpt3-175b-1024.json step_time_s"},
      {"report", "experiments/plans/gpt3-175b-1024.json --out gpt3.html"},
      {"train", "experiments/plans/demo.json --data experiments/data/kjv-new-testament.txt --steps 5 --save run.safetensors --timeline run.json"},
      {"evaluate", "experiments/plans/demo.json --data experiments/data/kjv-new-testament.txt --checkpoint run.safetensors"},
      {"tokenize", "text.txt --tokenizer Qwen3-0.6B --out text"},
      {"export", "run.safetensors --out my-model"},
      {"compare", "simulated.json run.json --html compare.html"},
      {"measure", "--quick --out cpu.json"},
      {"validate", "experiments/corpus/published_runs.jsonl --html errors.html"},
      {"calibrate", "a100 experiments/corpus/published_runs.jsonl --out a100.json"},
      {"import", "Qwen3-0.6B --cluster dgx-h100 --devices 8 --out plan.json"},
      {"schema", "> plan-schema.json"},
  };
  const auto found = examples.find(command);
  if (found == examples.end()) throw ContractError("no example of command " + command);
  return "tandem " + command + " " + found->second;
}

}  // namespace tandem::program

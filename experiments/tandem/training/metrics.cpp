#include "experiments/tandem/training/metrics.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/training/report.hpp"
#include "models/base/files.hpp"
#include "models/base/input.hpp"
#include "models/base/json.hpp"
#include "models/base/output.hpp"

namespace tandem::program {
namespace {

using nlohmann::json;

constexpr std::size_t kLargest = std::size_t{1} << 30;  // of a file that is continued

/// The step of a line; nothing if it is no line of metrics.
std::optional<std::int64_t> step_of(const std::string& line) {
  const json value = json::parse(line, nullptr, false);
  if (!value.is_object() || !value.contains("step") || !value["step"].is_number_integer()) return std::nullopt;
  return value["step"].get<std::int64_t>();
}

/// The lines of `text` about the steps behind the run. A last line without an end is left out.
std::string lines_before(const std::string& text, const MetricsBegin& begin, const std::string& path) {
  std::string kept;
  std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
  for (std::string line; std::getline(lines, line);) {
    const auto step = step_of(line);
    if (!step)
      throw ConfigError(
          Problem{path, "--metrics", line.substr(0, 40), "is no line of metrics, and would be written over", "give another file"});
    const bool again = begin.evaluates && *step == begin.steps - 1 && line.find("evaluation_loss") != std::string::npos;
    if (*step < begin.steps && !again) kept += line + "\n";
  }
  return kept;
}

void add_rates(const StepRates& rates, json& line) {
  line["samples_per_s"] = rates.samples_per_s;
  line["tokens_per_s"] = rates.tokens_per_s;
  line["tokens_per_s_per_device"] = rates.tokens_per_s_per_device;
  line["model_flops_per_s_per_device"] = rates.model_flops_per_s_per_device;
  if (rates.mfu) line["mfu"] = *rates.mfu;
  line["elapsed_s"] = rates.elapsed_s;
  line["remaining_s"] = rates.remaining_s;
  line["skipped_steps"] = rates.skipped_steps;
}

}  // namespace

MetricsFile::MetricsFile(std::string path, const MetricsBegin& begin)
    : path_(std::move(path)), begin_(begin), samples_(begin.samples) {
  if (path_.empty()) return;
  permit_replacing(path_, path_);
  const bool in_place = output_place(path_).in_place;
  const bool continues = begin.steps > 0 && !in_place && file_exists(path_);
  const std::string kept = continues ? lines_before(read_text(path_, kLargest), begin, path_) : "";
  if (!in_place) write_text(path_, kept);
  file_ = std::make_unique<AppendedFile>(path_);
}

void MetricsFile::add(const exec::StepResult& step, const StepRates& rates) {
  if (!file_) return;
  samples_ += step.global_batch_size;
  json line = step_json(step);
  line["samples"] = samples_;
  line["tokens"] = begin_.tokens + (samples_ - begin_.samples) * begin_.sequence_tokens;
  add_rates(rates, line);
  append(line);
}

void MetricsFile::add(const exec::EvaluationResult& evaluation) {
  if (!file_) return;
  append(json{{"step", evaluation.step},
              {"evaluation_loss", finite_number(evaluation.loss)},
              {"perplexity", finite_number(std::exp(evaluation.loss))}});
}

void MetricsFile::append(const json& line) {
  const std::error_code failed = file_->add(line.dump() + "\n");
  if (!failed) return;
  lost_ = Problem{path_, "", "", "cannot be written: " + failed.message() + "; it lacks the lines from step " + line["step"].dump() + " on", ""};
  log(*lost() + "; the run writes no more metrics");
  file_.reset();
}

std::optional<std::string> MetricsFile::lost() const { return lost_ ? std::optional(lost_->message()) : std::nullopt; }

void MetricsFile::finish() const {
  if (lost_) throw ConfigError(*lost_);
}

}  // namespace tandem::program

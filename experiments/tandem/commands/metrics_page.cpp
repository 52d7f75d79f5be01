#include "experiments/tandem/commands/metrics_page.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "models/base/error.hpp"
#include "models/base/json.hpp"
#include "reports/page/html_page.hpp"

namespace tandem::program {
namespace {

using nlohmann::json;

enum class Line : std::uint8_t { other, step, evaluation };

Line kind_of(const json& line) {
  if (!line.is_object() || !line.contains("step") || !line["step"].is_number_integer()) return Line::other;
  return line.contains("evaluation_loss") ? Line::evaluation : line.contains("loss") && line.contains("tokens") ? Line::step : Line::other;
}

/// What the page draws of a step.
json drawn(const json& line) {
  json out;
  for (const char* key : {"step", "loss", "grad_norm", "learning_rate", "tokens", "tokens_per_s", "skipped"}) out[key] = line.value(key, json());
  if (line.contains("model_flops_per_s_per_device")) out["model_flops_per_s_per_device"] = line["model_flops_per_s_per_device"];
  if (line.contains("mtp_loss")) out["mtp_loss"] = line["mtp_loss"];
  return out;
}

/// Adds up the wall time of runs that resumed each other. Each counts from zero. A step of the same run adds at least its own time; half
/// of it allows for what is outside the step's clock.
class Elapsed {
 public:
  void add(const json& line) {
    if (!line.contains("elapsed_s") || !line["elapsed_s"].is_number()) return;  // files of earlier versions lack it
    const double now = line["elapsed_s"].get<double>();
    if (now < last_ + line.value("step_time_s", 0.0) / 2) before_ += last_;
    last_ = now, known_ = true;
  }
  json total() const { return known_ ? json(before_ + last_) : json(); }

 private:
  double before_ = 0, last_ = 0;
  bool known_ = false;
};

}  // namespace

bool is_metrics(InputFile& file) {
  constexpr std::size_t kLongestLine = 4096;
  const std::string_view head = file.head(kLongestLine);
  return kind_of(json::parse(head.substr(0, head.find('\n')), nullptr, false)) != Line::other;
}

std::string metrics_page(const std::string& path, InputFile& file) {
  const std::string text = file.whole(JsonLimits{}.max_bytes);
  json steps = json::array(), evaluations = json::array();
  std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
  std::size_t number = 0;
  Elapsed elapsed;
  for (std::string line; std::getline(lines, line);) {
    const json value = json::parse(line, nullptr, false);
    const Line kind = kind_of(value);
    ++number;
    if (kind == Line::step) elapsed.add(value);
    if (kind == Line::step) steps.push_back(drawn(value));
    else if (kind == Line::evaluation) evaluations.push_back({{"step", value["step"]}, {"loss", value["evaluation_loss"]}});
    else throw ConfigError(Problem{path, "line " + std::to_string(number), line.substr(0, 40), "is no line of `train --metrics`", "give the file as it was written"});
  }
  const std::string name = std::filesystem::path(path).stem().string();
  const json data = {{"what", "tandem metrics report"}, {"schema_version", 1}, {"name", name}, {"steps", steps},
                     {"evaluations", evaluations}, {"elapsed_s", elapsed.total()}};
  return html_page("losses", name + " – Tandem", data.dump());
}

}  // namespace tandem::program

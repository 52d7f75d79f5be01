#include "experiments/tandem/commands/train_metrics.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/train_report.hpp"
#include "models/base/files.hpp"
#include "models/base/input.hpp"
#include "models/base/json.hpp"
#include "models/base/output.hpp"

namespace tandem::program {
namespace {

using nlohmann::json;

constexpr std::size_t kLargest = std::size_t{1} << 30;  // of a file that is continued

/// The step of a line; nothing if it is no line of metrics, or the end of one that was cut off.
std::optional<std::int64_t> step_of(const std::string& line) {
  const json value = json::parse(line, nullptr, false);
  if (!value.is_object() || !value.contains("step") || !value["step"].is_number_integer()) return std::nullopt;
  return value["step"].get<std::int64_t>();
}

/// The lines of `text` about the first `steps` steps. A last line without an end is left out.
std::string lines_before(const std::string& text, std::int64_t steps, const std::string& path) {
  std::string kept;
  std::istringstream lines(text.substr(0, text.rfind('\n') + 1));
  for (std::string line; std::getline(lines, line);) {
    const auto step = step_of(line);
    if (!step)
      throw ConfigError(Problem{path, "--metrics", line.substr(0, 40), "is no line of metrics, and would be written over",
                                "give another file"});
    if (*step < steps) kept += line + "\n";
  }
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(std::string path, const MetricsBegin& begin) : path_(std::move(path)), begin_(begin), samples_(begin.samples) {
  if (path_.empty()) return;
  const OutputPlace place = output_place(path_);
  permit_replacing(path_, path_);
  if (!place.in_place)
    write_text(path_, begin.steps > 0 && file_exists(path_) ? lines_before(read_text(path_, kLargest), begin.steps, path_) : "");
  file_ = place.descriptor >= 0 ? ::dup(place.descriptor) : ::open(place.path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (file_ < 0)
    throw ConfigError(Problem{path_, "--metrics", "", std::string("cannot be opened: ") + std::strerror(errno), "give another file"});
}

MetricsFile::~MetricsFile() {
  if (file_ >= 0) ::close(file_);
}

void MetricsFile::add(const exec::StepResult& step) {
  if (file_ < 0) return;
  samples_ += step.global_batch_size;
  json line = step_json(step);
  line["samples"] = samples_;
  line["tokens"] = samples_ * begin_.sequence_tokens;
  line["tokens_per_s"] = static_cast<double>(step.global_batch_size * begin_.sequence_tokens) / step.step_time_s;
  append(line.dump());
}

void MetricsFile::add(const exec::EvaluationResult& evaluation) {
  if (file_ < 0) return;
  append(json{{"step", evaluation.step}, {"evaluation_loss", finite_number(evaluation.loss)}}.dump());
}

void MetricsFile::append(const std::string& line) {
  const std::string text = line + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(file_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      log(path_ + ": cannot be written: " + std::strerror(errno) + "; the training goes on without metrics");
      ::close(std::exchange(file_, -1));
      return;
    }
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace tandem::program

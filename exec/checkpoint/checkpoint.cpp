#include "exec/checkpoint/checkpoint.hpp"

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "exec/checkpoint/folder.hpp"
#include "exec/checkpoint/single_file.hpp"
#include "models/base/files.hpp"
#include "models/base/json.hpp"
#include "models/fields/plan_values.hpp"

namespace tandem::exec {
namespace {

using nlohmann::json;

constexpr const char* kSchema = "1";

template <class Number>
Number number(const json& metadata, const char* key) {
  const std::string text = metadata.at(key);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || value < Number{}) throw std::out_of_range(std::string(key) + " is no number");
  return value;
}

template <class Number>
Number number_or(const json& metadata, const char* key, Number otherwise) {
  return metadata.contains(key) ? number<Number>(metadata, key) : otherwise;
}

ScaleState scale_of(const json& metadata) {
  const ScaleState scale{number_or(metadata, "loss_scale", 1.0), number_or<std::uint32_t>(metadata, "good_steps", 0),
                         number_or<std::uint32_t>(metadata, "bad_steps", 0), number_or<std::int64_t>(metadata, "skipped_steps", 0)};
  int exponent = 0;
  if (std::frexp(scale.loss_scale, &exponent) != 0.5) throw std::out_of_range("loss_scale is no power of two");
  return scale;
}

/// Before lengths could change, all sequences had the plan's.
std::int64_t tokens_of(const json& metadata) {
  if (metadata.contains("tokens")) return number<std::int64_t>(metadata, "tokens");
  const json training = json::parse(metadata.at("plan").get<std::string>()).value("training", json::object());
  const auto positions = [&](const char* key) { return training.value(key, std::int64_t{0}); };
  return number<std::int64_t>(metadata, "samples") * (positions("seq_length") + positions("decoder_seq_length"));
}

/// Adds the scale only if there is one, and the skipped steps only if there are any.
void add_scale(const ScaleState& scale, std::map<std::string, std::string>& out) {
  if (scale.skipped > 0) out["skipped_steps"] = std::to_string(scale.skipped);
  if (scale.loss_scale == 1 && scale.good_steps == 0 && scale.bad_steps == 0) return;
  out["loss_scale"] = number_text(scale.loss_scale);
  out["good_steps"] = std::to_string(scale.good_steps);
  out["bad_steps"] = std::to_string(scale.bad_steps);
}

}  // namespace

Checkpoint load_checkpoint(const std::string& path) { return is_folder(path) ? open_folder(path) : open_single_file(path); }

bool names_one_file(const std::string& path) {
  if (path.ends_with(".safetensors")) return true;
  const FileKind kind = file_state(path).kind;
  return kind == FileKind::regular || kind == FileKind::other || kind == FileKind::broken_link;  // no folder is made behind a link
}

std::map<std::string, std::string> metadata_of(const std::string& format, const StateFacts& facts, const SavedRun& run) {
  std::map<std::string, std::string> out{{"format", format},
                                         {"schema_version", kSchema},
                                         {"steps", std::to_string(facts.steps)},
                                         {"samples", std::to_string(facts.samples)},
                                         {"data", std::to_string(run.data)},
                                         {"plan", run.plan_json}};
  if (facts.tokens > 0) out["tokens"] = std::to_string(facts.tokens);
  if (run.held_out) out["held_out"] = json(*run.held_out).dump();
  if (run.data_since > 0) out["data_since"] = std::to_string(run.data_since);
  add_scale(facts.scale, out);
  return out;
}

StateFacts facts_of(const json& metadata, const std::string& format) {
  if (metadata.at("format") != format || metadata.at("schema_version") != kSchema)
    throw std::out_of_range("its format is not " + format + " " + kSchema);
  return {number<std::int64_t>(metadata, "steps"), number<std::int64_t>(metadata, "samples"), scale_of(metadata), tokens_of(metadata)};
}

SavedRun run_of(const json& metadata) {
  SavedRun run{metadata.at("plan"), number<std::uint64_t>(metadata, "data"), std::nullopt};
  if (metadata.contains("held_out")) run.held_out = number<double>(metadata, "held_out");
  run.data_since = number_or<std::int64_t>(metadata, "data_since", 0);
  if (run.held_out && !(*run.held_out < 1)) throw std::out_of_range("held_out is no share");
  return run;
}

std::string tensor_name(const SavedTensor& t) { return t.buffer == "weights" ? t.name : t.buffer + "." + t.name; }

}  // namespace tandem::exec

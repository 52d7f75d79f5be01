#include "experiments/tandem/training/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "experiments/tandem/validation/statistics.hpp"
#include "models/ops/collective.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {

namespace {

using nlohmann::json;

std::optional<double> median_time(const std::vector<exec::StepResult>& steps) {
  std::vector<double> times;
  for (std::size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i)
    if (steps[i].global_batch_size == steps.back().global_batch_size) times.push_back(steps[i].step_time_s);
  if (times.empty()) return std::nullopt;
  return median(std::move(times));
}

using Lines = std::map<std::pair<CollectiveKind, Group>, exec::CommCounters::Line>;

void add_books(const exec::RankBooks& rank, TrainReport& out, Lines& lines) {
  out.flops += rank.backend.gemm_flops;
  out.arena_bytes = std::max(out.arena_bytes, rank.arena_bytes);
  out.host_arena_bytes = std::max(out.host_arena_bytes, rank.host_arena_bytes);
  out.workspace_bytes = std::max(out.workspace_bytes, rank.backend.workspace_bytes);
  out.device_bytes = std::max(out.device_bytes, rank.backend.device_bytes);
  out.peak_memory_bytes = std::max(out.peak_memory_bytes, rank.backend.peak_bytes);
  if (rank.comm.sends) out.bytes_sent["send"] += rank.comm.sent_bytes;
  for (const auto& [key, line] : rank.comm.collectives) {
    out.bytes_sent[std::string(name(key.first))] += line.payload_bytes;
    lines[key].calls += line.calls;
    lines[key].payload_bytes += line.payload_bytes;
  }
}

template <class T>
json value(const std::optional<T>& v) { return v ? json(*v) : json(nullptr); }

json evaluations_json(const std::vector<exec::EvaluationResult>& evaluations) {
  json out = json::array();
  for (const exec::EvaluationResult& e : evaluations) out.push_back({{"step", e.step}, {"loss", finite_number(e.loss)}});
  return out;
}

json failure_json(const std::optional<exec::RankFailure>& f) {
  if (!f) return nullptr;
  const json rank = f->rank == Rank() ? json(nullptr) : json(f->rank.value());
  return {{"rank", rank}, {"step", f->step}, {"during", name(f->during)}, {"reason", f->reason}};
}

std::string line(const std::string& what, const std::string& value) { return "  " + padded(what, 24) + value + "\n"; }

std::string epochs_line(double epochs) {
  char text[32];
  std::snprintf(text, sizeof text, epochs < 100 ? "%.3g" : "%.0f", epochs);
  return line("epochs of the data", text);
}

std::string skipped_line(const std::vector<exec::StepResult>& steps) {
  const auto n = std::count_if(steps.begin(), steps.end(), [](const exec::StepResult& s) { return s.skipped(); });
  return n == 0 ? "" : line("updates skipped", count_text(n) + ", their gradients were not finite");
}

}  // namespace

json finite_number(double v) { return std::isfinite(v) ? json(v) : json(nullptr); }

json step_json(const exec::StepResult& s) {
  json out{{"step", s.step},
           {"loss", finite_number(s.loss)},
           {"grad_norm", finite_number(s.grad_norm)},
           {"learning_rate", s.learning_rate},
           {"step_time_s", s.step_time_s},
           {"global_batch_size", s.global_batch_size},
           {"loss_scale", s.loss_scale},
           {"skipped", s.skipped()}};
  if (s.mtp_loss) out["mtp_loss"] = finite_number(*s.mtp_loss);
  return out;
}

std::string loss_text(double value, int digits) {
  if (std::isnan(value)) return "nan";  // printf would print "-nan" for a negative one
  char text[40];
  std::snprintf(text, sizeof text, std::abs(value) < 1e6 ? "%.*f" : "%.*e", digits, value);
  return text;
}

TrainReport summarise(const StepScale& scale, const exec::RunResult& result) {
  TrainReport out;
  out.steps = result.steps;
  out.evaluations = result.evaluations;
  out.median_step_time_s = median_time(result.steps);
  if (out.median_step_time_s.value_or(0) > 0) {
    out.tokens_per_s = static_cast<double>(out.steps.back().global_batch_size * scale.tokens) / *out.median_step_time_s;
    out.model_flops_per_s = scale.model_flops / *out.median_step_time_s;
    if (scale.peak_flops_per_s) out.mfu = *out.model_flops_per_s / *scale.peak_flops_per_s;
  }
  Lines lines;
  for (const exec::RankBooks& rank : result.ranks) add_books(rank, out, lines);
  for (const auto& [key, line] : lines)
    out.collectives.push_back(
        {std::string(name(key.first)), std::string(name(key.second)), line.calls, line.payload_bytes});
  return out;
}

std::string to_text(const TrainReport& r) {
  if (r.steps.empty() && !r.evaluations.empty()) return "evaluated, loss " + loss_text(r.evaluations.back().loss, 4) + "\n";
  if (r.steps.empty()) return "no step was finished\n";
  std::string out = "trained " + count_text(static_cast<std::int64_t>(r.steps.size())) + (r.steps.size() == 1 ? " step" : " steps") + ", loss " +
                    loss_text(r.steps.front().loss, 4) + " -> " + loss_text(r.steps.back().loss, 4) + "\n";
  if (r.steps.front().mtp_loss)
    out += line("mtp loss", loss_text(*r.steps.front().mtp_loss, 4) + " -> " + loss_text(*r.steps.back().mtp_loss, 4));
  out += skipped_line(r.steps);
  if (!r.evaluations.empty())
    out += line("evaluation loss", loss_text(r.evaluations.front().loss, 4) + " -> " +
                                       loss_text(r.evaluations.back().loss, 4) + ", perplexity " +
                                       loss_text(std::exp(r.evaluations.front().loss), 2) + " -> " +
                                       loss_text(std::exp(r.evaluations.back().loss), 2));
  if (r.epochs) out += epochs_line(*r.epochs);
  if (r.bigram_entropy_nats) out += line("bigram entropy of data", number_text(*r.bigram_entropy_nats, 4) + " nats");
  if (r.median_step_time_s) out += line("step time, median", time_text(*r.median_step_time_s));
  if (r.tokens_per_s) out += line("throughput", number_text(*r.tokens_per_s, 0) + " tokens/s");
  out += line("matrix FLOPs", number_text(static_cast<double>(r.flops) * 1e-9, 3) + " GFLOP");
  if (r.model_flops_per_s)
    out += line("model FLOPs", number_text(*r.model_flops_per_s * 1e-12, 3) + " TFLOP/s" +
                                 (r.mfu ? ", " + number_text(*r.mfu * 100, 1) + " % of the devices' peak" : ""));
  for (const auto& [kind, bytes] : r.bytes_sent) out += line("bytes, " + kind, bytes_text(bytes));
  out += line("arena, heaviest rank", bytes_text(r.arena_bytes));
  if (r.device_bytes > 0) out += line("in use on the device", bytes_text(r.device_bytes) + " as its driver says, by all processes");
  if (r.host_arena_bytes > 0) out += line("offloaded to the host", bytes_text(r.host_arena_bytes));
  return out + line("peak memory", bytes_text(r.peak_memory_bytes));
}

std::string to_json(const TrainReport& r) {
  json steps = json::array(), collectives = json::array();
  for (const exec::StepResult& s : r.steps) steps.push_back(step_json(s));
  for (const TrainReport::Collective& c : r.collectives)
    collectives.push_back({{"kind", c.kind}, {"group", c.group}, {"calls", c.calls}, {"payload_bytes", c.payload_bytes}});
  const json out = {{"schema_version", 1},
                    {"steps", std::move(steps)},
                    {"evaluations", evaluations_json(r.evaluations)},
                    {"step_time_s", value(r.median_step_time_s)},
                    {"tokens_per_s", value(r.tokens_per_s)},
                    {"peak_memory_bytes", r.peak_memory_bytes},
                    {"flops", r.flops},
                    {"model_flops_per_s", value(r.model_flops_per_s)},
                    {"mfu", value(r.mfu)},
                    {"bytes_sent", r.bytes_sent},
                    {"collectives", std::move(collectives)},
                    {"arena_bytes", r.arena_bytes},
                    {"host_arena_bytes", r.host_arena_bytes},
                    {"workspace_bytes", r.workspace_bytes},
                    {"device_bytes", r.device_bytes},
                    {"data_bigram_entropy_nats", value(r.bigram_entropy_nats)},
                    {"epochs", value(r.epochs)},
                    {"interrupted", r.interrupted},
                    {"unsaved", value(r.unsaved)},
                    {"metrics_lost", value(r.metrics_lost)},
                    {"failure", failure_json(r.failure)}};
  return out.dump(2) + "\n";
}

Timeline timeline_of(const exec::RunResult& result) {
  Timeline out = *result.timeline;
  for (Lane& lane : out.lanes)
    for (std::int32_t rank : lane.ranks)
      lane.arena_bytes = std::max(lane.arena_bytes, Bytes(result.ranks.at(static_cast<std::size_t>(rank)).arena_bytes));
  return out;
}

}  // namespace tandem::program

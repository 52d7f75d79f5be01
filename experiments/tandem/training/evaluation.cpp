#include "experiments/tandem/training/evaluation.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "experiments/tandem/training/report.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {
namespace {

using nlohmann::json;

double share(std::int64_t part, std::int64_t all) { return static_cast<double>(part) / static_cast<double>(all); }

std::optional<double> tokens_per_s(const EvaluationReport& r) {
  const auto seconds = r.sum.batch_time_s();
  if (!seconds || *seconds <= 0) return std::nullopt;
  return static_cast<double>(r.text.batch * r.text.sequence_tokens) / *seconds;
}

std::optional<double> bits_per_byte(const EvaluationReport& r) {
  if (!r.text.bytes) return std::nullopt;
  return r.sum.all().loss / std::log(2) / static_cast<double>(*r.text.bytes);
}

json finite(const std::optional<double>& v) { return v ? finite_number(*v) : json(nullptr); }

json documents_json(const EvaluationReport& r) {
  if (!r.text.documents) return nullptr;
  return {{"count", r.sum.answered()}, {"right", r.sum.right()}, {"accuracy", share(r.sum.right(), r.sum.answered())}};
}

json pairs_json(const EvaluationReport& r) {
  const exec::SequenceScore& all = r.sum.all();
  if (all.labels == 0) return nullptr;
  const double loss = all.label_loss / static_cast<double>(all.labels);
  return {{"count", all.labels}, {"loss", finite_number(loss)}, {"accuracy", share(all.label_hits, all.labels)}};
}

std::string line(const std::string& what, const std::string& value) { return "  " + padded(what, 24) + value + "\n"; }
std::string right_text(std::int64_t right, std::int64_t all) {
  return number_text(100 * share(right, all), 2) + " %, " + count_text(right) + " of " + count_text(all);
}

}  // namespace

void EvaluationSum::add(const std::vector<exec::SequenceScore>& batch, Clock::time_point now) {
  for (const exec::SequenceScore& s : batch) {
    all_.loss += s.loss, all_.targets += s.targets, all_.hits += s.hits;
    all_.label_loss += s.label_loss, all_.labels += s.labels, all_.label_hits += s.label_hits;
    answered_ += s.targets > 0 ? 1 : 0;
    right_ += s.targets > 0 && s.hits == s.targets ? 1 : 0;
  }
  if (batches_++ == 0) first_ = now;
  last_ = now;
}

std::optional<double> EvaluationSum::batch_time_s() const {
  if (batches_ < 2) return std::nullopt;
  return std::chrono::duration<double>(last_ - first_).count() / static_cast<double>(batches_ - 1);
}

std::optional<double> adjusted_perplexity(const EvaluationReport& r) {
  if (!r.text.words || *r.text.words < 2) return std::nullopt;
  return std::exp(r.sum.all().loss / static_cast<double>(*r.text.words - 1));
}

std::string to_text(const EvaluationReport& r) {
  const exec::SequenceScore& all = r.sum.all();
  std::string out = "evaluated on " + r.text.name + ": " + count_text(all.targets) + (all.targets == 1 ? " target in " : " targets in ") +
                    count_text(r.text.sequences) + (r.text.sequences == 1 ? " sequence of " : " sequences of ") +
                    count_text(r.text.sequence_tokens) + " tokens\n";
  out += line("loss", loss_text(r.sum.loss(), 5) + " nats per target");
  out += line("perplexity", loss_text(std::exp(r.sum.loss()), 3));
  if (const auto adjusted = adjusted_perplexity(r))
    out += line("adjusted perplexity", loss_text(*adjusted, 3) + ", of " + count_text(*r.text.words) + " words");
  if (const auto bits = bits_per_byte(r)) out += line("bits per byte", loss_text(*bits, 4));
  out += line("most probable is right", right_text(all.hits, all.targets));
  if (r.text.documents) out += line("documents right", right_text(r.sum.right(), r.sum.answered()));
  if (all.labels > 0)
    out += line("sentence pairs", "loss " + loss_text(all.label_loss / static_cast<double>(all.labels), 5) + ", right " +
                                      right_text(all.label_hits, all.labels));
  if (const auto speed = tokens_per_s(r)) out += line("throughput", count_text(std::llround(*speed)) + " tokens/s");
  return out + line("peak memory", bytes_text(r.peak_memory_bytes));
}

std::string to_json(const EvaluationReport& r) {
  const json words = r.text.words ? json(*r.text.words) : json(nullptr);
  const json out = {{"schema_version", 1},
                    {"loss", finite_number(r.sum.loss())},
                    {"perplexity", finite_number(std::exp(r.sum.loss()))},
                    {"targets", r.sum.targets()},
                    {"sequences", r.text.sequences},
                    {"accuracy", r.sum.hits()},
                    {"words", words},
                    {"adjusted_perplexity", finite(adjusted_perplexity(r))},
                    {"bits_per_byte", finite(bits_per_byte(r))},
                    {"documents", documents_json(r)},
                    {"sentence_pairs", pairs_json(r)},
                    {"tokens_per_s", finite(tokens_per_s(r))},
                    {"peak_memory_bytes", r.peak_memory_bytes}};
  return out.dump(2) + "\n";
}

}  // namespace tandem::program

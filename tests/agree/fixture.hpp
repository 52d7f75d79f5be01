#pragma once
// Models that PyTorch has trained (tests/fixtures), trained here in any layout, and what must come out.

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "exec/backend/forwarding_backend.hpp"
#include "exec/run/run.hpp"
#include "models/base/narrow.hpp"
#include "models/plan/plan.hpp"
#include "tests/backends.hpp"
#include "tests/catch.hpp"
#include "tests/source_dir.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::tests {

using nlohmann::json;

/// The decoders' files name sizes; the others have parts of a plan.
inline json with_parts(json f) {
  if (f.contains("model")) return f;
  f["model"] = {{"family", f["family"]}, {"num_layers", f["layers"]}, {"hidden_size", f["hidden"]},
                {"num_attention_heads", f["heads"]}, {"num_kv_heads", f["kv_heads"]}, {"ffn_hidden_size", f["ffn"]},
                {"vocab_size", f["vocab"]}, {"pad_vocab_to", f["vocab"]}, {"tie_embeddings", f["tied"]},
                {"norm_epsilon", 1e-5}};
  if (f.contains("qk_norm")) f["model"]["qk_norm"] = "head";
  f["training"] = {{"seq_length", f["seq"]}, {"micro_batch_size", 2}, {"global_batch_size", f["batch"]}};
  for (const char* key : {"learning_rate", "beta1", "beta2", "epsilon", "weight_decay", "clip_grad"})
    f["training"][key] = f[key];
  return f;
}

/// The fixture of one model: "gpt", or "bert/post" where a file holds several.
inline json read_fixture(const std::string& name) {
  const std::size_t slash = name.find('/');
  std::ifstream file(tests::source_dir() + "/tests/fixtures/" + name.substr(0, slash) + "_pytorch.json");
  json f = json::parse(file);
  if (slash == std::string::npos) return with_parts(std::move(f));
  for (json& v : f["variants"])
    if (v["name"] == name.substr(slash + 1)) return std::move(v);
  throw std::runtime_error("no fixture " + name);
}

/// How a fixture's model is spread; with tensor ranks also its sequences, but for experts with a capacity: PyTorch counted it
/// over a micro-batch, and tensor ranks that share sequences count it over their own rows.
struct FixtureLayout {
  int tensor = 1, pipeline = 1, data = 1, expert = 1, zero = 0;
  std::string precision = "fp64";
  std::string label() const {
    return "tp" + std::to_string(tensor) + " pp" + std::to_string(pipeline) + " dp" + std::to_string(data) + " ep" +
           std::to_string(expert) + " zero" + std::to_string(zero) + " " + precision;
  }
};

inline FixtureLayout spread(int tensor, int pipeline, int data, int zero) {
  FixtureLayout l;
  l.tensor = tensor;
  l.pipeline = pipeline;
  l.data = data;
  l.zero = zero;
  return l;
}

inline Plan plan_of(const json& f, const FixtureLayout& l) {
  json model = f["model"], training = f["training"];
  const bool capacity = model.contains("moe") && model["moe"].contains("capacity_factor");
  training["precision"] = l.precision;
  if (l.tensor > 1) model["pad_vocab_to"] = 4 * l.tensor;
  const json plan = {{"model", model},
                     {"training", training},
                     {"parallel",
                      {{"tensor", l.tensor}, {"sequence_parallel", l.tensor > 1 && !capacity}, {"pipeline", l.pipeline},
                       {"data", l.data}, {"expert", l.expert}, {"zero_stage", l.zero}}},
                     {"cluster", {{"preset", "cpu-host"}, {"devices", l.tensor * l.pipeline * l.data}}}};
  return parse_plan(plan.dump(), "fixture");
}

/// The fixture's batches in order.
class FixtureData : public exec::TokenSource {
 public:
  explicit FixtureData(const json& fixture) : f_(fixture) {}
  /// Leaves out BERT's last token, the mask, because no text has it.
  std::int64_t vocab_size() const override {
    return f_["model"]["vocab_size"].get<std::int64_t>() - (f_["model"]["family"] == "bert" ? 1 : 0);
  }
  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    const json& s = of("sequences", index);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = s[i];
  }
  exec::Example masked_example(std::int64_t index, const exec::Masking&) const override {
    using Ids = std::vector<std::int32_t>;
    return {of("tokens", index).get<Ids>(), of("targets", index).get<Ids>(), of("types", index).get<Ids>(),
            of("label", index).get<std::int32_t>()};
  }

 protected:
  const json& of(const char* what, std::int64_t index) const {
    const auto batch = f_["training"]["global_batch_size"].get<std::int64_t>();
    return f_.at(what)[static_cast<std::size_t>(index / batch)][static_cast<std::size_t>(index % batch)];
  }

 private:
  const json& f_;
};

/// Logits of one micro-batch on one rank, as the loss read them.
struct LogitsPiece {
  VocabDims dims;
  std::int64_t first_sequence = 0, tensor_rank = 0;
  std::vector<double> values;
  int module = 0;  ///< of multi-token prediction; 0: the model's own
};

/// Where the taps of all ranks leave what they see.
struct LogitsBasin {
  std::vector<LogitsPiece> pieces;
  std::mutex mutex;
};

class LogitsQueue : public exec::ForwardingQueue {
 public:
  LogitsQueue(exec::Backend& backend, LogitsBasin& basin)
      : ForwardingQueue(backend.queue(Stream::compute)), table_(backend.step_table()), basin_(basin) {}
  void run(const exec::Launch& launch) override {
    const auto* max = std::get_if<VocabMax>(&launch.op);
    if (max && exec::read_value<exec::StepTable>(table_, 0).step == 0) keep(max->dims, launch);
    inner().run(launch);
  }

 private:
  template <class T>
  std::vector<double> values(const exec::Tensor& logits, std::int64_t count) {
    std::vector<T> stored(static_cast<std::size_t>(count));
    inner().download(std::as_writable_bytes(std::span(stored)), logits.address);
    inner().finish();
    return std::vector<double>(stored.begin(), stored.end());
  }
  std::vector<double> all_values(const exec::Tensor& logits, std::int64_t count) {
    if (logits.dtype == DType::fp64) return values<double>(logits, count);
    if (logits.dtype == DType::fp32) return values<float>(logits, count);
    std::vector<double> bits = values<std::uint16_t>(logits, count);
    for (double& v : bits)
      v = logits.dtype == DType::bf16 ? from_bf16(static_cast<std::uint16_t>(v)) : from_fp16(static_cast<std::uint16_t>(v));
    return bits;
  }
  void keep(const VocabDims& dims, const exec::Launch& launch) {
    const std::int64_t count = dims.rows * dims.cols;
    LogitsPiece piece{dims, launch.context.first_sequence, launch.context.tensor_rank,
                      all_values(launch.in[0], count)};
    if (!dims.whole) piece.module = seen_[launch.context.first_sequence]++;
    const std::lock_guard lock(basin_.mutex);
    basin_.pieces.push_back(std::move(piece));
  }
  exec::Memory& table_;
  LogitsBasin& basin_;
  std::map<std::int64_t, int> seen_;  ///< by first sequence
};

/// Passes everything on and keeps the logits of the first step.
class LogitsTap : public exec::ForwardingBackend {
 public:
  explicit LogitsTap(LogitsBasin& basin) : ForwardingBackend(kernels_under_test()), queue_(inner(), basin) {}
  exec::Queue& queue(Stream s) override { return s == Stream::compute ? queue_ : inner().queue(s); }

 private:
  LogitsQueue queue_;
};

struct Trained {
  exec::RunResult result;
  std::vector<LogitsPiece> logits;
};

/// Trains from the fixture's initial values.
inline Trained train(const json& f, const FixtureLayout& layout, const exec::TokenSource& data) {
  const Plan plan = plan_of(f, layout);
  Trained t;
  LogitsBasin basin;
  exec::RunOptions options = run_options();  // with communicators of the backend that is tested
  options.steps = static_cast<std::int64_t>(f["losses"].size());
  options.gather_gradients = options.gather_weights = true;
  options.make_backend = [&](Rank rank) { return under_test(std::make_unique<LogitsTap>(basin), rank); };
  options.initialise = [&](const std::string& name, std::vector<double>& full) {
    for (const json& p : f["initial"]) {
      if (p["name"] != name) continue;
      const auto values = p["values"].get<std::vector<double>>();
      if (values.size() != full.size()) throw std::runtime_error(name + " has another size than the fixture's");
      full = values;
    }
  };
  t.result = exec::run(plan, lower(plan), data, options);
  t.logits = std::move(basin.pieces);
  return t;
}

/// Largest difference of all logits from `expected` [sequences x rows each, columns], relative to the largest of them.
/// `whole`: of the pair classifier, which every tensor rank has whole. `module`: of multi-token prediction.
inline double worst_logits(const json& f, const Trained& t, const json& logits, bool whole, int module = 0) {
  const auto expected = logits.get<std::vector<double>>();
  double difference = 0, scale = 0;
  std::vector<bool> seen(expected.size(), false);
  for (const double v : expected) scale = std::max(scale, std::abs(v));
  for (const LogitsPiece& p : t.logits) {
    if (p.dims.whole != whole || p.module != module) continue;
    const std::int64_t each = p.dims.rows / f["training"]["micro_batch_size"].get<std::int64_t>();
    for (std::int64_t i = 0; i < p.dims.rows * p.dims.cols; ++i) {
      const std::int64_t row = p.first_sequence * each + i / p.dims.cols;
      const std::int64_t col = i % p.dims.cols + (whole ? 0 : p.tensor_rank * p.dims.cols);
      if (col >= p.dims.vocab_size) continue;
      const auto at = static_cast<std::size_t>(row * p.dims.vocab_size + col);
      difference = std::max(difference, std::abs(p.values[static_cast<std::size_t>(i)] - expected.at(at)));
      seen[at] = true;
    }
  }
  CHECK(std::count(seen.begin(), seen.end(), false) == 0);
  return difference / scale;
}

/// The key's bias shifts all scores of a query alike, so its gradient is zero but for rounding, and AdamW divides that noise
/// by its own size: in single precision those entries wander freely without any effect on the model.
inline void forget_key_bias(const json& f, const std::string& name, std::vector<double>& values) {
  if (name.find("qkv.bias") == std::string::npos) return;
  const auto heads = f["model"]["num_attention_heads"].get<std::size_t>();
  const std::size_t groups = f["model"].value("num_kv_heads", heads), queries = heads / groups;
  const std::size_t dim = values.size() / (heads + 2 * groups);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i / dim % (queries + 2) == queries) values[i] = 0;
}

/// Largest difference relative to the tensor's largest expected value.
inline double worst_values(const std::vector<double>& got, const std::vector<double>& expected) {
  REQUIRE(got.size() == expected.size());
  double difference = 0, scale = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference = std::max(difference, std::abs(got[i] - expected[i]));
    scale = std::max(scale, std::abs(expected[i]));
  }
  return difference / scale;
}

/// Over all tensors of `f[key]`, by name.
inline double worst_tensors(const json& f, const char* key, const std::vector<exec::GatheredTensor>& tensors,
                            bool key_bias) {
  std::map<std::string, std::vector<double>> got;
  for (const exec::GatheredTensor& t : tensors) got[t.name] = t.values;
  CHECK(got.size() == f[key].size());
  double most = 0;
  for (const json& p : f[key]) {
    const std::string name = p["name"];
    INFO(name);
    REQUIRE(got.count(name) == 1);
    auto values = p["values"].get<std::vector<double>>();
    if (!key_bias) {
      forget_key_bias(f, name, values);
      forget_key_bias(f, name, got[name]);
    }
    most = std::max(most, worst_values(got[name], values));
  }
  return most;
}

/// Logits of the first step, its gradients, every step's loss and norm, and the final weights.
inline void check_fixture(const json& f, const FixtureLayout& layout, const exec::TokenSource& data, double tolerance) {
  const Trained t = train(f, layout, data);
  INFO(layout.label());
  CHECK(worst_logits(f, t, f["logits"], false) < tolerance);
  if (f.contains("nsp_logits")) CHECK(worst_logits(f, t, f["nsp_logits"], true) < tolerance);
  for (std::size_t k = 0; f.contains("mtp_logits") && k < f["mtp_logits"].size(); ++k)
    CHECK(worst_logits(f, t, f["mtp_logits"][k], false, static_cast<int>(k) + 1) < tolerance);
  CHECK(worst_tensors(f, "gradients", t.result.gradients[0], true) < tolerance);
  for (std::size_t s = 0; s < t.result.steps.size(); ++s) {
    INFO("step " << s);
    const double loss = f["losses"][s], grad_norm = f["grad_norms"][s];
    CHECK(std::abs(t.result.steps[s].loss - loss) < tolerance * loss);
    CHECK(std::abs(t.result.steps[s].grad_norm - grad_norm) < tolerance * grad_norm);
    REQUIRE(t.result.steps[s].mtp_loss.has_value() == f.contains("mtp_losses"));
    if (!f.contains("mtp_losses")) continue;
    const double modules = f["mtp_losses"][s];
    CHECK(std::abs(*t.result.steps[s].mtp_loss - modules) < tolerance * modules);
  }
  CHECK(worst_tensors(f, "final", t.result.weights, layout.precision == "fp64") < tolerance);
}

/// The same of a fixture by its name.
inline void check_against_pytorch(const std::string& name, const FixtureLayout& layout, const exec::TokenSource& data,
                                  double tolerance) {
  INFO(name);
  check_fixture(read_fixture(name), layout, data, tolerance);
}

}  // namespace tandem::tests

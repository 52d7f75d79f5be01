#include "experiments/tandem/calibration/fit.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/base/json.hpp"
#include "models/base/left_out.hpp"
#include "models/base/presets.hpp"
#include "sim/cost/calibration.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::program;
using nlohmann::json;

namespace {

struct Folder : tests::TemporaryFolder {
  std::string write(const std::string& name, const json& value) const { return file(name, value.dump(2)); }
};

json constant(double value, double low, double high) {
  return {{"value", value}, {"fit", {{"low", low}, {"high", high}}}, {"source", {"general_knowledge"}}, {"verified", false}};
}

json calibration(double ceiling, double memory_share, double launch) {
  return {{"describes", "a made-up device"},
          {"matmul", {{"model", "flat"}, {"ceiling", constant(ceiling, 0.3, 0.9)}}},
          {"memory_share", constant(memory_share, 0.3, 1.0)},
          {"kernel_s", 0},
          {"launch_s", constant(launch, 1e-6, 1e-4)},
          {"communication", {{"overhead_s", 1e-5}, {"inside_share", 0.8}, {"across_share", 0.8}}}};
}

/// A cluster of nodes with eight A100 whose device has the calibration at `path`.
json cluster(const std::string& path) {
  return {{"node", "dgx-a100"}, {"device", "a100-sxm4-80gb"}, {"calibration", path},
          {"fabric", {{"nodes_per_leaf", 20}, {"oversubscription", 1}, {"switch_latency_s", 3e-7}}}};
}

/// Small plans for the host's share, wide ones for the matrix engine's, many tokens of few columns for the memory's.
std::string plan(const std::string& cluster, int i) {
  const std::int64_t hidden = 256 << (i % 5), batch = 1 << (i % 3);
  const json plan = {{"stack", "tandem"}, {"model", {{"family", "gpt"}, {"num_layers", 2}, {"hidden_size", hidden}, {"num_attention_heads", 8}, {"vocab_size", 1024}}},
                     {"parallel", {{"tensor", 1 + i % 2}, {"data", 2}, {"overlap_grad_reduce", true}}},
                     {"training", {{"seq_length", 512}, {"micro_batch_size", batch}, {"global_batch_size", 4 * batch}, {"recompute", i % 5 ? "none" : "full"}}},
                     {"cluster", {{"preset", cluster}, {"devices", 2 + 2 * (i % 2)}}}};
  return plan.dump();
}

std::vector<Measurement> unmeasured(const std::string& cluster) {
  std::vector<Measurement> out;
  for (int i = 0; i < 24; ++i) {
    Measurement m;
    m.id = "r" + std::to_string(i);
    m.set = "set" + std::to_string(i % 3);
    m.grade = "A";
    m.plan_json = plan(cluster, i);
    m.step_time_s = 1;
    out.push_back(std::move(m));
  }
  return out;
}

/// Steps that the file's own constants give, alternately 1 % slower and faster.
std::vector<Measurement> measured(const std::string& cluster, const ConstantsFile& file) {
  std::vector<Measurement> out = unmeasured(cluster);
  const FitCases cases = fit_cases(out, file.path(), Jobs{2});
  std::vector<double> values;
  std::vector<std::size_t> all;
  for (const Constant& c : file.constants()) values.push_back(c.value);
  for (std::size_t i = 0; i < out.size(); ++i) all.push_back(i);
  const LogErrors times = Evaluator(cases.cases, file, Jobs{2}).errors(values, all);
  for (std::size_t i = 0; i < out.size(); ++i) out[i].step_time_s = std::exp(times[i]) * (i / 3 % 2 ? 1.01 : 0.99);
  return out;
}

}  // namespace

TEST_CASE("a calibration's constants are those with a range, and are written back in their places") {
  const Folder folder;
  const ConstantsFile file(folder.write("device.json", calibration(0.5, 0.6, 1e-5)));
  REQUIRE(file.constants().size() == 3);
  const Constant& c = file.constants()[1];
  CHECK((c.key == "matmul.ceiling" && c.value == 0.5 && c.low == 0.3 && c.high == 0.9));
  const json out = json::parse(file.with({2e-5, 0.7, 0.8}, "these records"));
  CHECK(out["launch_s"]["value"] == 2e-5);
  CHECK(out["matmul"]["ceiling"]["value"] == 0.7);
  CHECK(out["memory_share"]["fitted_on"] == "these records");
  CHECK(!out["memory_share"].contains("source"));
  CHECK(out["memory_share"]["fit"]["high"] == 1.0);
  CHECK(out["communication"] == calibration(0, 0, 0)["communication"]);
}

TEST_CASE("whatever calibrations that ship mark as open to fitting can be read and has sound ranges") {
  for (const std::string& name : preset_names("topology/calibration"))
    if (read_text(find_preset("topology/calibration", name)).find("\"fit\"") != std::string::npos)
      CHECK_NOTHROW(ConstantsFile(name));
}

TEST_CASE("a value for each compute type is a constant for each of them") {
  const Folder folder;
  json file = calibration(0.5, 0.6, 1e-5);
  file["matmul"]["ceiling"]["value"] = {{"bf16", 0.6}, {"fp8", 0.5}};
  const ConstantsFile constants(folder.write("device.json", file));
  REQUIRE(constants.constants().size() == 4);
  CHECK(constants.constants()[2].key == "matmul.ceiling.fp8");
  CHECK(json::parse(constants.with({0, 0.1, 0.2, 0}))["matmul"]["ceiling"]["value"]["fp8"] == 0.2);
}

TEST_CASE("a number is read as fitted without the sources that are left out, where the file has it so") {
  const Folder folder;
  json file = calibration(0.5, 0.6, 1e-5);
  for (const char* key : {"memory_share", "launch_s"}) file[key]["fitted_on"] = "some step times";
  const ConstantsFile constants(folder.write("device.json", file));
  const std::string path = folder.write("without.json", json::parse(constants.with_without({{"a", {2e-5, 0.7, 0.8}}, {"b+c", {1e-5, 0.5, 0.6}}})));
  CHECK(sim::load_calibration(path).memory_share == 0.6);
  const Sources left_out{{"a"}, {}};
  const LeftOut without(left_out);
  const sim::Calibration read = sim::load_calibration(path);
  CHECK(read.memory_share == 0.8);
  CHECK(read.matmul.ceiling == 0.7);
  CHECK(read.launch == Duration::seconds(2e-5));
}

TEST_CASE("numbers without a source go when a number is fitted anew") {
  const Folder folder;
  json file = calibration(0.5, 0.6, 1e-5);
  file["memory_share"]["without"] = {{"a", 0.7}};
  const ConstantsFile constants(folder.write("device.json", file));
  CHECK_FALSE(json::parse(constants.with({1e-5, 0.5, 0.65}, "these"))["memory_share"].contains("without"));
  CHECK(json::parse(constants.with_without({{"b", {1e-5, 0.5, 0.9}}}))["memory_share"]["without"] == json{{"b", 0.9}});
}

TEST_CASE("a fit without a source does not follow its step times") {
  const Folder folder;
  const std::string path = folder.write("device.json", calibration(0.62, 0.75, 2e-5));
  const std::string preset = folder.write("cluster.json", cluster(path));
  std::vector<Measurement> records = measured(preset, ConstantsFile(path));
  for (Measurement& m : records)
    if (m.set == "set0") m.step_time_s = 1.3 * *m.step_time_s;
  folder.write("device.json", calibration(0.58, 0.75, 2e-5));
  const ConstantsFile start(path);
  const FitOptions options{Jobs{2}, 0, [](int) {}};
  const auto each = fit_without_each(start, fit_cases(records, path, Jobs{2}), {{"set1", "set1+set2"}, {"set2", "set1+set2"}}, options);
  REQUIRE(each.size() == 2);
  CHECK((each[0].sets == "set0" && each[1].sets == "set1+set2"));
  CHECK(each[0].values[1] == Approx(0.62).epsilon(0.05));
  CHECK(each[1].values[1] < 0.55);
  CHECK_THROWS_WITH(fit_without_each(start, fit_cases({records[0]}, path, Jobs{1}), {}, options), Catch::Contains("two sources"));
}

TEST_CASE("ranges that cannot be are refused by key, and so is a calibration without any") {
  const Folder folder;
  json file = calibration(0.5, 0.6, 1e-5);
  file["memory_share"]["fit"]["low"] = 0.7;
  CHECK_THROWS_WITH(ConstantsFile(folder.write("bad.json", file)), Catch::Contains("memory_share.fit"));
  file["memory_share"]["fit"] = 3;
  CHECK_THROWS_WITH(ConstantsFile(folder.write("bad.json", file)), Catch::Contains("low and high"));
  CHECK_THROWS_AS(ConstantsFile(folder.write("none.json", json{{"memory_share", 0.5}})), ConfigError);
  CHECK_THROWS_AS(ConstantsFile("no-such-device"), ConfigError);
}

TEST_CASE("constants that made the measurements are found again, and sources left out agree") {
  const Folder folder;
  const std::string path = folder.write("device.json", calibration(0.62, 0.75, 2e-5));
  const std::string preset = folder.write("cluster.json", cluster(path));
  const std::vector<Measurement> records = measured(preset, ConstantsFile(path));
  folder.write("device.json", calibration(0.4, 0.5, 6e-6));
  const ConstantsFile start(path);
  const Fit fit = fit_device(start, fit_cases(records, path, Jobs{2}), {Jobs{2}, 0, [](int) {}});
  REQUIRE(fit.constants.size() == 3);
  CHECK(fit.constants[0].before.key == "launch_s");
  CHECK(fit.constants[0].fitted == Approx(2e-5).epsilon(0.1));
  CHECK(fit.constants[1].fitted == Approx(0.62).epsilon(0.05));
  CHECK(fit.constants[2].fitted == Approx(0.75).epsilon(0.08));
  CHECK(fit.before > 0.2);
  CHECK(fit.after < 0.025);
  REQUIRE(fit.left_out);
  CHECK(*fit.left_out < 0.03);
  for (const ConstantFit& c : fit.constants)
    CHECK((!c.at_border && c.least <= c.fitted && c.fitted <= c.most && c.sensitivity > 0));
  CHECK((fit.records == 24 && fit.sources.size() == 3 && fit.sources[0].records == 8));
  CHECK(fitted_on(fit, "today").find("24 records (set0 8, set1 8, set2 8), each source one vote, today") != std::string::npos);
}

TEST_CASE("a sample that misleads is widened, and constants than which nothing better is found stay") {
  const Folder folder;
  const std::string path = folder.write("device.json", calibration(0.62, 0.75, 2e-5));
  const std::string preset = folder.write("cluster.json", cluster(path));
  std::vector<Measurement> records = measured(preset, ConstantsFile(path));
  for (int i : {12, 13, 14}) records[i].step_time_s = 2 * *records[i].step_time_s;  // the one of eight that a sample of one is
  const FitCases cases = fit_cases(records, path, Jobs{2});
  int told = 0;
  const Fit fit = fit_device(ConstantsFile(path), cases, {Jobs{2}, 1, [&](int tried) { told = tried; }});
  CHECK(fit.per_source != 1);
  CHECK(fit.after <= fit.before);
  CHECK(fit.constants[1].fitted == Approx(0.62).epsilon(0.05));
  CHECK(fit.constants[0].fitted == Approx(2e-5).epsilon(0.1));
  CHECK(told == fit.evaluations);
}

TEST_CASE("constants that explain the measurements as they are stay, and nothing is said of others") {
  const Folder folder;
  const std::string path = folder.write("device.json", calibration(0.62345, 0.75678, 2.0345e-5));  // between the points of the search
  const std::string preset = folder.write("cluster.json", cluster(path));
  std::vector<Measurement> records = measured(preset, ConstantsFile(path));
  for (std::size_t i = 0; i < records.size(); ++i) *records[i].step_time_s /= i / 3 % 2 ? 1.01 : 0.99;
  const Fit fit = fit_device(ConstantsFile(path), fit_cases(records, path, Jobs{2}), {Jobs{2}, 3, [](int) {}});
  CHECK((fit.kept && moved(fit) == 0 && !fit.left_out));
  CHECK(fit.after == fit.before);
  for (const ConstantFit& c : fit.constants) CHECK((c.fitted == c.before.value && c.least == c.most && !c.at_border));
  for (const SourceFit& s : fit.sources) CHECK((s.after == s.before && !s.left_out));
  CHECK(to_text(fit).find("no better constants were found") != std::string::npos);
}

TEST_CASE("a constant that no record feels keeps its value, its source and its place in the table") {
  const Folder folder;
  json file = calibration(0.62, 0.75, 2e-5);
  file["communication"]["across_share"] = constant(0.8, 0.4, 0.8);  // every plan runs inside one node
  file["communication"]["across_share"]["without"] = {{"set7", 0.6}};
  const std::string path = folder.write("device.json", file);
  const std::string preset = folder.write("cluster.json", cluster(path));
  std::vector<Measurement> records = measured(preset, ConstantsFile(path));
  records.erase(records.begin(), records.begin() + 4);
  records.resize(1);  // 4,096 columns: the launches hide behind products
  *records[0].step_time_s *= 1.25;
  const ConstantsFile start(path);
  const Fit fit = fit_device(start, fit_cases(records, path, Jobs{1}), {Jobs{1}, 0, [](int) {}});
  REQUIRE(fit.constants.size() == 4);
  UNSCOPED_INFO(to_text(fit));
  CHECK(fit.after < 0.02);
  CHECK(fit.constants[0].before.key == "communication.across_share");
  std::vector<double> values;
  for (const ConstantFit& c : fit.constants) {
    values.push_back(c.fitted);
    if (c.sensitivity < 5e-4) CHECK((c.fitted == c.before.value && !c.at_border));
  }
  CHECK(fit.constants[0].sensitivity == 0);
  CHECK(moved(fit) >= 1);
  const json out = json::parse(start.with(values, "one record"));
  CHECK(out["communication"]["across_share"] == file["communication"]["across_share"]);
  for (const ConstantFit& c : fit.constants) {
    const json& fact = c.before.key == "launch_s" ? out["launch_s"] : c.before.key == "memory_share" ? out["memory_share"] : out["matmul"]["ceiling"];
    if (c.before.key != "communication.across_share") CHECK(fact.contains("fitted_on") == (c.fitted != c.before.value));
  }
}

TEST_CASE("a fit says that fewer records than constants do not determine them") {
  Fit fit;
  for (const double fitted : {2, 3, 1}) {
    ConstantFit c;
    c.before.value = 1, c.fitted = fitted;
    fit.constants.push_back(std::move(c));
  }
  fit.records = 1;
  CHECK(moved(fit) == 2);
  CHECK(to_text(fit).find("1 record moved 2 constants: fewer records than constants do not determine them") != std::string::npos);
  CHECK(json::parse(to_json(fit))["moved"] == 2);
  fit.records = 2;
  CHECK(to_text(fit).find("do not determine") == std::string::npos);
}

TEST_CASE("a constant that would leave its range ends at the border and is said to") {
  const Folder folder;
  const std::string path = folder.write("device.json", calibration(0.62, 0.75, 2e-5));
  const std::string preset = folder.write("cluster.json", cluster(path));
  const std::vector<Measurement> records = measured(preset, ConstantsFile(path));
  json narrow = calibration(0.62, 0.75, 4e-5);
  narrow["launch_s"]["fit"] = {{"low", 3e-5}, {"high", 6e-5}};
  for (const char* known : {"memory_share"}) narrow[known].erase("fit");
  narrow["matmul"]["ceiling"].erase("fit");
  folder.write("device.json", narrow);
  const Fit fit = fit_device(ConstantsFile(path), fit_cases(records, path, Jobs{2}), {Jobs{2}, 0, [](int) {}});
  REQUIRE(fit.constants.size() == 1);
  CHECK((fit.constants[0].at_border && fit.constants[0].fitted == 3e-5));
  CHECK(to_text(fit).find("AT ITS BORDER") != std::string::npos);
}

TEST_CASE("records of other devices take no part, and without any there is nothing to fit") {
  const Folder folder;
  const std::string path = folder.write("device.json", calibration(0.62, 0.75, 2e-5));
  const std::vector<Measurement> records = unmeasured("dgx-h100");
  const FitCases cases = fit_cases(records, path, Jobs{2});
  CHECK((cases.cases.empty() && cases.refused == 0));
  CHECK_THROWS_AS(fit_device(ConstantsFile(path), cases, {}), ConfigError);
}

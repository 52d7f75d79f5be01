#include "experiments/tandem/validation/left_out.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "experiments/tandem/validation/statistics.hpp"
#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"

namespace tandem::program {

namespace {

using nlohmann::json;

constexpr std::string_view kEach = "each";
constexpr std::string_view kFolder = "topology/calibration";
constexpr double kHalf = 0.5;
/// Words in `fitted_on` by which a number may rest on every source of its device.
constexpr std::array kOfAll{" published ", " the same step times ", " the same records "};

using Names = std::set<std::string>;

bool meet(const Names& a, const Names& b) {
  return std::any_of(a.begin(), a.end(), [&](const std::string& name) { return b.contains(name); });
}

struct Source {
  Names published_in, evidence;
};

std::map<std::string, Source> by_set(const std::vector<Measurement>& measurements) {
  std::map<std::string, Source> out;
  for (const Measurement& m : measurements) {
    Source& source = out[m.set];
    source.published_in.insert(m.published_in.begin(), m.published_in.end());
    source.evidence.insert(m.evidence.begin(), m.evidence.end());
  }
  return out;
}

/// These sets, and all sets published in the same places.
Sources together(const std::map<std::string, Source>& sources, const Names& sets) {
  Names names = sets, evidence;
  for (const auto& [name, source] : sources) {
    const Names& places = source.published_in;
    const auto shares = [&](const std::string& set) { return meet(places, sources.at(set).published_in); };
    if (std::any_of(sets.begin(), sets.end(), shares)) names.insert(name);
  }
  for (const std::string& name : names) {
    const Source& source = sources.at(name);
    evidence.insert(source.published_in.begin(), source.published_in.end());
    evidence.insert(source.evidence.begin(), source.evidence.end());
  }
  return {{names.begin(), names.end()}, {evidence.begin(), evidence.end()}};
}

void require_known(const std::map<std::string, Source>& sources, const Names& wanted) {
  std::vector<std::string> known;
  for (const auto& [name, source] : sources) known.push_back(name);
  for (const std::string& name : wanted)
    if (!sources.contains(name))
      throw ConfigError(Problem{"", "--leave-out", name, "there are no records of this source",
                                "given are " + list_text(known) + "; " + std::string(kEach) + " leaves out each in turn"});
}

/// Lower-case letters and digits; all else becomes a space. For comparing prose with names of sets.
std::string plain(std::string_view text) {
  std::string out = " ";
  for (const unsigned char c : text) out += std::isalnum(c) != 0 ? static_cast<char>(std::tolower(c)) : ' ';
  return out + " ";
}

/// Words by which prose may name a source: its sets, and its repositories.
Names words_of(const Sources& sources) {
  Names out;
  for (const std::string& set : sources.sets) out.insert(plain(set));
  for (const std::string& e : sources.evidence) out.insert(plain(e.substr(e.find('/') + 1)));
  return out;
}

bool rests_on(const std::string& fitted_on, const Names& words) {
  const std::string text = plain(fitted_on);
  const auto names = [&](std::string_view word) { return text.find(word) != text.npos; };
  if (!names(" step times ") && !names(" the same records ")) return false;
  return std::any_of(words.begin(), words.end(), names) || std::any_of(kOfAll.begin(), kOfAll.end(), names);
}

std::vector<std::string> keys_of(const json& object) {
  std::vector<std::string> out;
  for (const auto& [key, value] : object.items()) out.push_back(key);
  return out;
}

void collect(const json& at, const std::string& key, const Names& words, std::vector<std::string>& out) {
  if (!at.is_object()) return;
  if (at.contains("value") && at.contains("fitted_on")) {
    const bool free = at.contains("without") && !choice_without(keys_of(at["without"])).empty();
    if (!free && rests_on(at["fitted_on"], words)) out.push_back(key);
    return;
  }
  for (const auto& [name, value] : at.items()) collect(value, key.empty() ? name : key + "." + name, words, out);
}

/// Numbers that still rest on the source, over all devices of a set's records.
std::vector<std::string> still_in(const std::vector<JudgedRecord>& records, const std::string& set) {
  std::map<std::string, const Sources*> devices;
  for (const JudgedRecord& r : records) {
    const bool tells = r.measured.set == set && r.counts() && r.timed();
    if (tells && !r.plan.calibration.empty()) devices[r.plan.calibration] = &r.measured.without;
  }
  std::vector<std::string> out;
  for (const auto& [device, sources] : devices)
    for (const std::string& key : still_fitted_on(device, *sources)) {
      out.push_back(device);
      out.back() += ": " + key;
    }
  return out;
}

std::vector<std::string> together_with(const std::vector<JudgedRecord>& records, const std::string& set) {
  const auto first = std::find_if(records.begin(), records.end(), [&](const JudgedRecord& r) { return r.measured.set == set; });
  std::vector<std::string> out;
  std::copy_if(first->measured.without.sets.begin(), first->measured.without.sets.end(), std::back_inserter(out),
               [&](const std::string& name) { return name != set; });
  return out;
}

std::optional<double> mape_of(const Summary& usual, const std::string& set) {
  for (const SetSummary& s : usual.sets)
    if (s.name == set) return s.time.mape;
  return std::nullopt;
}

}  // namespace

std::map<std::string, std::string> one_source(const std::vector<Measurement>& measurements) {
  const std::map<std::string, Source> sources = by_set(measurements);
  std::map<std::string, std::string> out;
  for (const auto& [name, source] : sources)
    for (const std::string& set : together(sources, {name}).sets) out[name] += (out[name].empty() ? "" : "+") + set;
  return out;
}

std::vector<Measurement> left_out(const std::vector<Measurement>& measurements, const std::vector<std::string>& wanted) {
  const std::map<std::string, Source> sources = by_set(measurements);
  Names sets(wanted.begin(), wanted.end());
  const bool each = sets.erase(std::string(kEach)) > 0;
  require_known(sources, sets);
  std::map<std::string, Sources> without;
  for (const auto& [name, source] : sources)
    if (each || sets.contains(name)) without[name] = together(sources, each ? Names{name} : sets);
  std::vector<Measurement> out;
  for (const Measurement& m : measurements)
    if (const auto found = without.find(m.set); found != without.end()) out.emplace_back(m).without = found->second;
  return out;
}

std::vector<std::string> still_fitted_on(const std::string& calibration, const Sources& sources) {
  const std::string path = is_preset_path(calibration) ? calibration : find_preset(kFolder, calibration);
  std::vector<std::string> out;
  if (path.empty()) return out;
  const LeftOut without(sources);
  collect(read_json(path), "", words_of(sources), out);
  return out;
}

LeftOutSummary summarise_left_out(std::vector<JudgedRecord> without, const Summary& usual, const SummaryOptions& options) {
  const Summary all = summarise(without, options);
  LeftOutSummary out;
  out.over_sources = all.over_sets;
  std::vector<double> with, half;
  for (const SetSummary& s : all.sets) {
    if (s.time.n == 0) continue;
    out.sources.push_back({s, mape_of(usual, s.name), together_with(without, s.name), still_in(without, s.name)});
    if (s.excluded) continue;
    if (const auto& mape = out.sources.back().mape_with) with.push_back(*mape);
    if (s.coverage) half.push_back(*s.coverage >= kHalf ? 1 : 0);
  }
  if (!with.empty()) out.mape_with = mean(with);
  if (!half.empty()) out.half_covered = mean(half);
  out.records = std::move(without);
  return out;
}

}  // namespace tandem::program

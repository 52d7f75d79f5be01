#include "models/arguments/stage_layers.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>

#include "models/arguments/argument_text.hpp"
#include "models/arguments/costed_split.hpp"
#include "models/arguments/hybrid_pattern.hpp"
#include "models/arguments/loss_chunks.hpp"
#include "models/arguments/step_counts.hpp"
#include "models/base/error.hpp"
#include "models/schedule/schedule.hpp"

namespace tandem::arguments {
namespace {

using nlohmann::json;

std::int64_t whole(const json& v, const char* what) {
  if (v.is_number_integer() && v.get<std::int64_t>() >= 0 && v.get<std::int64_t>() <= 100'000) return v.get<std::int64_t>();
  throw ConfigError(Problem{"", "", value_text(v), std::string(what) + " must be a whole number from 0 to 100000", "give one"});
}

/// `layers` in `parts` equal parts.
std::int64_t divided(std::int64_t layers, std::int64_t parts, const char* what) {
  if (parts > 0 && layers >= 0 && layers % parts == 0) return layers / parts;
  throw ConfigError(Problem{"", "", std::to_string(layers), std::string(what) + " do not divide into " + std::to_string(parts) + " equal parts",
                            "give a number of layers, stages and chunks that divide"});
}

/// The chunks of stages with so many layers each.
std::vector<std::int64_t> chunks_of(const std::vector<std::int64_t>& stages, std::int64_t chunks) {
  std::vector<std::int64_t> out;
  for (std::int64_t c = 0; c < chunks; ++c)
    for (const std::int64_t layers : stages) out.push_back(divided(layers, chunks, "a stage's layers"));
  return out;
}

json stage_layers(const std::vector<json>& a) {
  const std::int64_t layers = whole(a[0], "layers"), stages = whole(a[1], "stages"), chunks = whole(a[2], "chunks");
  std::int64_t left = layers, others = stages;
  for (const json& end : {a[3], a[4]})
    if (!end.is_null()) left -= whole(end, "a stage's layers"), --others;
  std::vector<std::int64_t> each(static_cast<std::size_t>(stages), others > 0 ? divided(left, others, "the layers of the other stages") : 0);
  if (each.empty()) return json::array();
  if (!a[3].is_null()) each.front() = whole(a[3], "a stage's layers");
  if (!a[4].is_null()) each.back() = whole(a[4], "a stage's layers");
  return chunks_of(each, chunks);
}

json ends_as_layers(const std::vector<json>& a) {
  const std::int64_t layers = whole(a[0], "layers"), parts = whole(a[1], "stages") * whole(a[2], "chunks");
  const std::int64_t embedding = a[3] == true ? 1 : 0, loss = a[4] == true ? 1 : 0;
  const std::int64_t each = divided(layers + embedding + loss, parts, "layers with the ends");
  std::vector<std::int64_t> out(static_cast<std::size_t>(parts), each);
  out.front() -= embedding;
  out.back() -= loss;
  return out;
}

/// Layers of `parts` chunks, one or more, that are as equal as can be, where the ends count as `first` and `last` layers more.
std::vector<std::int64_t> equal_with_ends(std::int64_t layers, std::int64_t parts, std::int64_t first, std::int64_t last) {
  const std::int64_t all = layers + first + last, each = all / parts, more = all % parts;
  std::vector<std::int64_t> out(static_cast<std::size_t>(parts), each);
  for (std::int64_t i = 0; i < more; ++i) ++out[static_cast<std::size_t>(i)];
  out.front() -= first;
  out.back() -= last;
  return out;
}

json weighted_ends(const std::vector<json>& a) {
  const std::int64_t layers = whole(a[0], "layers"), parts = whole(a[1], "chunks");
  const std::int64_t first = whole(a[2], "the first stage's layers less"), last = whole(a[3], "the last stage's layers less");
  if (parts == 0) return json::array();
  std::vector<std::int64_t> out = equal_with_ends(layers, parts, first, last);
  if (out.front() < 0 || out.back() < 0)
    throw ConfigError(Problem{"", "", std::to_string(layers), "layers are too few for " + std::to_string(parts) + " chunks", "use fewer stages or chunks"});
  return out;
}

/// Layers of the stage that has most, of chunks in the order of a micro-batch. `turns`: every second round goes back (a V).
json largest_stage(const json& chunks, const json& of, const json& turns) {
  const std::int64_t stages = whole(of, "stages");
  if (!chunks.is_array() || stages == 0) return {};
  std::vector<std::int64_t> each(static_cast<std::size_t>(stages));
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const std::size_t place = c % each.size(), back = each.size() - 1 - place;
    each[turns == true && c / each.size() % 2 == 1 ? back : place] += whole(chunks[c], "a chunk's layers");
  }
  return *std::max_element(each.begin(), each.end());
}

/// Layers of chunks whose modules have names: of ["tok_embeddings", "layers.0", "layers.1"] two.
json layers_named(const json& chunks) {
  std::vector<std::int64_t> out;
  for (const json& names : chunks) {
    const auto layer = [](const json& name) { return name.is_string() && name.get<std::string>().starts_with("layers."); };
    out.push_back(names.is_array() ? std::count_if(names.begin(), names.end(), layer) : 0);
  }
  return out;
}

/// The modules of each chunk by name, as layers_named reads them. Null if weighted_ends says the same with `first` and `last`.
json chunk_modules(const json& layers, const json& first, const json& last, const std::string& head) {
  std::vector<std::int64_t> split;
  for (const json& of_chunk : layers) split.push_back(whole(of_chunk, "a chunk's layers"));
  const std::int64_t all = std::accumulate(split.begin(), split.end(), std::int64_t{0});
  const auto parts = static_cast<std::int64_t>(split.size());
  if (parts == 0 || split == equal_with_ends(all, parts, whole(first, "layers less"), whole(last, "layers less"))) return {};
  json out = json::array();
  std::int64_t layer = 0;
  for (const std::int64_t of_chunk : split) {
    json names = out.empty() ? json{"tok_embeddings"} : json::array();
    for (std::int64_t end = layer + of_chunk; layer < end; ++layer) names.push_back("layers." + std::to_string(layer));
    out.push_back(std::move(names));
  }
  for (const std::string& name : {std::string("norm"), head}) out.back().push_back(name);
  return out;
}

/// Layers of chunks that are equal but for those left over, which go to the chunks behind the first, one each.
json more_behind_the_first(const json& all, const json& of) {
  const std::int64_t layers = whole(all, "layers"), parts = whole(of, "chunks");
  std::vector<std::int64_t> out;
  std::int64_t more = parts > 0 ? layers % parts : 0, left = layers;
  for (std::int64_t i = 0; i + 1 < parts; ++i) {
    const bool longer = i > 0 && more > 0;
    out.push_back(layers / parts + (longer ? 1 : 0));
    more -= longer ? 1 : 0;
    left -= out.back();
  }
  if (parts > 0) out.push_back(left);
  return out;
}

json small_letters(const json& v) {
  if (!v.is_string()) return v;
  std::string out = v.get<std::string>();
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

json whole_number(const json& v);

/// Layers of chunks between points, each a layer's name. `behind`: a point is the last layer of a chunk, not the first of the next.
json split_at(const json& points, const json& layers, bool behind) {
  std::vector<std::int64_t> out;
  std::int64_t begun = 0;
  for (const json& point : points) {
    const std::string name = point.is_string() ? point.get<std::string>() : "";
    const std::int64_t next = whole_number(json(name.substr(name.rfind('.') + 1))).get<std::int64_t>() + (behind ? 1 : 0);
    out.push_back(next - begun);
    begun = next;
  }
  out.push_back(whole(layers, "layers") - begun);
  return out;
}

/// Names of the last layer of each chunk but the last, as split_at reads them: "model.layers.7".
json cuts_behind(const json& layers) {
  json out = json::array();
  std::int64_t behind = 0;
  for (std::size_t i = 0; i + 1 < layers.size(); ++i) {
    if (layers[i] == 0)
      throw ConfigError(Problem{"", "parallel.pipeline_split", layers.dump(), "has a chunk without a layer, behind which no cut can stand",
                                "give every chunk a layer"});
    behind += whole(layers[i], "a chunk's layers");
    out.push_back("model.layers." + std::to_string(behind - 1));
  }
  return out;
}

/// A number that a file writes as text, "2".
json whole_number(const json& v) {
  if (v.is_number_integer()) return v;
  const std::string text = v.is_string() ? v.get<std::string>() : "";
  if (!text.empty() && text.size() < 7 && text.find_first_not_of("0123456789") == std::string::npos) return std::stoll(text);
  throw ConfigError(Problem{"", "", value_text(v), "is no whole number", "give one"});
}

/// `mtp` modules stand on the last chunk.
json layout_text(const json& layers, const json& mtp) {
  std::string out = "E";
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::int64_t n = whole(layers[i], "a chunk's layers");
    out += i > 0 ? "|" : "";
    if (n > 0) out += n > 1 ? "t*" + std::to_string(n) : "t";
  }
  return out + std::string(static_cast<std::size_t>(whole(mtp, "modules of multi-token prediction")), 'm') + "L";
}

/// The values with `between` between them.
json joined(const std::vector<json>& a, const char* between) {
  std::string out;
  for (const json& v : a) out += (out.empty() ? "" : between) + value_text(v);
  return out;
}

/// "([0]*3+[1]*58)": zeros, then up to `all` a one in `every`.
json zeros_and_ones(const json& zeros, const json& all, const json& every) {
  const std::int64_t n = whole(zeros, "layers"), layers = whole(all, "layers"), step = whole(every, "a frequency");
  if (step == 1) return "([0]*" + std::to_string(n) + "+[1]*" + std::to_string(layers - n) + ")";
  std::string out;
  for (std::int64_t l = 0; l < layers; ++l) out += std::string(out.empty() ? "" : ",") + (l >= n && (l - n) % step == 0 ? "1" : "0");
  return "[" + out + "]";
}

json group_of(const json& stages, const json& micro_batches) {
  const auto counts = [](const json& v) { return v.is_number_integer() && v.get<std::int64_t>() > 0; };
  if (!counts(stages) || !counts(micro_batches)) return json();
  ScheduleShape shape;
  shape.stages = stages.get<std::int64_t>(), shape.micro_batches = micro_batches.get<std::int64_t>();
  return interleaved_group(shape);
}

/// Files that Hydra's `defaults` add to this one. Those that are optional, such as settings of an overlap, do not count.
std::int64_t composed_of(const json& defaults) {
  std::int64_t out = 0;
  for (const json& entry : defaults.is_array() ? defaults : json::array()) {
    const bool group = entry.is_object() && !entry.empty();
    const std::string name = entry.is_string() ? entry.get<std::string>() : group ? entry.begin().key() : "";
    if (name != "_self_" && !name.starts_with("optional ") && !name.starts_with("override hydra/")) ++out;
  }
  return out;
}

/// The parts of a text between commas and spaces; a list as it is.
json words(const json& of) {
  if (of.is_array()) return of;
  json out = json::array();
  std::string word;
  for (const char c : (of.is_string() ? of.get<std::string>() : "") + ",") {
    if (c != ',' && c != ' ') word += c;
    else if (!word.empty()) out.push_back(std::exchange(word, ""));
  }
  return out;
}

/// A list's values, each once, in the order of the first.
json distinct(const json& list) {
  json out = json::array();
  for (const json& value : list)
    if (std::find(out.begin(), out.end(), value) == out.end()) out.push_back(value);
  return out;
}

/// A list, or a value as a list of one, with `value` behind it unless it is there.
json appended(const json& list, const json& value) {
  json out = list.is_array() ? list : json::array({list});
  if (std::find(out.begin(), out.end(), value) == out.end()) out.push_back(value);
  return out;
}

/// A path without its folders.
std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

json stage_call(const std::string& name, const std::vector<json>& a) {
  if (name == "stage_layers" && a.size() == 5) return stage_layers(a);
  if (name == "ends_as_layers" && a.size() == 5) return ends_as_layers(a);
  if (name == "weighted_ends" && a.size() == 4) return weighted_ends(a);
  if (name == "largest_stage" && a.size() == 3) return largest_stage(a[0], a[1], a[2]);
  if (name == "more_behind_the_first" && a.size() == 2) return more_behind_the_first(a[0], a[1]);
  if (name == "small_letters" && a.size() == 1) return small_letters(a[0]);
  if (name == "costed_split" && a.size() == 4) return costed_split(a[0], a[1], a[2], a[3]);
  if (name == "words" && a.size() == 1) return words(a[0]);
  if (name == "file_name" && a.size() == 1) return a[0].is_string() ? json(file_name(a[0].get<std::string>())) : json();
  if (name == "has" && a.size() == 2) return a[0].is_object() && a[1].is_string() && a[0].contains(a[1].get<std::string>());
  if (name == "distinct" && a.size() == 1) return a[0].is_array() ? distinct(a[0]) : json();
  if (name == "appended" && a.size() == 2) return appended(a[0], a[1]);
  if (name == "layers_named" && a.size() == 1) return layers_named(a[0]);
  if (name == "chunk_modules" && a.size() == 4) return a[0].is_array() ? chunk_modules(a[0], a[1], a[2], a[3].get<std::string>()) : json();
  if (name == "split_before" && a.size() == 2) return split_at(a[0], a[1], false);
  if (name == "split_behind" && a.size() == 2) return split_at(a[0], a[1], true);
  if (name == "cuts_behind" && a.size() == 1) return cuts_behind(a[0]);
  if (name == "whole_number" && a.size() == 1) return whole_number(a[0]);
  if (name == "text" && a.size() == 1) return a[0].is_string() ? a[0] : json(a[0].dump());
  if (name == "layout_layers" && a.size() == 1) return a[0].is_string() ? layout_layers(a[0].get<std::string>()) : json();
  if (name == "layout_text" && a.size() == 2) return a[0].is_array() ? layout_text(a[0], a[1]) : json();
  if (name == "zeros_and_ones" && a.size() == 3) return zeros_and_ones(a[0], a[1], a[2]);
  if (name == "listed" && a.size() == 1) return a[0].is_string() ? argument_value(a[0].get<std::string>()) : a[0];
  if (name == "comma_text") return joined(a, ",");
  if (name == "list") return json(a);
  if (name == "composed_of" && a.size() == 1) return composed_of(a[0]);
  if (name == "power_of_two" && a.size() == 1) return std::ldexp(1.0, static_cast<int>(whole(a[0], "an exponent")));
  if (name == "exponent_of_two" && a.size() == 1) return a[0].is_number() ? json(std::lround(std::log2(a[0].get<double>()))) : json();
  if (name == "liger_chunks" && a.size() == 3) return liger_chunks(a[0], a[1], a[2]);
  if (name == "steps_of_samples" && a.size() == 3) return steps_of_samples(a);
  if (name == "steps_of_tokens" && a.size() == 4) return steps_of_tokens(a);
  if (name == "interleaved_group" && a.size() == 2) return group_of(a[0], a[1]);
  if (name == "layers_of_pattern" && a.size() == 1) return layers_of_pattern(a[0]);
  if (name == "chunks_of_pattern" && a.size() == 1) return chunks_of_pattern(a[0]);
  if (name == "prediction_of_pattern" && a.size() == 1) return prediction_of_pattern(a[0]);
  if (name == "pattern_of_ratios" && a.size() == 3) return pattern_of_ratios(a[0], a[1], a[2]);
  if (name == "experts_of_pattern" && a.size() == 1) return experts_of_pattern(a[0]);
  if (name == "pattern_of_layers" && a.size() == 8) return pattern_of_layers(a);
  if (name == "ones_of_letters" && a.size() == 3) return ones_of_letters(a[0], a[1], a[2]);
  throw ContractError("a framework's table calls a function that is not there");
}

}  // namespace tandem::arguments

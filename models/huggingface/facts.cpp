#include "models/huggingface/facts.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "models/base/dotted_path.hpp"
#include "models/base/text.hpp"
#include "models/huggingface/expert_layers.hpp"
#include "models/ops/window.hpp"

namespace tandem::huggingface {
namespace {

using nlohmann::json;

constexpr std::int64_t kUsualSequence = 4096;

/// Paths of all fields that say something.
void collect(const json& object, const std::string& prefix, std::vector<std::string>& out) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object() && !value.empty()) collect(value, prefix + key + ".", out);
    else if (!value.is_null()) out.push_back(prefix + key);
  }
}

/// Whether a field is the document's, not its language model's, where the document has that apart: towers, and how weights are stored.
/// Of all other fields transformers gives the language model only what its own object has.
bool outside_language_model(const std::string& path) {
  const std::string first = path.substr(0, path.find('.'));
  return first.ends_with("_config") || first == "tie_word_embeddings" || first == "transformers_version";
}

/// Names of fields for a message: those that have a value, or those that have none where that is all of them.
std::string fields_text(const FieldValues& fields) {
  std::vector<std::string> names, missing;
  for (const FieldValue& f : fields) (f.text == "null" ? missing : names).push_back(f.field);
  return list_text(names.empty() ? missing : names);
}

}  // namespace

Facts::Facts(const json& config, const std::string& inner, const json& table, std::string file, std::int64_t sequence)
    : config_(config), inner_(inner.empty() ? config : *find_dotted(config, inner)), table_(table), file_(std::move(file)),
      inner_name_(inner), sequence_(sequence) {}

void Facts::note(const std::string& path, const json& value, bool by_default) {
  if (value.is_null()) missing_ = path;
  for (FieldValues& fields : trace_) fields.insert({path, value_text(value), by_default});
}

json Facts::default_of(const std::string& path) const {
  const auto all = table_.find("defaults");
  if (all == table_.end()) return {};
  if (all->contains(path)) return (*all)[path];
  const json* inside = find_dotted(*all, path);
  return inside == nullptr ? json() : *inside;
}

json Facts::in_file(const std::string& path) {
  const std::string inside = inner_name_.empty() ? path : inner_name_ + "." + path;
  if (const json* value = find_dotted(inner_, path)) return remember(inside, *value);
  const json* value = !inner_name_.empty() && outside_language_model(path) ? find_dotted(config_, path) : nullptr;
  return value == nullptr ? json(json::value_t::discarded) : remember(path, *value);
}

json Facts::at_place(const std::string& path, bool outer) {
  const std::string name = outer || inner_name_.empty() ? path : inner_name_ + "." + path;
  if (const json* value = find_dotted(outer ? config_ : inner_, path)) return remember(name, *value);
  const auto classes = table_.find("outer_defaults");
  const bool own = outer && classes != table_.end();
  json value = own ? classes->value(path, json()) : default_of(path);
  note(name, value, true);
  return value;
}

json Facts::remember(const std::string& path, const json& value) {
  read_.insert(path);
  note(path, value, false);
  return value;
}

json Facts::current_names(const std::string& path, json value) const {
  const auto lists = table_.find("layer_lists"), renamed = table_.find("renamed");
  if (!value.is_array() || lists == table_.end() || renamed == table_.end() || !lists->contains(path)) return value;
  for (json& name : value)
    if (name.is_string() && renamed->contains(name.get_ref<const std::string&>())) name = (*renamed)[name.get<std::string>()];
  return value;
}

json Facts::field(const std::string& path) {
  for (const bool outer : {true, false})
    if (path.starts_with(outer ? "outer." : "inner.")) return at_place(path.substr(6), outer);
  json value = in_file(path);
  const auto all = table_.find("spellings");
  if (value.is_discarded() && all != table_.end() && all->contains(path)) {
    const json& others = (*all)[path];
    for (const json& other : others)
      if (value.is_discarded()) value = in_file(other.get<std::string>());
  }
  if (!value.is_discarded()) return current_names(path, std::move(value));
  value = default_of(path);
  note(inner_name_.empty() ? path : inner_name_ + "." + path, value, true);
  return value;
}

const json& Facts::experts() {
  if (!known_.contains("experts()")) {
    std::vector<FieldValues> asked = std::exchange(trace_, {{}});
    auto made = std::make_shared<const json>(expert_layer_facts(*this));
    known_["experts()"] = {std::move(made), trace_.back()};
    trace_ = std::move(asked);
  }
  return known_["experts()"].value();
}

bool Facts::has(const std::string& name) const { return table_.contains("facts") && table_["facts"].contains(name); }

json Facts::fact(const std::string& name) {
  if (name == "sequence") return sequence();
  if (name == "longest") return sequence_ > 0 ? json(sequence_) : fact("positions");
  if (name == "keys") return (static_cast<double>(sequence()) + 1) / 2;
  if (name == "moe.experts" || name == "moe.dense") return experts().at(name.substr(4));  // many conditions read it: not a source
  if (name.starts_with("moe.")) {
    const json made = experts().at(name.substr(4));
    for (FieldValues& fields : trace_) fields.insert(known_["experts()"].from.begin(), known_["experts()"].from.end());
    return made;
  }
  if (const auto known = known_.find(name); known != known_.end()) {
    for (FieldValues& fields : trace_) fields.insert(known->second.from.begin(), known->second.from.end());
    for (const FieldValue& f : known->second.from)
      if (known->second.value().is_null() && f.text == "null") missing_ = f.field;
    return known->second.value();
  }
  if (!has(name)) throw ContractError("a table of a model type uses a fact that it does not have: " + name);
  require(open_.insert(name).second, "facts of a model type depend on each other in a circle");
  const json& text = table_["facts"][name];
  const bool condition = table_.contains("conditions") && table_["conditions"].contains(name);
  std::vector<FieldValues> asked = condition ? std::exchange(trace_, {{}}) : std::vector<FieldValues>();
  Traced made = text.is_string() ? value(text.get<std::string>()) : Traced{std::make_shared<const json>(text), {}};
  if (condition) trace_ = std::move(asked), made.from.clear();
  open_.erase(name);
  return (known_[name] = std::move(made)).value();
}

json Facts::call(const std::string& name, const std::vector<json>& a) {
  const bool chunks = name == "keys_in_chunks", blocks = name == "keys_in_blocks";
  require((name == "keys_in" || chunks || blocks) && a.size() == (blocks ? 2U : 1U),
          "a table of a model type calls a function that is not there");
  // Mean number of keys that a query sees of itself and those before it, in a window, or in so many blocks of keys.
  const auto size = [](const json& v) { return v.is_number_integer() ? std::max<std::int64_t>(0, v.get<std::int64_t>()) : 0; };
  const std::int64_t s = sequence(), w = size(a[0]), block = blocks ? size(a[1]) : 0;
  const std::int64_t pairs = block > 0 ? pairs_in_blocks(s, w, block) : pairs_seen(s, w, chunks);
  return static_cast<double>(pairs) / static_cast<double>(s);
}

Traced Facts::value(const std::string& expression) {
  if (trace_.empty()) missing_.clear();
  trace_.emplace_back();
  const std::size_t depth = trace_.size();
  try {
    auto made = std::make_shared<const json>(evaluate(expression, *this));
    Traced traced{std::move(made), trace_.back()};
    trace_.pop_back();
    return traced;
  } catch (const ConfigError& e) {
    Problem p = e.problems().front();
    trace_.resize(depth);
    if (p.file.empty()) {
      p.file = file_;
      if (p.field.empty() && p.value == "null" && !missing_.empty()) p.field = missing_, p.value.clear();
      if (p.field.empty()) p.field = trace_.back().empty() ? expression : fields_text(trace_.back());
    }
    trace_.pop_back();
    throw ConfigError(std::move(p));
  }
}

std::int64_t Facts::whole(const std::string& expression) {
  const Traced v = value(expression);
  if (v.value().is_number_integer() && v.value().get<std::int64_t>() >= 0) return v.value().get<std::int64_t>();
  const bool missing = v.value().is_null();
  throw ConfigError(Problem{file_, v.from.empty() ? expression : fields_text(v.from), missing ? "" : value_text(v.value()),
                            missing ? "is missing, and transformers has no default for it" : "must come to a whole number from 0",
                            "give what the model has"});
}

double Facts::number(const std::string& expression) {
  const Traced v = value(expression);
  if (v.value().is_number()) return v.value().get<double>();
  throw ConfigError(Problem{file_, fields_text(v.from), value_text(v.value()), "must be a number", "give what the model has"});
}

bool Facts::truth(const std::string& expression) {
  const Traced v = value(expression);
  return v.value().is_boolean() && v.value().get<bool>();
}

std::int64_t Facts::sequence() {
  if (sequence_ > 0) return sequence_;
  const json most = fact("positions");
  const bool known = most.is_number_integer() && most.get<std::int64_t>() > 0;
  return known ? std::min(kUsualSequence, most.get<std::int64_t>()) : kUsualSequence;
}

std::vector<std::string> Facts::unread() const {
  std::vector<std::string> all, out;
  collect(config_, "", all);
  const auto covered = [&](const std::string& path) {
    const auto is_it = [&](const std::string& r) { return path == r || path.starts_with(r + ".") || r.starts_with(path + "."); };
    return std::any_of(read_.begin(), read_.end(), is_it);
  };
  std::copy_if(all.begin(), all.end(), std::back_inserter(out), [&](const std::string& path) { return !covered(path); });
  return out;
}

}  // namespace tandem::huggingface

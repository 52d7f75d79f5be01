#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "models/base/files.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/fields/plan_fields.hpp"
#include "models/huggingface/config_file.hpp"
#include "models/huggingface/imported_model.hpp"
#include "models/planfile/plan_draft.hpp"
#include "models/planfile/plan_steps.hpp"
#include "models/stack/resolve.hpp"

namespace tandem {
namespace {

using nlohmann::json;

constexpr std::size_t kMostProblems = 20;  ///< that one refusal tells

constexpr std::array<std::string_view, 4> kParts{"model", "parallel", "training", "cluster"};

struct Alias {
  std::string_view said, meant;
};

/// What people write who come from other tools.
constexpr std::array kAliases{Alias{"tp", "tensor"},
                              Alias{"pp", "pipeline"},
                              Alias{"dp", "data"},
                              Alias{"cp", "context"},
                              Alias{"ep", "expert"},
                              Alias{"vpp", "virtual_pipeline"},
                              Alias{"sp", "sequence_parallel"},
                              Alias{"zero", "zero_stage"},
                              Alias{"lr", "learning_rate"},
                              Alias{"min_lr", "min_learning_rate"},
                              Alias{"mbs", "micro_batch_size"},
                              Alias{"gbs", "global_batch_size"},
                              Alias{"batch_size", "global_batch_size"},
                              Alias{"dtype", "precision"},
                              Alias{"gpus", "devices"},
                              Alias{"num_gpus", "devices"},
                              Alias{"n_layer", "num_layers"},
                              Alias{"n_head", "num_attention_heads"},
                              Alias{"n_embd", "hidden_size"},
                              Alias{"sequence_length", "seq_length"}};

std::string joined(const std::string& prefix, const std::string& key) {
  return prefix.empty() ? key : prefix + "." + key;
}

bool holds(const std::vector<std::string>& keys, std::string_view key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

std::string alias_of(std::string_view key, const std::vector<std::string>& keys) {
  for (const Alias& a : kAliases) {
    if (a.said == key && holds(keys, a.meant)) return std::string(a.meant);
  }
  return {};
}

/// The group that knows `key`, where it is not the one it stands in.
std::string other_home(std::string_view key) {
  const std::string ending = "." + std::string(key);
  for (const PlanField& f : plan_fields()) {
    if (f.path.ends_with(ending)) return f.path.substr(0, f.path.size() - ending.size());
  }
  return {};
}

/// "moe.num_experts" -> {"moe": {"num_experts": ...}}
std::string nested(std::string_view dotted) {
  const std::size_t dot = dotted.find('.');
  const std::string key = "{\"" + std::string(dotted.substr(0, dot)) + "\": ";
  return key + (dot == std::string_view::npos ? "..." : nested(dotted.substr(dot + 1))) + "}";
}

/// The key below `prefix` that `key` was meant to be, empty if none is near.
std::string meant_key(const std::string& prefix, const std::string& key) {
  const std::vector<std::string> keys = keys_below(prefix);
  std::string alias = alias_of(key, keys);
  if (!alias.empty()) return alias;
  return other_home(key).empty() ? nearest(key, keys) : "";
}

std::string unknown_key_remedy(const std::string& prefix, const std::string& key) {
  const std::string meant = meant_key(prefix, key), home = other_home(key);
  if (!meant.empty()) return "did you mean \"" + meant + "\"?";
  if (find_field(joined(prefix, key)) != nullptr) return "write " + nested(key);
  if (!home.empty()) return "it belongs in " + home;
  const std::vector<std::string> keys = keys_below(prefix);
  return keys.size() <= 15 ? "the keys here are " + list_text(keys) : "";
}

/// What another program's file is, and what makes a plan of it; empty where it is none that is known here.
Refusal other_file(const json& doc, const std::string& file) {
  if (std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) { return doc.contains(part); })) return {};
  if (huggingface::is_config(doc))
    return {"is a model's config.json of Hugging Face, and no plan",
            "make one of it: tandem import " + file + " --cluster NAME --devices N --out plan.json"};
  if (doc.contains("zero_optimization") || doc.contains("train_batch_size") || doc.contains("train_micro_batch_size_per_gpu"))
    return {"is a configuration of DeepSpeed, and no plan", "write a plan; docs/coming-from.md has the fields that say the same"};
  if (doc.contains("traceEvents")) return {"is a trace, and no plan", "give the plan, or to report and compare the file of --timeline"};
  return {};
}

/// Reads documents into a plan and collects every problem on the way.
class PlanReader {
 public:
  PlanReader(std::string file, const PlanContext& context) : file_(std::move(file)), context_(context) {}

  void read_document(const json& doc) {
    if (!doc.is_object()) {
      throw ConfigError(Problem{file_, "", value_text(doc), "must be an object, not " + kind_text(doc),
                                "write {\"model\": ..., \"parallel\": ..., \"training\": ..., \"cluster\": ...}"});
    }
    if (Refusal other = other_file(doc, file_); !other.reason.empty())
      throw ConfigError(Problem{file_, "", "", std::move(other.reason), std::move(other.remedy)});
    sequence_ = sequence_of(doc);
    for (const std::string_view part : kParts) {
      if (doc.contains(part)) read_part(doc[std::string(part)], std::string(part));
    }
    for (const auto& [key, value] : doc.items()) {
      if (std::find(kParts.begin(), kParts.end(), key) == kParts.end()) read_member(value, "", key);
    }
    for (const std::string_view part : kParts) require_fields(part, doc.contains(part));
  }

  void read_model_preset(const std::string& name) { read_part(json{{"preset", name}}, "model"); }

  PlanDraft draft() {
    throw_config();
    if (plan.parallel.data == 0) plan.parallel.data = 1, own_.erase("parallel.data"), given_.erase("parallel.data");
    if (is_preset_path(plan.cluster.preset)) plan.cluster.preset = beside(plan.cluster.preset, file_);
    plan.cluster.generation = context_.generation ? context_.generation(plan.cluster.preset) : "";
    if (context_.stack) choose(*context_.stack);
    plan.file = file_;
    return {std::move(plan), std::move(given_)};
  }

  Plan finish() {
    PlanDraft read = draft();
    Plan whole = completed(read);
    whole.ineffective = ineffective_fields(whole, own_);
    given_ = std::move(read.given);
    return whole;
  }

  /// The fields that the file gave. The plan must be finished.
  const Given& given() const { return given_; }

  void throw_config() {
    if (untold_ > 0) problems.push_back({file_, "", "", "and " + std::to_string(untold_) + " more problems", "mend these first"});
    if (!problems.empty()) throw ConfigError(std::move(problems));
    if (!not_done_.empty()) throw InfeasibleError(std::move(not_done_));
  }

  Plan plan;
  Problems problems;

 private:
  void choose(const StackChoice& stack) {
    plan.stack = {};
    plan.stack.name = stack.name;
    plan.stack.as_of = stack.as_of.value_or(Month{});
    for (Given* fields : {&given_, &own_}) {
      for (const char* field : {"stack.as_of", "stack.rules"}) fields->erase(field);
      fields->insert("stack.name");
      if (stack.as_of) fields->insert("stack.as_of");
    }
  }

  /// Counts a problem that is one too many to be told.
  bool is_flood() {
    if (problems.size() < kMostProblems) return false;
    return ++untold_, true;
  }

  void complain(const std::string& field, const json& value, Refusal why) {
    if (is_flood()) return;
    problems.push_back({file_, field, value_text(value), std::move(why.reason), std::move(why.remedy)});
  }

  void read_part(const json& value, const std::string& part) {
    if (!value.is_object()) {
      const std::string remedy =
          value.is_string() && part != "cluster" ? "write {\"preset\": " + value_text(value) + "}" : "";
      assume_given(part);
      return complain(part, value, {"must be an object, not " + kind_text(value), remedy});
    }
    // The cluster's preset is a machine: topology resolves it.
    if (part != "cluster" && value.contains("preset") && value["preset"].is_string()) {
      read_preset(value["preset"].get<std::string>(), part);
    }
    read_object(value, part);
  }

  /// NAME or NAME@YYYY-MM.
  void read_stack(const std::string& text) {
    const std::size_t at = text.find('@');
    read_field(text.substr(0, at), *find_field("stack.name"));
    if (at != std::string::npos) read_field(text.substr(at + 1), *find_field("stack.as_of"));
  }

  void read_preset(const std::string& name, const std::string& part) {
    if (is_preset_path(name)) return read_named_file(name, part);
    const std::string folder = part == "model" ? "models/presets" : "models/presets/" + part;
    const std::string path = find_preset(folder, name);
    if (path.empty()) {
      Problem p = unknown_preset(folder, name, part + " preset");
      p.file = file_;
      p.field = part + ".preset";
      problems.push_back(std::move(p));
      return assume_given(part);
    }
    trying(part, [&] { read_preset_file(read_json(path), path, part); });
  }

  /// What cannot be read is told with all else that is wrong.
  template <class Work>
  void trying(const std::string& part, Work work) {
    try {
      work();
    } catch (const InfeasibleError& e) {
      not_done_.insert(not_done_.end(), e.problems().begin(), e.problems().end());
      assume_given(part);
    } catch (const ConfigError& e) {
      problems.insert(problems.end(), e.problems().begin(), e.problems().end());
      assume_given(part);
    }
  }

  /// A file of the user's own: a preset, or a Hugging Face configuration, which is a model.
  void read_named_file(const std::string& name, const std::string& part) {
    const std::string path = beside(name, file_), file = part == "model" ? huggingface::config_path(path) : path;
    if (const std::string why = why_unreadable(file); !why.empty()) {
      complain(part + ".preset", name, {"no " + part + " preset of this name, and as a file " + why,
                                        "give the path of a preset" + std::string(part == "model" ? " or a config.json" : "") + " from the plan's folder"});
      return assume_given(part);
    }
    trying(part, [&] {
      const json document = part == "model" ? huggingface::read_config(file) : read_json(file);
      if (part == "model" && huggingface::is_config(document)) return read_preset_file(imported(file), file, part);
      read_preset_file(document, file, part);
    });
  }

  /// training.seq_length as the plan itself says it, 0 where it does not: whether a model's windows count depends on it.
  static std::int64_t sequence_of(const json& doc) {
    const json::json_pointer length("/training/seq_length");
    const bool said = doc.contains(length) && doc[length].is_number_integer();
    return said ? std::max<std::int64_t>(0, doc[length].get<std::int64_t>()) : 0;
  }

  json imported(const std::string& file) const {
    huggingface::ImportedModel model = huggingface::import_model(file, sequence_);
    if (huggingface::refusals(model).empty()) huggingface::refuse_other_counts(model, parameters_of(model));
    Problems refused = huggingface::refusals(model);
    if (!refused.empty()) throw InfeasibleError(std::move(refused));
    return {{"model", model.section()}};
  }

  /// Parameters of the file's own model: the plan may replace fields of it. Throws ConfigError or InfeasibleError for its fields.
  static std::int64_t parameters_of(const huggingface::ImportedModel& model) {
    const PlanContext context{[](const std::string&) { return std::string("cpu"); }};
    PlanReader reader("", context);
    reader.plan.training.seq_length = std::max<std::int64_t>(1, model.counts.sequence);
    reader.read_preset_file({{"model", model.section()}}, model.file, "model");
    const ModelSpec read = reader.finish().model;
    return count_parameters(read, read.vocab_size).total;
  }

  /// A preset that cannot be read is one problem, not also one for each field it would have given.
  void assume_given(const std::string& part) {
    for (const PlanField& f : plan_fields()) {
      if (f.required && f.path.starts_with(part + ".")) given_.insert(f.path);
    }
  }

  void read_preset_file(const json& preset, const std::string& path, const std::string& part) {
    const std::string plan_file = std::exchange(file_, path);
    in_preset_ = true;
    if (!preset.is_object() || !preset.contains(part) || !preset[part].is_object()) {
      complain("", preset, {"is not a " + part + " preset: it has no object \"" + part + "\"", ""});
      assume_given(part);
    } else if (preset[part].contains("preset")) {
      complain(part + ".preset", preset[part]["preset"],
               {"a preset cannot name another preset", "write its fields out"});
    } else {
      read_object(preset[part], part);
    }
    file_ = plan_file;
    in_preset_ = false;
  }

  void read_object(const json& object, const std::string& prefix) {
    for (const auto& [key, value] : object.items())
      if (!is_given_twice(object, prefix, key)) read_member(value, prefix, key);
  }

  /// Refuses the older name of a field whose present name the same object has.
  bool is_given_twice(const json& object, const std::string& prefix, const std::string& key) {
    const PlanField* field = find_field(joined(prefix, key));
    if (field == nullptr || field->path == joined(prefix, key)) return false;
    const std::string present = field->path.substr(prefix.size() + 1);
    if (!object.contains(present)) return false;
    complain(joined(prefix, key), object[key], {"is an older name of " + present + ", which is given, too", "leave the older name out"});
    return true;
  }

  void read_member(const json& value, const std::string& prefix, const std::string& key) {
    const std::string path = joined(prefix, key);
    if (path == "stack" && value.is_string()) return read_stack(value.get<std::string>());
    const bool plain = key.find('.') == std::string::npos;
    const PlanField* field = plain ? find_field(path) : nullptr;
    if (field != nullptr) return read_field(value, *field);
    if (!plain || keys_below(path).empty()) {
      if (const UnsupportedFeature* what = unsupported_feature(key)) return refuse(path, value, *what);
      if (is_flood()) return;
      given_.insert(joined(prefix, meant_key(prefix, key)));  // one slip is one problem, not also a missing field
      return complain(shortened(path), value, {"unknown key", unknown_key_remedy(prefix, key)});
    }
    if (!value.is_object()) {
      const std::string example = "write {\"" + keys_below(path).front() + "\": ...}";
      return complain(path, value, {"must be an object, not " + kind_text(value), example});
    }
    read_object(value, path);
  }

  void refuse(const std::string& field, const json& value, const UnsupportedFeature& what) {
    not_done_.push_back({file_, field, value_text(value), "not implemented: " + std::string(what.what), std::string(what.remedy)});
  }

  void read_field(const json& value, const PlanField& field) {
    given_.insert(field.path);
    if (!in_preset_) own_.insert(field.path);
    if (field.path == "model.family" && value.is_string())
      if (const UnsupportedFeature* what = unsupported_feature(value.get_ref<const std::string&>()))
        return refuse(field.path, value, *what);
    if (std::optional<Refusal> refused = field.read(value, plan)) complain(field.path, value, std::move(*refused));
  }

  void require_fields(std::string_view part, bool present) {
    std::vector<std::string> missing;
    for (const PlanField& f : plan_fields()) {
      if (f.required && f.path.starts_with(std::string(part) + ".") && !given_.contains(f.path) && !follows(f))
        missing.push_back(f.path);
    }
    if (missing.empty()) return;
    if (!present) return missing_part(std::string(part), missing);
    for (const std::string& path : missing) {
      std::string what = find_field(path)->description;
      what.erase(what.find('.'));  // the first sentence
      what.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(what.front())));
      if (path == "cluster.devices") what += ", or parallel.data, from which they follow";
      problems.push_back({file_, path, "", "is missing and has no default", "give it: " + what});
    }
  }

  /// cluster.devices are the product of the degrees where the plan says them all.
  bool follows(const PlanField& f) const {
    return f.path == "cluster.devices" && given_.contains("parallel.data") && plan.parallel.data > 0;
  }

  void missing_part(const std::string& part, std::vector<std::string> missing) {
    for (std::string& path : missing) path = path.substr(part.size() + 1);
    const std::string preset = part == "model" ? ", or {\"preset\": \"gpt2-124m\"}" : "";
    problems.push_back({file_, part, "", "is missing", "give " + list_text(missing) + preset});
  }

  std::string file_;
  const PlanContext& context_;
  Given given_, own_;        ///< by the plan and its presets, and by the plan itself
  bool in_preset_ = false;
  std::size_t untold_ = 0;
  std::int64_t sequence_ = 0;  ///< tokens that the plan trains a model on, where it says so
  Problems not_done_;
};

void validate(const Plan& plan, const Given& given) {
  Problems wrong;
  check_values(plan, wrong);
  check_limits(plan, wrong);
  if (!wrong.empty()) throw ConfigError(std::move(wrong));
  Problems infeasible;
  check_derived_ranks(plan, given, infeasible);
  if (!infeasible.empty()) throw InfeasibleError(std::move(infeasible));  // what follows counts on the ranks
  check_layout(plan, infeasible);
  check_batch(plan, infeasible);
  if (plan.stack.refuses)
    for (Problem& p : stack_problems(plan, plan.stack.name, plan.stack.as_of)) infeasible.push_back(std::move(p));
  if (auto p = uncaptured(plan)) infeasible.push_back(std::move(*p));
  if (!infeasible.empty()) throw InfeasibleError(std::move(infeasible));
}

}  // namespace

StackChoice parse_stack_choice(const std::string& text) {
  const std::size_t at = text.find('@');
  StackChoice choice{text.substr(0, at), std::nullopt};
  if (at != std::string::npos) choice.as_of = parse_month(text.substr(at + 1));
  if (choice.name.empty() || (at != std::string::npos && !choice.as_of))
    throw ConfigError(Problem{"", "--stack", '"' + shortened(text) + '"', "is no stack with a month", "write NAME or NAME@2024-07"});
  return choice;
}

Plan parse_plan(std::string_view text, const std::string& file, const PlanContext& context) {
  PlanReader reader(file, context);
  reader.read_document(parse_json(text, file));
  Plan plan = reader.finish();
  validate(plan, reader.given());
  return plan;
}

PlanDraft read_draft(std::string_view text, const std::string& file, const PlanContext& context) {
  PlanReader reader(file, context);
  reader.read_document(parse_json(text, file));
  return reader.draft();
}

Plan completed(const PlanDraft& draft) {
  Plan plan = draft.plan;
  fill_defaults(plan, draft.given);
  return plan;
}

Problems plan_problems(const Plan& plan) {
  Problems problems;
  check_values(plan, problems);
  check_limits(plan, problems);
  if (!problems.empty()) return problems;  // what follows counts on it
  check_layout(plan, problems);
  check_batch(plan, problems);
  return problems;
}

Plan load_plan(const std::string& path, const PlanContext& context) { return parse_plan(read_text(path), path, context); }

ModelSpec load_model(const std::string& preset) {
  const PlanContext context{[](const std::string&) { return std::string("cpu"); }};
  PlanReader reader("", context);
  reader.plan.training.seq_length = 1;
  reader.read_model_preset(preset);
  return reader.finish().model;
}

}  // namespace tandem

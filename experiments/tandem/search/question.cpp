#include "experiments/tandem/search/question.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "experiments/tandem/base/fields.hpp"
#include "experiments/tandem/base/prepared_plan.hpp"
#include "experiments/tandem/search/axes/context_axes.hpp"
#include "experiments/tandem/search/axes/default_axes.hpp"
#include "experiments/tandem/search/axes/expert_axes.hpp"
#include "models/base/files.hpp"
#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/huggingface/config_file.hpp"
#include "models/stack/resolve.hpp"
#include "topology/plan_reader.hpp"

namespace tandem::search {

namespace {

using nlohmann::json;

constexpr std::int64_t kTokensOfAStep = 4 << 20, kLongestSequence = 4096;

/// Fields that are valid for one layout only. A search over layouts leaves them at their defaults.
constexpr std::array kOfOneLayout{"parallel.data", "parallel.pipeline_split", "parallel.expert_tensor", "parallel.zero_group",
                                  "training.recompute_layers"};

constexpr const char* kMicroBatch = "training.micro_batch_size";
constexpr const char* kContextMode = "parallel.context_mode";
constexpr const char* kOverlap = "parallel.overlap_experts";
constexpr const char* kAuto = "\"auto\"";  ///< as JSON

/// Overrides that are facts of one device.
constexpr std::array kOfDevice{"cluster.override.memory_bytes", "cluster.override.memory_bytes_per_s", "cluster.override.power_limit_watts"};

class QuestionReader {
 public:
  explicit QuestionReader(const Request& request) : request_(request) {}

  Question read() {
    read_subject();
    for (const auto& [field, value] : request_.set) study::set_field(document_, field, json::parse(value));
    place_cluster();
    const json whole = document_;
    const std::vector<AxisRequest> automatic = take_automatic();
    place_devices(automatic);
    const bool open = automatic.empty();
    if (open) for (const char* field : kOfOneLayout) if (!sets(field)) study::set_field(document_, field, nullptr);
    fill_training();
    std::vector<AxisRequest> chosen = said_axes();
    out_.draft = draft(document_);
    if (open) keep_own(whole);
    const std::int64_t per_node = make_topology(out_.draft.plan.cluster)->devices_per_node();
    for (const AxisRequest& axis : default_axes(out_.draft.plan, per_node)) {
      const bool wanted = open ? !sets(axis.field) : names(automatic, axis.field);
      if (wanted && !names(chosen, axis.field)) chosen.push_back(axis);
    }
    for (const AxisRequest& axis : module_axes(completed(out_.draft))) {
      const bool may_be = selects(chosen) && !out_.draft.given.contains(axis.field) && runs(axis);
      const bool wanted = open ? may_be : names(automatic, axis.field);
      if (wanted && !names(chosen, axis.field)) chosen.push_back(axis);
    }
    const bool splits = open ? !sets(kSplit) : names(automatic, "parallel.pipeline") && !out_.draft.given.contains(kSplit);
    if (splits && !names(chosen, kSplit))
      for (const AxisRequest& axis : split_axes(completed(out_.draft), chosen)) chosen.push_back(axis);
    add_further_axes(chosen, automatic, open);
    if (open) choose_switches(chosen);
    if (open) tell_unsearched(chosen);
    out_.chosen_micro_batches = open && !names(said_axes(), kMicroBatch) && !sets(kMicroBatch);
    order(chosen, per_node);
    require_known(automatic, chosen);
    for (const AxisRequest& axis : chosen) out_.axes.push_back(make_axis(axis));
    finish_draft(chosen);
    return std::move(out_);
  }

 private:
  static bool names(const std::vector<AxisRequest>& list, const std::string& field) {
    return std::any_of(list.begin(), list.end(), [&](const AxisRequest& a) { return a.field == field; });
  }

  /// Whether the request gives a field its one value, itself or in an object.
  bool sets(const std::string& field) const {
    return std::any_of(request_.set.begin(), request_.set.end(), [&](const auto& s) {
      if (s.first == field) return s.second != kAuto;
      return field.starts_with(s.first + ".") && json::parse(s.second).contains(field.substr(s.first.size() + 1));
    });
  }

  /// The subject is a preset's name, or a file with a plan or a model.
  void read_subject() {
    const std::string& subject = request_.subject;
    if (!is_preset_path(subject) && !is_folder(subject)) {
      if (find_preset("models/presets", subject).empty()) {
        Problem p = unknown_preset("models/presets", subject, "model preset");
        p.field = "MODEL|PLAN";
        throw ConfigError(std::move(p));
      }
      out_.file = subject;
      document_ = {{"model", {{"preset", subject}}}};
      if (!find_preset("models/presets/training", subject).empty()) document_["training"] = {{"preset", subject}};
      return;
    }
    out_.file = subject;
    const std::string path = is_folder(subject) ? huggingface::config_path(subject) : subject;
    const json file = huggingface::read_config_or_own(path);
    const bool model = huggingface::is_config(file) ||
                       (file.is_object() && file.contains("model") && !file.contains("cluster") && !file.contains("training"));
    document_ = model ? json{{"model", {{"preset", absolute_path(path)}}}} : file;
    if (huggingface::is_config(file)) document_["model"]["name"] = huggingface::model_name(file, absolute_path(path));
    if (!document_.is_object()) throw ConfigError(Problem{subject, "", value_text(file), "holds no plan and no model", "give a plan or a config.json"});
  }

  void place_cluster() {
    if (!request_.cluster.empty()) {
      const std::string named = is_preset_path(request_.cluster) ? absolute_path(request_.cluster) : request_.cluster;
      if (request_.built_device)
        for (const char* field : kOfDevice) study::set_field(document_, field, nullptr);
      tell_kept(named);
      study::set_field(document_, "cluster.preset", named);
    }
    if (request_.devices > 0) study::set_field(document_, "cluster.devices", request_.devices);
    const json cluster = document_.value("cluster", json::object());
    if (!cluster.is_object()) return;
    const bool devices = cluster.contains("devices") || document_.contains("parallel");  // else place_devices() finds none
    if (!cluster.contains("preset") && devices)
      throw ConfigError(Problem{out_.file, "--cluster", "", "is missing", "name a cluster preset, such as --cluster dgx-h100"});
    if (!cluster.contains("preset"))
      throw ConfigError(Problem{out_.file, "--cluster and --devices", "", "are missing",
                                "name a cluster preset and the number of devices, such as --cluster dgx-h100 --devices 64"});
  }

  /// Says which facts of the plan's cluster are kept on another preset.
  void tell_kept(const std::string& named) {
    const json cluster = document_.value("cluster", json::object());
    if (!cluster.is_object() || !cluster.contains("preset") || cluster["preset"] == named) return;
    for (const char* part : {"override", "perturbation"})
      if (cluster.contains(part) && !cluster[part].empty())
        out_.told.push_back("the plan's cluster." + std::string(part) + " on " + request_.cluster + ", too: " + shortened(cluster[part].dump(), 160));
  }

  /// Devices that the plan leaves out are the product of its degrees, unless one of these is searched.
  void place_devices(const std::vector<AxisRequest>& automatic) {
    const json cluster = document_.value("cluster", json::object());
    if (!cluster.is_object() || cluster.contains("devices")) return;
    const bool known = !names(automatic, "parallel.tensor") && !names(automatic, "parallel.pipeline") && !names(automatic, "parallel.context");
    const std::int64_t devices = known ? study::devices_by_degrees(document_, out_.file) : 0;
    if (devices == 0)
      throw ConfigError(Problem{out_.file, "--devices", "", "is missing", "give the number of devices, such as --devices 64"});
    study::set_field(document_, "cluster.devices", devices);
  }

  /// Removes fields with the value "auto" from the document. parallel.data follows from the devices, so it makes no axis.
  std::vector<AxisRequest> take_automatic() {
    std::vector<AxisRequest> out;
    for (const char* part : {"parallel", "training"}) {
      if (!document_.contains(part) || !document_[part].is_object()) continue;
      std::vector<std::string> found;
      for (const auto& [key, value] : document_[part].items())
        if (value == "auto" && key != "pipeline_split") found.push_back(key);
      for (const std::string& key : found) {
        document_[part].erase(key);
        if (key != "data") out.push_back({axis_field(std::string(part) + "." + key, out_.file), {}});
      }
    }
    return out;
  }

  void fill_training() {
    if (request_.sequence > 0) study::set_field(document_, "training.seq_length", request_.sequence);
    const std::int64_t batch = request_.sequences_per_device > 0 ? request_.sequences_per_device * said_devices() : request_.batch;
    if (batch > 0) study::set_field(document_, "training.global_batch_size", batch);
    const json training = document_.value("training", json::object());
    if (!training.is_object() || training.contains("preset")) return;
    if (!training.contains("seq_length")) choose_sequence();
    if (!training.contains("global_batch_size")) choose_batch();
  }

  void choose_sequence() {
    json probe = document_;
    probe["training"] = {{"seq_length", 1}, {"micro_batch_size", 1}, {"global_batch_size", 1}};
    probe.erase("parallel");
    const std::int64_t most = read_draft(probe.dump(), out_.file, PlanContext{generation_of}).plan.model.max_position_embeddings;
    const std::int64_t length = most > 0 ? std::min(most, kLongestSequence) : kLongestSequence;
    study::set_field(document_, "training.seq_length", length);
    out_.told.push_back("sequences of " + std::to_string(length) + " tokens (--seq-length sets it)");
  }

  /// Chooses the largest power of two of sequences with at most four million tokens. If the devices do not divide it, the nearest
  /// multiple of them, because pure data parallelism is often the fastest layout. More devices than sequences are divided by their
  /// least prime factors before: other ranks than data ranks take these.
  void choose_batch() {
    const std::int64_t length = document_["training"]["seq_length"].is_number_integer() ? document_["training"]["seq_length"].get<std::int64_t>() : 1;
    std::int64_t batch = 1;
    while (2 * batch * std::max<std::int64_t>(1, length) <= kTokensOfAStep) batch *= 2;
    const std::int64_t devices = request_.compared.size() < 2 ? most_data_ranks(said_devices(), batch) : shared_by_devices(batch);
    if (devices < batch) batch = (batch + devices / 2) / devices * devices;
    else if (request_.compared.size() < 2) batch = devices;
    study::set_field(document_, "training.global_batch_size", batch);
    out_.told.push_back("a global batch of " + std::to_string(batch) + " sequences (--global-batch sets it)");
  }

  /// Devices divided by their least prime factors, those of other degrees, until they are at most `batch`.
  static std::int64_t most_data_ranks(std::int64_t devices, std::int64_t batch) {
    constexpr std::int64_t kLargest = 64;  // of a prime factor of other degrees
    for (std::int64_t factor = 2; devices > batch && factor <= kLargest;) {
      if (devices % factor == 0) devices /= factor;
      else ++factor;
    }
    return devices;
  }

  /// The document's number of devices; 1 if it is no number.
  std::int64_t said_devices() const {
    const json& cluster = document_["cluster"];
    const bool number = cluster.is_object() && cluster.contains("devices") && cluster["devices"].is_number_integer();
    return number ? std::max<std::int64_t>(1, cluster["devices"].get<std::int64_t>()) : 1;
  }

  /// The least common multiple of all compared device counts; capped at `most`.
  std::int64_t shared_by_devices(std::int64_t most) {
    std::int64_t out = request_.compared.empty() ? said_devices() : 1;
    for (const std::int64_t devices : request_.compared)
      if (out < most) out = std::lcm(out, devices);
    return out;
  }

  std::vector<AxisRequest> said_axes() const {
    std::vector<AxisRequest> out;
    for (const std::string& text : request_.axes) {
      AxisRequest axis = read_axis(text);
      if (names(out, axis.field)) throw ConfigError(Problem{"", "--axis", axis.field, "is given twice", "give all its values at once"});
      if (sets(axis.field)) throw ConfigError(Problem{"--axis", axis.field, "", "has its value by --set", "leave out one of them"});
      out.push_back(std::move(axis));
    }
    return out;
  }

  /// Whether a candidate may recompute selectively.
  bool selects(const std::vector<AxisRequest>& axes) const {
    const auto of = std::find_if(axes.begin(), axes.end(), [](const AxisRequest& a) { return a.field == "training.recompute"; });
    if (of == axes.end()) return out_.draft.plan.training.recompute == Recompute::selective;
    return std::any_of(of->values.begin(), of->values.end(), [](const std::string& v) { return word_of(v) == "selective"; });
  }

  /// Whether the stack runs all values of an axis.
  bool runs(const AxisRequest& request) const {
    Plan plan = completed(out_.draft);
    const Axis axis = make_axis(request);
    return std::all_of(axis.values.begin(), axis.values.end(), [&](const AxisValue& value) {
      value.set(plan);
      const std::vector<Problem> problems = stack_problems(plan, plan.stack.name, plan.stack.as_of);
      return std::none_of(problems.begin(), problems.end(), [&](const Problem& p) { return p.field == request.field; });
    });
  }

  /// Axes that the other ones allow: of experts, and of context ranks, also in two levels where the stack has them.
  std::vector<AxisRequest> further_axes(const std::vector<AxisRequest>& chosen) const {
    std::vector<AxisRequest> out = expert_axes(out_.draft, chosen);
    for (const AxisRequest& axis : context_mode_axes(out_.draft, chosen)) out.push_back(axis);
    for (const AxisRequest& axis : context_level_axes(out_.draft.plan, chosen))
      if (runs(axis)) out.push_back(axis);
    return out;
  }

  /// What the plan leaves to the search by "auto"; of an open search, the overlap of experts and how context ranks share attention.
  void add_further_axes(std::vector<AxisRequest>& chosen, const std::vector<AxisRequest>& automatic, bool open) const {
    for (const AxisRequest& axis : further_axes(chosen)) {
      const bool of_open = axis.field == kOverlap || axis.field == kContextMode;
      const bool wanted = open ? of_open && !out_.draft.given.contains(axis.field) : names(automatic, axis.field);
      if (wanted && !names(chosen, axis.field)) chosen.push_back(axis);
    }
  }

  /// Fields that matter to the model, and that no axis, no switch and no plan says.
  void tell_unsearched(const std::vector<AxisRequest>& chosen) {
    for (const AxisRequest& axis : further_axes(chosen)) {
      const bool said = out_.draft.given.contains(axis.field) || out_.switches.fields().contains(axis.field);
      if (said || names(chosen, axis.field)) continue;
      std::string text = axis.field.substr(axis.field.find('.') + 1) + "=";
      for (const std::string& v : axis.values) text += (text.back() == '=' ? "" : ",") + word_of(v);
      out_.unsearched.push_back(std::move(text));
    }
  }

  /// Turns on what the stack has off, unless no layout could run it, as where adapters go without.
  void choose_switches(const std::vector<AxisRequest>& chosen) {
    const Plan plan = completed(out_.draft);
    out_.switches = StackSwitches(plan);
    const std::set<std::string> fields = out_.switches.fields();
    for (const std::string& field : fields) {
      bool refused = has_gap(plan, field);
      for (const AxisRequest& axis : chosen)
        for (const AxisValue& value : make_axis(axis).values) {
          Plan with = plan;
          value.set(with);
          refused = refused || has_gap(with, field);
        }
      if (refused || names(chosen, field) || out_.draft.given.contains(field)) out_.switches.drop(field);
    }
  }

  /// Whether a plan cannot be lowered with a field turned on, because of that field.
  bool has_gap(Plan plan, const std::string& field) const {
    out_.switches.force(plan, field);
    const Problems gaps = lowering_gaps(plan);
    return std::any_of(gaps.begin(), gaps.end(), [&](const Problem& p) { return p.field == field; });
  }

  /// Keeps the layout of a whole plan, which candidates replace. Its data ranks follow from the devices, of which there may be others now.
  void keep_own(const json& whole) {
    const bool layout = whole.contains("parallel") && whole["parallel"].is_object() && !whole["parallel"].empty();
    const json micro_batch = said_micro_batch();
    if (!layout || micro_batch.is_null()) return;
    json own = document_;
    study::set_field(own, kMicroBatch, micro_batch);
    for (const std::string field : kOfOneLayout) {
      const std::size_t dot = field.find('.');
      const std::string part = field.substr(0, dot), key = field.substr(dot + 1);
      if (field != "parallel.data" && whole.contains(part) && whole[part].contains(key)) own[part][key] = whole[part][key];
    }
    out_.own = draft(std::move(own));
  }

  /// The micro-batch that the plan says, itself or by a preset; null if it says none.
  json said_micro_batch() const {
    const json training = document_.value("training", json::object());
    if (training.contains("micro_batch_size") || !training.contains("preset")) return training.value("micro_batch_size", json());
    const json preset = read_json(find_preset("models/presets/training", training["preset"].get<std::string>()));
    return preset.value("training", json::object()).value("micro_batch_size", json());
  }

  /// A document's draft, with values for required fields.
  PlanDraft draft(json probe) const {
    if (!probe.contains("training") || !probe["training"].contains("micro_batch_size"))
      study::set_field(probe, "training.micro_batch_size", 1);
    const PlanContext context{generation_of, program::chosen_stack(request_.stack)};
    return read_draft(probe.dump(), out_.file, context);
  }

  /// Orders axes: default ones in their order, then the command line's.
  void order(std::vector<AxisRequest>& axes, std::int64_t per_node) const {
    std::vector<std::string> fields;
    for (const AxisRequest& axis : default_axes(out_.draft.plan, per_node)) fields.push_back(axis.field);
    const auto place = [&](const AxisRequest& a) { return std::find(fields.begin(), fields.end(), a.field) - fields.begin(); };
    std::stable_sort(axes.begin(), axes.end(), [&](const AxisRequest& a, const AxisRequest& b) { return place(a) < place(b); });
  }

  /// Refuses a field with "auto" for which there are no default values.
  void require_known(const std::vector<AxisRequest>& automatic, const std::vector<AxisRequest>& axes) const {
    for (const AxisRequest& a : automatic)
      if (!names(axes, a.field) && a.field != "parallel.expert")
        throw ConfigError(Problem{out_.file, a.field, "\"auto\"", "has no values of its own to search",
                                  "give them: --axis " + a.field.substr(a.field.find('.') + 1) + "=VALUE,..."});
  }

  void finish_draft(const std::vector<AxisRequest>& axes) {
    for (const AxisRequest& a : axes) {
      study::set_field(document_, a.field, nullptr);
      out_.draft.given.insert(a.field);
    }
    const bool data_said = document_.contains("parallel") && document_["parallel"].contains("data");
    if (!data_said && !names(axes, "parallel.data")) out_.draft.given.erase("parallel.data");
    if (!request_.stack.empty()) document_["stack"] = request_.stack;
    out_.document = document_.dump();
  }

  const Request& request_;
  json document_;
  Question out_;
};

}  // namespace

Question read_question(const Request& request) { return QuestionReader(request).read(); }

}  // namespace tandem::search

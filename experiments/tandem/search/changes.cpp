#include "experiments/tandem/search/changes.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "experiments/tandem/base/interrupt.hpp"
#include "experiments/tandem/base/trial_clock.hpp"
#include "experiments/tandem/search/axes/default_axes.hpp"
#include "experiments/tandem/search/report_parts.hpp"
#include "experiments/tandem/search/switched.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"
#include "models/fields/plan_fields.hpp"
#include "models/planfile/plan_advice.hpp"
#include "reports/prediction/text.hpp"
#include "topology/preset.hpp"

namespace tandem::search {

namespace {

constexpr std::int64_t kMostTimes = 64;     ///< largest multiple of the devices
constexpr std::size_t kMostClusters = 3;
constexpr std::size_t kFewMicroBatches = 3;
constexpr std::size_t kShares = 3;          ///< of the time, for other devices: as many as for this number of fields

/// Fields that determine a rank's memory. Those that are switched on are no default axes.
constexpr std::array kOfMemory{"parallel.tensor", "parallel.pipeline", "parallel.context", "parallel.expert",
                               "training.micro_batch_size", "parallel.sequence_parallel", "training.recompute", "parallel.zero_stage"};
constexpr std::array kSwitchedOn{"training.flash_attention", "parallel.offload.optimizer", "parallel.offload.parameters"};

/// Schedules that have more micro-batches under way than 1F1B.
constexpr std::array<std::string_view, 5> kMoreUnderWay{"interleaved", "breadth-first", "gpipe", "zb-h2", "dualpipe-v"};

/// Values of a field that the question lacks.
struct Untried {
  std::string field, values;  ///< "1,2"
};

using Fields = std::vector<std::string>;

std::string plain(const std::string& text) {
  return text.size() > 1 && text.front() == '"' ? text.substr(1, text.size() - 2) : text;
}

class Finder {
 public:
  Finder(const Request& request, const Space& space, const SearchOptions& options, double seconds)
      : request_(request), space_(space), plan_(space.plan(0)), options_(options), clock_(seconds) {
    out_.asked = true, out_.seconds = seconds;
    request_.batch = plan_.training.global_batch_size;  // keep a batch that was chosen for these devices when others are compared
    options_.best = 1, options_.shard = 0, options_.shards = 1;
    options_.learned = nullptr;
  }

  Changes find() {
    const std::vector<Untried> all = untried();
    clock_.share(1 + all.size() + 2 * kShares);
    find_unlimited();
    if (!out_.possible) return std::move(out_);
    const auto offloads = std::find_if(all.begin(), all.end(), is_offload);  // of these, many are simulated one by one
    for (auto one = all.begin(); one != offloads; ++one) try_fields({*one});
    try_devices();
    try_memory();
    for (auto one = offloads; one != all.end(); ++one) try_fields({*one});
    if (!by_field_) try_pairs(all);
    std::stable_sort(out_.found.begin(), out_.found.end(),
                     [](const Change& a, const Change& b) { return a.best.device_s() < b.best.device_s(); });
    return std::move(out_);
  }

 private:
  /// The question without sharding of gradients and weights, which saves memory but no time.
  Request unsharded() const {
    const std::ptrdiff_t axis = space_.axis_of("parallel.zero_stage");
    if (axis < 0) return request_;
    std::string values;
    for (const AxisValue& v : space_.axes()[static_cast<std::size_t>(axis)].values)
      if (v.text == "0" || v.text == "1") values += (values.empty() ? "" : ",") + v.text;
    return values.empty() ? request_ : with(request_, "parallel.zero_stage", values);
  }

  /// The question with only its most memory-saving values. Many plans that offload are simulated one by one, so this tells first
  /// whether any fits.
  Request frugal(Request request) const {
    for (const Axis& axis : space_.axes()) {
      const auto has = [&](const char* text) {
        return std::any_of(axis.values.begin(), axis.values.end(), [&](const AxisValue& v) { return v.text == text; });
      };
      if (axis.field == "parallel.schedule") request = with(std::move(request), axis.field, schedules(axis));
      if (axis.field == "parallel.virtual_pipeline") request = with(std::move(request), axis.field, chunk_counts(axis));
      if (axis.field == "training.micro_batch_size")
        request = with(std::move(request), axis.field, first_values(axis, kFewMicroBatches));
      if (axis.field == "parallel.zero_stage") request = with(std::move(request), axis.field, axis.values.back().text);
      if (axis.field == "training.recompute" && has("full")) request = with(std::move(request), axis.field, "full");
    }
    return request;
  }

  /// Without those that have more micro-batches under way than 1F1B, if that is one of them.
  static std::string schedules(const Axis& axis) {
    const bool other = std::any_of(axis.values.begin(), axis.values.end(), [](const AxisValue& v) { return v.text == "1f1b"; });
    std::string out;
    for (const AxisValue& v : axis.values)
      if (!other || std::find(kMoreUnderWay.begin(), kMoreUnderWay.end(), v.text) == kMoreUnderWay.end())
        out += (out.empty() ? "" : ",") + v.text;
    return out;
  }

  /// The least number of chunks a stage, and the least of several, for schedules that have some.
  static std::string chunk_counts(const Axis& axis) {
    std::set<std::int64_t> counts;
    for (const AxisValue& v : axis.values) counts.insert(std::stoll(v.text));
    const auto several = counts.upper_bound(1);
    std::string out = std::to_string(*counts.begin());
    if (several != counts.begin() && several != counts.end()) out += "," + std::to_string(*several);
    return out;
  }

  static std::string first_values(const Axis& axis, std::size_t most) {
    std::string out;
    for (std::size_t i = 0; i < std::min(most, axis.values.size()); ++i) out += (i == 0 ? "" : ",") + axis.values[i].text;
    return out;
  }

  static Request with(Request request, const std::string& field, const std::string& values) {
    std::erase_if(request.axes, [&](const std::string& axis) { return read_axis(axis).field == field; });
    request.axes.push_back(field + "=" + values);
    return request;
  }

  /// The fastest step without a limit of memory. Counts as possible if time does not suffice.
  void find_unlimited() {
    SearchOptions any = options_;
    any.any_memory = true;
    clock_.start();
    out_.unlimited = fastest(Space(read_question(unsharded())), any);
    out_.possible = out_.unlimited || clock_.over();
  }

  /// All that is to know about a space, or what was found until the time was over.
  Answer explored(Search& search) const {
    try {
      search.explore();
      return search.answer();
    } catch (const program::Interrupted&) {
      if (!clock_.over()) throw;
      return search.answer_so_far(1);
    }
  }

  /// `changed`: fields that the change names, so that the layout need not.
  std::optional<Placed> fastest(const Space& space, SearchOptions options, const Fields& changed = {}) {
    options.jobs.stop = clock_.stop_or(options_.jobs.stop);
    Search search(space, std::move(options));
    const Answer answer = explored(search);
    if (answer.best.empty()) return std::nullopt;
    const Simulated& best = answer.best.front();
    const Plan plan = space.plan(best.id);
    const Judge judge(space, {});
    return Placed{layout(space, best.id, changed), plan.cluster.preset, plan.stack.name, plan.cluster.devices, judge.room(), best,
                  host_limits(best.launches) ? judge.fewer_launches(best.id) : "", notes_of(judge, best),
                  space.switched_on(best.id), switched_words(plan, space.switched_on(best.id))};
  }

  /// "tensor 8, pipeline 4, ...": the fields that the question leaves open or says otherwise.
  std::string layout(const Space& space, CandidateId id, const Fields& changed) const {
    const Choice chosen = space.choice(id);
    const std::ptrdiff_t idle = space.idle_axis(space.plan(id));
    std::string out;
    for (std::size_t a = 0; a < chosen.size(); ++a) {
      const Axis& axis = space.axes()[a];
      const std::string& value = axis.values[chosen[a]].text;
      const bool named = std::find(changed.begin(), changed.end(), axis.field) != changed.end();
      if (named || static_cast<std::ptrdiff_t>(a) == idle || says(axis.field, value)) continue;
      out += (out.empty() ? "" : ", ") + axis.name + " " + value;
    }
    return out;
  }

  /// Whether the question leaves a field no other value.
  bool says(const std::string& field, const std::string& value) const {
    const std::ptrdiff_t axis = space_.axis_of(field);
    if (axis < 0) return false;
    const auto& values = space_.axes()[static_cast<std::size_t>(axis)].values;
    return values.size() == 1 && values.front().text == value;
  }

  /// The fastest step that fits; nullopt if the question is impossible or nothing fits.
  std::optional<Change> change(const Request& request, const std::vector<std::string>& fields) {
    try {
      const Space space(read_question(request));
      if (space.plan(0).stack.name != plan_.stack.name) return std::nullopt;
      const std::optional<Placed> best = fastest(space, options_, fields);
      if (!best) return std::nullopt;
      Change out{{}, *best, !clock_.over()};
      for (const std::string& f : fields) out.fields.emplace_back(f, value(space, best->step.id, f));
      const bool modules = space.axis_of("training.recompute_modules") >= 0 && value_is(out, "training.recompute", "selective");
      if (modules) out.fields.emplace_back("training.recompute_modules", value(space, best->step.id, "training.recompute_modules"));
      return out;
    } catch (const InfeasibleError&) {  // the cluster cannot have so many devices, or a degree does not divide
      return std::nullopt;
    }
  }

  static bool value_is(const Change& change, const std::string& field, const std::string& value) {
    return std::find(change.fields.begin(), change.fields.end(), std::pair(field, value)) != change.fields.end();
  }

  static std::string value(const Space& space, CandidateId id, const std::string& field) {
    const Plan plan = space.plan(id);
    if (field == "cluster.devices") return std::to_string(plan.cluster.devices);
    if (field == "cluster.preset") return plan.cluster.preset;
    if (field.starts_with("cluster.override.")) return kLeftOut;
    const auto axis = static_cast<std::size_t>(space.axis_of(field));
    return space.axes()[axis].values[space.choice(id)[axis]].text;
  }

  static bool is_offload(const Untried& u) { return u.field.starts_with("parallel.offload."); }

  void try_fields(const std::vector<Untried>& fields) {
    std::string what;
    for (const Untried& u : fields) what += (what.empty() ? "" : " with ") + short_name(u.field);
    clock_.start();
    const bool few = std::any_of(fields.begin(), fields.end(), is_offload);
    std::optional<Change> found = few ? changed(frugal(request_), fields) : std::nullopt;
    if (!few || found)
      if (auto whole = changed(request_, fields)) found = std::move(whole);
    if (found) found->ended = !clock_.over();
    by_field_ = keep(what, std::move(found)) || by_field_;
  }

  /// Keeps what makes something fit, or else that it was tried; returns whether it does.
  bool keep(const std::string& what, std::optional<Change> found) {
    if (found) return out_.found.push_back(std::move(*found)), true;
    (clock_.over() ? out_.unended : out_.vain).push_back(what);
    return false;
  }

  std::optional<Change> changed(Request request, const std::vector<Untried>& fields) {
    std::vector<std::string> names;
    for (const Untried& u : fields) {
      request = with(std::move(request), u.field, u.values);
      names.push_back(u.field);
    }
    return change(request, names);
  }

  void try_pairs(const std::vector<Untried>& all) {
    clock_.share(all.size() * (all.size() - 1) / 2);
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t j = i + 1; j < all.size(); ++j) try_fields({all[i], all[j]});
  }

  /// True if the question includes this value (JSON) of a field.
  bool tried(const std::string& field, const std::string& value) const {
    const std::ptrdiff_t axis = space_.axis_of(field);
    if (axis < 0) {
      Plan with = plan_;
      find_field(field)->read(nlohmann::json::parse(value), with);
      return find_field(field)->write(with) == find_field(field)->write(plan_);
    }
    const auto& values = space_.axes()[static_cast<std::size_t>(axis)].values;
    return std::any_of(values.begin(), values.end(), [&](const AxisValue& v) { return v.text == plain(value); });
  }

  void add(std::vector<Untried>& out, const std::string& field, const std::vector<std::string>& values) const {
    Untried u{field, ""};
    for (const std::string& v : values)
      if (!tried(field, v)) u.values += (u.values.empty() ? "" : ",") + plain(v);
    if (!u.values.empty()) out.push_back(std::move(u));
  }

  std::vector<Untried> untried() const {
    std::vector<Untried> out;
    const std::int64_t per_node = make_topology(plan_.cluster)->devices_per_node();
    for (const AxisRequest& axis : default_axes(space_.question().draft.plan, per_node))
      if (std::find(kOfMemory.begin(), kOfMemory.end(), axis.field) != kOfMemory.end()) add(out, axis.field, axis.values);
    for (const char* field : kSwitchedOn) add(out, field, {"true"});
    return out;
  }

  /// Estimates without ZeRO 2 and 3 take microseconds, so these are only tried if needed.
  void try_devices() {
    clock_.start(kShares);
    std::optional<Change> found = more_devices(unsharded());
    if (!found && !clock_.over()) found = more_devices(request_);
    keep("up to " + count_text(kMostTimes * plan_.cluster.devices) + " devices", std::move(found));
  }

  std::optional<Change> more_devices(Request request) {
    for (std::int64_t times = 2; times <= kMostTimes && !clock_.over(); times *= 2) {
      request.devices = plan_.cluster.devices * times;
      if (auto found = change(request, {"cluster.devices"})) return found;
    }
    return std::nullopt;
  }

  struct Larger {
    std::string cluster;
    std::size_t distance = 0;  ///< edit distance between its name and the question's cluster
    Bytes memory;
  };

  /// For each other device with more memory: the cluster whose name is nearest to the question's.
  std::vector<Larger> larger() const {
    const Device now = make_topology(plan_.cluster)->device();  // with the plan's override
    std::map<std::string, Larger> by_device;
    for (const std::string& name : preset_names("topology/presets")) {
      const Device device = load_cluster(name).device;
      if (device.usable_memory <= now.usable_memory) continue;
      if (!now.preset.empty() && device.preset == now.preset) continue;
      const Larger here{name, edit_distance(name, plan_.cluster.preset), device.usable_memory};
      const auto [known, added] = by_device.emplace(device.preset, here);
      if (!added && here.distance < known->second.distance) known->second = here;
    }
    std::vector<Larger> out;
    for (const auto& [unused, l] : by_device) out.push_back(l);
    std::stable_sort(out.begin(), out.end(), [](const Larger& a, const Larger& b) { return a.memory < b.memory; });
    return out;
  }

  void try_memory() {
    clock_.start(kShares);
    std::vector<Change> found = more_memory(unsharded());
    if (found.empty() && !clock_.over()) found = more_memory(request_);
    if (found.empty()) keep("devices with more memory", std::nullopt);
    for (Change& change : found) out_.found.push_back(std::move(change));
  }

  std::vector<Change> more_memory(Request request) {
    const ClusterOverride& override = plan_.cluster.override;
    std::vector<std::string> fields{"cluster.preset"};
    if (override.memory_bytes) fields.emplace_back("cluster.override.memory_bytes");
    if (override.memory_bytes_per_s) fields.emplace_back("cluster.override.memory_bytes_per_s");
    if (override.power_limit_watts) fields.emplace_back("cluster.override.power_limit_watts");
    std::vector<Change> out;
    for (const Larger& l : larger()) {
      if (out.size() == kMostClusters || clock_.over()) break;
      request.cluster = l.cluster, request.devices = plan_.cluster.devices, request.built_device = true;
      if (auto with = change(request, fields)) out.push_back(std::move(*with));
    }
    return out;
  }

  Request request_;
  const Space& space_;
  const Plan plan_;
  SearchOptions options_;
  program::TrialClock clock_;
  Changes out_;
  bool by_field_ = false;  ///< a field or two make something fit
};

}  // namespace

Changes find_changes(const Request& request, const Space& space, const SearchOptions& options, double seconds) {
  return Finder(request, space, options, seconds).find();
}

}  // namespace tandem::search

#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "models/base/error.hpp"
#include "models/base/input.hpp"
#include "models/base/json.hpp"
#include "reports/timeline/json_scanner.hpp"
#include "reports/timeline/saved_timeline.hpp"
#include "reports/timeline/step_times.hpp"
#include "reports/timeline/timeline_checks.hpp"

namespace tandem {

namespace {

using nlohmann::json;

constexpr std::size_t kLongestPart = std::size_t{512} << 20;  ///< most bytes of text of all but the lanes

/// A value of a part that is read as a tree, with its place for messages.
class Part {
 public:
  Part(const json& value, const std::string& file, std::string field) : value_(value), file_(file), field_(std::move(field)) {}

  Part at(const char* key) const {
    if (!value_.is_object()) refuse("is " + kind_text(value_) + " where an object belongs");
    const std::string field = field_ + "." + key;
    if (!value_.contains(key)) refuse_timeline(file_, field, "", "is missing");
    return {value_.at(key), file_, field};
  }
  template <class Read>
  void each(Read read) const {
    if (!value_.is_array()) refuse("is " + kind_text(value_) + " where a list belongs");
    for (std::size_t i = 0; i < value_.size(); ++i) read(Part(value_[i], file_, field_ + "[" + std::to_string(i) + "]"));
  }
  std::string text() const {
    if (!value_.is_string()) refuse("is " + kind_text(value_) + " where a string belongs");
    return value_.get<std::string>();
  }
  std::int64_t whole() const {
    const bool beyond = value_.is_number_unsigned() && value_.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max();
    if (!value_.is_number_integer() || beyond) refuse(beyond ? "is beyond 64 bits" : "is " + kind_text(value_) + " where a whole number belongs");
    return value_.get<std::int64_t>();
  }
  double number() const {
    if (!value_.is_number()) refuse("is " + kind_text(value_) + " where a number belongs");
    return value_.get<double>();
  }
  bool has(const char* key) const { return value_.is_object() && value_.contains(key); }
  void require_equal(double wanted) const {
    if (number() != wanted) refuse("is not what run.steps come to");
  }
  /// A number; null is NaN.
  double number_or_none() const { return value_.is_null() ? std::numeric_limits<double>::quiet_NaN() : number(); }

 private:
  [[noreturn]] void refuse(const std::string& reason) const { refuse_timeline(file_, field_, value_text(value_), reason); }

  const json& value_;
  const std::string& file_;
  std::string field_;
};

SavedTask task(const Part& t) {
  return {t.at("block").text(), t.at("task").text(),  t.at("kind").text(),
          t.at("stream").text(), t.at("group").text(), Bytes(t.at("payload_bytes").whole()), Flops(t.at("flops").whole())};
}

/// The file's summary of step times must equal the one computed from its steps.
void require_times(const Part& told, const StepTimes& times) {
  told.at("steps").require_equal(static_cast<double>(times.steps));
  told.at("median_s").require_equal(times.median_s);
  told.at("low_s").require_equal(times.low_s);
  told.at("high_s").require_equal(times.high_s);
}

RunHistory history(const Part& h) {
  RunHistory out;
  out.kept_step = h.at("kept_step").whole();
  out.peak_memory_bytes = h.at("peak_memory_bytes").whole();
  h.at("steps").each([&](const Part& s) {
    out.steps.push_back({s.at("step").whole(), s.at("loss").number_or_none(), s.at("grad_norm").number_or_none(),
                         s.at("learning_rate").number(), s.at("step_time_s").number(), s.at("global_batch_size").whole()});
    if (s.has("mtp_loss")) out.steps.back().mtp_loss = s.at("mtp_loss").number_or_none();
  });
  h.at("evaluations").each([&](const Part& e) { out.evaluations.push_back({e.at("step").whole(), e.at("loss").number_or_none()}); });
  if (h.has("step_times")) require_times(h.at("step_times"), step_times(out));  // older files have none
  return out;
}

class Reader {
 public:
  Reader(InputFile& file, const std::string& path)
      : path_(path), in_(file, path, {"a timeline", "\"tandem timeline\"", std::uint64_t{4} << 30, kTimelineRemedy}) {}

  SavedTimeline read() {
    in_.begin_object();
    for (std::string key; in_.next_key(key);) {
      seen_.insert(key);
      top(key);
    }
    in_.end();
    for (const char* needed : {"schema_version", "what", "performer", "step_time_ps", "plan", "phases", "tasks", "lanes"})
      if (!seen_.contains(needed)) refuse_timeline(path_, needed, "", "is missing");
    require_sound(out_, path_);
    if (checksum_.empty())
      require_consistent(out_, path_);
    else if (checksum_ != checksum_text(out_))
      refuse_timeline(path_, "checksum", checksum_, "is not that of the file's content: something in it was changed or damaged");
    return std::move(out_);
  }

 private:
  void top(const std::string& key) {
    if (key == "schema_version") return require_version();
    if (key == "what") return require_kind();
    if (key == "performer") return performer();
    if (key == "step_time_ps") return void(out_.step_time = Duration::picoseconds(in_.whole()));
    if (key == "plan") return void(out_.plan_json = tree(key).dump());
    if (key == "measured_table") return void(out_.measured_table = in_.string());
    if (key == "run") return with_tree(key, [&](const Part& p) { out_.history = history(p); });
    if (key == "phases") return with_tree(key, [&](const Part& p) { p.each([&](const Part& n) { out_.phases.push_back(n.text()); }); });
    if (key == "tasks") return with_tree(key, [&](const Part& p) { p.each([&](const Part& t) { out_.tasks.push_back(task(t)); }); });
    if (key == "lanes") return lanes();
    if (key == "checksum") return void(checksum_ = in_.string());
    in_.skip();
  }

  void require_version() {
    if (const std::int64_t version = in_.whole(); version != 1) in_.refuse(std::to_string(version), "is another version than 1");
  }

  void require_kind() {
    if (const std::string what = in_.string(); what != "tandem timeline") in_.refuse(what, "is not a timeline");
  }

  void performer() {
    const std::string word = in_.string();
    if (word != "simulated" && word != "executed") in_.refuse(word, "is neither simulated nor executed");
    out_.performer = word == "simulated" ? Performer::simulated : Performer::executed;
  }

  /// The next value as a tree; errors name its key.
  json tree(const std::string& key) {
    try {
      return parse_json(in_.raw(kLongestPart), path_, {kLongestPart, 64});
    } catch (const ConfigError& e) {
      const Problem& p = e.problems().front();
      if (p.remedy == kTimelineRemedy) throw;
      refuse_timeline(path_, key, p.value, p.reason);
    }
  }

  template <class Read>
  void with_tree(const std::string& key, Read read) {
    const json value = tree(key);
    read(Part(value, path_, key));
  }

  void lanes() {
    for (in_.begin_list(); in_.next_entry();) lane();
  }

  void lane() {
    SavedLane out{{}, {}, {}, {}, {}};
    std::set<std::string> seen;
    in_.begin_object();
    for (std::string key; in_.next_key(key); seen.insert(key)) {
      if (key == "coords") {
        out.coords = coords();
      } else if (key == "ranks") {
        for (in_.begin_list(); in_.next_entry();) out.ranks.push_back(in_.small_whole());
      } else if (key == "arena_bytes") {
        out.arena_bytes = Bytes(in_.whole());
      } else if (key == "spans") {
        for (in_.begin_list(); in_.next_entry();) out.spans.push_back(span());
      } else if (key == "routing") {
        for (in_.begin_list(); in_.next_entry();) out.routing.push_back(counts());
      } else {
        in_.skip();
      }
    }
    for (const char* needed : {"coords", "ranks", "arena_bytes", "spans"})
      if (!seen.contains(needed)) in_.refuse("", "is missing", needed);
    out_.lanes.push_back(std::move(out));
  }

  Coords coords() {
    Coords out;
    std::size_t found = 0;
    const char* const names[] = {"tp", "cp", "ep", "dp", "pp"};
    in_.begin_object();
    for (std::string key; in_.next_key(key);) {
      std::size_t axis = 0;
      while (axis < kAxes && key != names[axis]) ++axis;
      if (axis == kAxes) {
        in_.skip();
        continue;
      }
      out.at[axis] = in_.small_whole();
      ++found;
    }
    if (found < kAxes) in_.refuse("", "lacks one of tp, cp, ep, dp and pp");
    return out;
  }

  SavedSpan span() {
    std::array<std::int64_t, 9> c{};
    in_.begin_list();
    for (std::size_t i = 0; i < c.size(); ++i) {
      if (!in_.next_entry()) in_.refuse("", "has less than nine columns");
      c[i] = i < 5 ? in_.small_whole() : in_.whole();
    }
    if (in_.next_entry()) in_.refuse("", "has more than nine columns");
    if (c[0] < 0) in_.refuse(std::to_string(c[0]), "the file has no such task");
    const auto small = [&](std::size_t i) { return static_cast<std::int32_t>(c[i]); };
    const auto time = [&](std::size_t i) { return Duration::picoseconds(c[i]); };
    return {static_cast<std::uint32_t>(c[0]), small(1), small(2), small(3), small(4), time(5), time(6), time(7), time(8)};
  }

  RouterCounts counts() {
    std::vector<std::int32_t> row;
    for (in_.begin_list(); in_.next_entry();) row.push_back(in_.small_whole());
    if (row.size() < 3) in_.refuse("", "is a routing without choices");
    return {row[0], row[1], {row.begin() + 2, row.end()}};
  }

  const std::string& path_;
  JsonScanner in_;
  SavedTimeline out_;
  std::set<std::string> seen_;
  std::string checksum_;
};

}  // namespace

SavedTimeline read_timeline(const std::string& path) {
  InputFile file(path);
  return read_timeline(file, path);
}

SavedTimeline read_timeline(InputFile& file, const std::string& path) { return Reader(file, path).read(); }

}  // namespace tandem

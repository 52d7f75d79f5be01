#include "experiments/tandem/study/study.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "experiments/tandem/base/fields.hpp"
#include "models/base/files.hpp"
#include "models/base/json.hpp"
#include "models/base/presets.hpp"
#include "models/base/text.hpp"

namespace tandem::study {

namespace {

using nlohmann::json;

constexpr std::size_t kMostPoints = 100'000;

/// Metrics of a published point: keys of a result.
const std::vector<std::string> kFigures = {
    "step_time_s", "tokens_per_s",      "samples_per_s", "model_tflops_per_device", "hardware_tflops_per_device", "mfu",
    "hfu",         "peak_memory_bytes", "fits"};

class StudyReader {
 public:
  explicit StudyReader(const std::string& path) : file_(path), doc_(read_json(path)) {}

  Study read() {
    if (!doc_.is_object()) refuse("", doc_, "must be an object", "give base and axes");
    known(doc_, "", {"schema_version", "name", "notes", "base", "axes", "fill", "points", "view", "goal"});
    if (doc_.value("schema_version", json(1)) != 1)
      refuse("schema_version", doc_["schema_version"], "is not known", "use 1");
    Study study;
    study.file = file_;
    study.name = doc_.contains("name") ? file_name(doc_["name"]) : std::filesystem::path(file_).stem().string();
    if (doc_.contains("notes")) text(doc_["notes"], "notes");
    doc_["name"] = study.name;
    doc_["base"] = base();
    study.axes = axes();
    check_points(study.axes);
    check_view(study.axes);
    study.points = expand(study.axes);
    if (doc_.contains("goal")) study.goal = read_goal(doc_["goal"], file_, clusters(study.points));
    study.text = doc_.dump(2);
    return study;
  }

 private:
  [[noreturn]] void refuse(const std::string& field, const json& value, const std::string& reason,
                           const std::string& remedy) const {
    throw ConfigError(Problem{file_, field, value.is_null() ? "" : value_text(value), reason, remedy});
  }

  void known(const json& object, const std::string& place, const std::vector<std::string>& keys) const {
    for (const auto& [key, value] : object.items()) {
      if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
      const std::string meant = nearest(key, keys);
      refuse(place.empty() ? key : place + "." + key, value, "is not known here",
             meant.empty() ? "there are " + list_text(keys) : "did you mean \"" + meant + "\"?");
    }
  }

  std::string text(const json& value, const std::string& field) const {
    if (!value.is_string() || value.get<std::string>().empty())
      refuse(field, value, "must be a string", "write it in quotes");
    return value;
  }

  /// The study's name, which also names its results folder.
  std::string file_name(const json& value) const {
    const std::string name = text(value, "name");
    if (name.find_first_of("/\\") != name.npos || name == "." || name == "..")
      refuse("name", value, "cannot be the name of a folder of results", "leave out / and \\, and give --out for another place");
    return name;
  }

  const json& needed(const json& object, const char* key, const std::string& place, const std::string& remedy) const {
    const auto it = object.find(key);
    if (it == object.end()) refuse(place.empty() ? key : place + "." + key, {}, "is missing", remedy);
    return *it;
  }

  /// The base plan: given in place, or read from a file relative to the study's folder.
  json base() const {
    const json& given = needed(doc_, "base", "", "give a plan, or the path of one");
    if (given.is_object()) return given;
    const std::string path = text(given, "base");
    const std::string beside = (std::filesystem::path(file_).parent_path() / path).string();
    if (const std::string why = why_unreadable(beside); !why.empty())
      refuse("base", given, why, "give the path of a plan from the study's folder");
    json plan = read_json(beside);
    if (!plan.is_object()) refuse("base", given, "holds no plan", "give the path of a plan file");
    for (const char* part : {"/cluster/preset", "/model/preset", "/training/preset", "/parallel/preset"}) {
      const json::json_pointer preset(part);
      if (plan.contains(preset) && plan[preset].is_string() && is_preset_path(plan[preset].get<std::string>()))
        plan[preset] = tandem::beside(plan[preset], beside);
    }
    return plan;
  }

  std::vector<Axis> axes() const {
    const json& list = needed(doc_, "axes", "", "give a list of axes, each with values");
    if (!list.is_array() || list.empty())
      refuse("axes", list, "must be a list with an axis at least", "give {\"field\": ..., \"values\": [...]}");
    std::vector<Axis> out;
    for (std::size_t i = 0; i < list.size(); ++i) {
      out.push_back(axis(list[i], "axes[" + std::to_string(i) + "]"));
      for (std::size_t j = 0; j < i; ++j)
        if (present_name(out[j].name) == present_name(out[i].name))
          refuse("axes[" + std::to_string(i) + "]", list[i], "there is another axis of this name",
                 "name it differently");
    }
    return out;
  }

  Axis axis(const json& given, const std::string& place) const {
    if (!given.is_object()) refuse(place, given, "must be an object", "give {\"field\": ..., \"values\": [...]}");
    known(given, place, {"field", "name", "values"});
    const bool of_field = given.contains("field");
    if (of_field == given.contains("name"))
      refuse(place, given, "needs either field or name",
             "field varies one field of the plan; name goes with values that have label and set");
    Axis out;
    out.name = text(given[of_field ? "field" : "name"], place + (of_field ? ".field" : ".name"));
    if (of_field) known_field(out.name, place + ".field");
    const json& values = needed(given, "values", place, "list what the field takes");
    if (!values.is_array() || values.empty())
      refuse(place + ".values", values, "must be a list with a value at least", "list what the field takes");
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::string where = place + ".values[" + std::to_string(i) + "]";
      out.values.push_back(of_field ? field_value(out.name, values[i]) : named_value(values[i], where));
      for (std::size_t j = 0; j < i; ++j)
        if (out.values[j].label == out.values[i].label)
          refuse(where, values[i], "stands there twice", "list every value once");
    }
    return out;
  }

  static AxisValue field_value(const std::string& field, const json& value) {
    return {value.is_structured() ? json(value.dump()).dump() : value.dump(), json{{field, value}}.dump()};
  }

  AxisValue named_value(const json& value, const std::string& where) const {
    if (!value.is_object()) refuse(where, value, "must be an object", "give {\"label\": ..., \"set\": {field: value}}");
    known(value, where, {"label", "set"});
    const json& label = needed(value, "label", where, "say how this value is called");
    if (!label.is_number()) text(label, where + ".label");
    const json& set = needed(value, "set", where, "say which fields of the plan it changes");
    if (!set.is_object())
      refuse(where + ".set", set, "must be an object of dotted fields", "give {\"parallel.tensor\": 4}");
    for (const auto& [field, unused] : set.items()) known_field(field, where + ".set");
    return {label.dump(), set.dump()};
  }

  /// Refuses fields that no plan has, before anything runs.
  void known_field(const std::string& field, const std::string& place) const {
    if (const Problem p = unknown_field(field); !p.reason.empty())
      throw ConfigError(Problem{file_, place, p.value, p.reason, p.remedy});
  }

  const Axis* find_axis(const std::vector<Axis>& axes, const std::string& name) const {
    for (const Axis& a : axes)
      if (a.name == name) return &a;
    return nullptr;
  }

  std::vector<std::string> names(const std::vector<Axis>& axes) const {
    std::vector<std::string> out;
    for (const Axis& a : axes) out.push_back(a.name);
    return out;
  }

  void check_points(const std::vector<Axis>& axes) const {
    if (!doc_.contains("points")) return;
    const json& list = doc_["points"];
    if (!list.is_array())
      refuse("points", list, "must be a list", "give {\"at\": {axis: value}, \"step_time_s\": ..., \"source\": ...}");
    for (std::size_t i = 0; i < list.size(); ++i) check_point(list[i], "points[" + std::to_string(i) + "]", axes);
  }

  void check_point(const json& point, const std::string& place, const std::vector<Axis>& axes) const {
    if (!point.is_object()) refuse(place, point, "must be an object", "give at, a figure and source");
    std::vector<std::string> keys = {"name", "at", "source", "notes"};
    keys.insert(keys.end(), kFigures.begin(), kFigures.end());
    known(point, place, keys);
    text(needed(point, "source", place, "say where the figure was published"), place + ".source");
    for (const char* prose : {"name", "notes"})
      if (point.contains(prose)) text(point[prose], place + "." + prose);
    int figures = 0;
    for (const std::string& figure : kFigures) {
      if (!point.contains(figure)) continue;
      ++figures;
      const json& value = point[figure];
      if (figure == "fits" ? !value.is_boolean() : !(value.is_number() && value.get<double>() > 0))
        refuse(place + "." + figure, value, figure == "fits" ? "must be true or false" : "must be a number above zero",
               "give it as published, in SI units");
    }
    if (figures == 0) refuse(place, point, "gives no figure", "give " + list_text(kFigures, "or"));
    const json& at = needed(point, "at", place, "say at which values of the axes");
    if (!at.is_object() || at.size() != axes.size())
      refuse(place + ".at", at, "must name a value of every axis", "the axes are " + list_text(names(axes)));
    for (const auto& [name, value] : at.items()) check_place(name, value, place + ".at." + name, axes);
  }

  void check_place(const std::string& name, const json& value, const std::string& place,
                   const std::vector<Axis>& axes) const {
    const Axis* axis = find_axis(axes, name);
    if (axis == nullptr) refuse(place, value, "there is no such axis", "the axes are " + list_text(names(axes)));
    std::vector<std::string> labels;
    for (const AxisValue& v : axis->values) labels.push_back(v.label);
    if (std::find(labels.begin(), labels.end(), value.dump()) == labels.end())
      refuse(place, value, "is no value of this axis", "its values are " + list_text(labels));
  }

  void check_view(const std::vector<Axis>& axes) const {
    if (!doc_.contains("view")) return;
    const json& view = doc_["view"];
    if (!view.is_object()) refuse("view", view, "must be an object", "give x, y and series");
    known(view, "view", {"x", "y", "series", "at"});
    for (const char* key : {"x", "series"})
      if (view.contains(key) && find_axis(axes, text(view[key], std::string("view.") + key)) == nullptr)
        refuse(std::string("view.") + key, view[key], "there is no such axis",
               "the axes are " + list_text(names(axes)));
    if (view.contains("at") && !view["at"].is_object())
      refuse("view.at", view["at"], "must be an object", "name values of axes");
    const json at = view.value("at", json::object());
    for (const auto& [name, value] : at.items()) check_place(name, value, "view.at." + name, axes);
    if (view.contains("y") && std::find(kFigures.begin(), kFigures.end(), text(view["y"], "view.y")) == kFigures.end())
      refuse("view.y", view["y"], "is no figure of a result", "use " + list_text(kFigures, "or"));
  }

  /// The clusters of the plans, each once.
  static std::vector<std::string> clusters(const std::vector<Point>& points) {
    std::set<std::string> out;
    for (const Point& p : points) {
      const json plan = json::parse(p.plan), cluster = plan.value("cluster", json::object());
      if (cluster.is_object() && cluster.contains("preset") && cluster["preset"].is_string()) out.insert(cluster["preset"]);
    }
    return {out.begin(), out.end()};
  }

  std::vector<Point> expand(const std::vector<Axis>& axes) const {
    std::size_t count = 1;
    for (const Axis& a : axes) {
      count *= a.values.size();
      if (count > kMostPoints)
        refuse("axes", {}, "make more than " + std::to_string(kMostPoints) + " plans", "take fewer values");
    }
    const std::string fill = doc_.contains("fill") ? text(doc_["fill"], "fill") : "";
    if (!fill.empty() && fill != "parallel.data" && fill != "cluster.devices")
      refuse("fill", doc_["fill"], "cannot be derived", "use parallel.data or cluster.devices");
    std::vector<Point> points;
    for (std::size_t i = 0; i < count; ++i) points.push_back(point(axes, i, fill));
    return points;
  }

  Point point(const std::vector<Axis>& axes, std::size_t index, const std::string& fill) const {
    json plan = doc_["base"];
    nlohmann::ordered_json at = nlohmann::ordered_json::object();
    std::vector<const AxisValue*> chosen(axes.size());
    for (std::size_t a = axes.size(); a-- > 0; index /= axes[a].values.size())
      chosen[a] = &axes[a].values[index % axes[a].values.size()];
    for (std::size_t a = 0; a < axes.size(); ++a) {
      at[axes[a].name] = nlohmann::ordered_json::parse(chosen[a]->label);
      const json set = json::parse(chosen[a]->set);
      for (const auto& [field, value] : set.items()) set_field(plan, field, value);
    }
    Point out;
    if (!fill.empty()) out.impossible = fill_field(plan, fill);
    out.at = at.dump();
    out.plan = plan.dump();
    return out;
  }

  std::string file_;
  json doc_;
};

}  // namespace

Study load_study(const std::string& path) { return StudyReader(path).read(); }

}  // namespace tandem::study

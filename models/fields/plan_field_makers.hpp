#pragma once
// Makers of field-table entries: each binds a member of Plan to a kind of value. Included by the
// tables only, because this header includes the whole JSON library. Private to models/fields.

#include <array>
#include <utility>

#include "models/base/quantity.hpp"
#include "models/fields/plan_fields.hpp"
#include "models/fields/plan_names.hpp"
#include "models/fields/plan_values.hpp"

namespace tandem {

// Limits keep every product of sizes inside 64 bits together with planfile/plan_values_check.cpp; none is near what has been built.
inline constexpr std::int64_t kMaxLayers = 100'000;
inline constexpr std::int64_t kMaxHidden = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxFfn = std::int64_t{1} << 23;
inline constexpr std::int64_t kMaxHeads = std::int64_t{1} << 16;
inline constexpr std::int64_t kMaxExperts = std::int64_t{1} << 16;
inline constexpr std::int64_t kMaxParameters = std::int64_t{1} << 50;
inline constexpr std::int64_t kMaxVocab = std::int64_t{1} << 26;
inline constexpr std::int64_t kMaxSequence = std::int64_t{1} << 27;
inline constexpr std::int64_t kMaxBatch = std::int64_t{1} << 31;
inline constexpr std::int64_t kMaxDegree = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxCount = std::int64_t{1} << 53;  // every JSON tool reads integers up to here exactly

/// A maker's common part: `Get` is a generic lambda from Plan& (or const Plan&) to the member.
struct Place {
  std::string path;
  std::string description;
};

template <class T>
nlohmann::json printed(const T& v) {
  return v;
}
inline nlohmann::json printed(const Bytes& v) { return v.count(); }
inline nlohmann::json printed(const Bandwidth& v) { return text_of(v); }

/// Members that read_value reads directly: bool, std::string.
template <class Get>
PlanField plain(Place place, Get get, std::function<nlohmann::json()> schema) {
  PlanField f{std::move(place.path), std::move(place.description), {}, false, {}, {}, std::move(schema)};
  f.read = [get](const nlohmann::json& v, Plan& p) { return read_value(v, get(p)); };
  f.write = [get](const Plan& p) { return printed(get(p)); };
  return f;
}

template <class Get>
PlanField flag(Place place, Get get) {
  return plain(std::move(place), get, [] { return schema_of_type("boolean"); });
}

/// Free text; left out of the output when empty.
template <class Get>
PlanField text(Place place, Get get) {
  PlanField f = plain(std::move(place), get, [] { return schema_of_type("string"); });
  f.write = [get](const Plan& p) { return get(p).empty() ? nlohmann::json() : nlohmann::json(get(p)); };
  return f;
}

/// Text made of some letters.
template <class Get>
PlanField letters(Place place, Get get, std::string_view of) {
  return plain(std::move(place), get, [pattern = "^[" + std::string(of) + "]+$"] {
    nlohmann::json schema = schema_of_type("string");
    schema["pattern"] = pattern;
    return schema;
  });
}

/// A key that parsing handles itself ("preset", "$schema"): only its kind is checked here, nothing is printed.
inline PlanField directive(Place place) {
  PlanField f{std::move(place.path),
              std::move(place.description),
              "none",
              false,
              {},
              {},
              [] { return schema_of_type("string"); }};
  f.read = [](const nlohmann::json& v, Plan&) {
    std::string ignored;
    return read_value(v, ignored);
  };
  f.write = [](const Plan&) { return nlohmann::json(); };
  return f;
}

template <class Get>
PlanField size(Place place, Get get, IntRange range) {
  PlanField f{std::move(place.path),
              std::move(place.description),
              {},
              false,
              {},
              {},
              [range] { return schema_of_size(range); }};
  f.read = [get, range](const nlohmann::json& v, Plan& p) { return read_value(v, range, get(p)); };
  f.write = [get](const Plan& p) { return printed(get(p)); };
  return f;
}

/// Any integral member.
template <class Get>
PlanField integer(Place place, Get get, IntRange range) {
  PlanField f{
      std::move(place.path), std::move(place.description), {}, false, {}, {}, [range] { return schema_of(range); }};
  f.read = [get, range](const nlohmann::json& v, Plan& p) {
    std::int64_t n = 0;
    std::optional<Refusal> refused = read_value(v, range, n);
    if (!refused) get(p) = static_cast<std::remove_reference_t<decltype(get(p))>>(n);
    return refused;
  };
  f.write = [get](const Plan& p) { return nlohmann::json(get(p)); };
  return f;
}

template <class Get>
PlanField number(Place place, Get get, NumberRange range) {
  PlanField f{
      std::move(place.path), std::move(place.description), {}, false, {}, {}, [range] { return schema_of(range); }};
  f.read = [get, range](const nlohmann::json& v, Plan& p) { return read_value(v, range, get(p)); };
  f.write = [get](const Plan& p) { return nlohmann::json(get(p)); };
  return f;
}

/// The present name of a value that may have an older one.
template <class E>
nlohmann::json present_name(const nlohmann::json& v) {
  if constexpr (requires { Spelling<E>::older; })
    for (const Renamed& r : Spelling<E>::older)
      if (v == r.older) return r.name;
  return v;
}

/// An enumeration with a Spelling.
template <class Get>
PlanField choice(Place place, Get get) {
  using E = std::remove_reference_t<decltype(get(std::declval<Plan&>()))>;
  PlanField f{std::move(place.path), std::move(place.description), {}, false, {}, {}, [] {
                return schema_of_choice(Spelling<E>::names);
              }};
  f.read = [get](const nlohmann::json& v, Plan& p) {
    std::size_t index = 0;
    std::optional<Refusal> refused = read_choice(present_name<E>(v), Spelling<E>::names, index);
    if (!refused) get(p) = static_cast<E>(index);
    return refused;
  };
  f.write = [get](const Plan& p) { return nlohmann::json(std::string(name(get(p)))); };
  return f;
}

/// A string member that holds one of `names`; `none` is the name of the empty string, where there is one.
template <class Get>
PlanField word(Place place, Get get, Names names, std::string_view none = "") {
  PlanField f{std::move(place.path),
              std::move(place.description),
              {},
              false,
              {},
              {},
              [names] { return schema_of_choice(names); }};
  f.read = [get, names, none](const nlohmann::json& v, Plan& p) {
    std::size_t index = 0;
    std::optional<Refusal> refused = read_choice(v, names, index);
    if (!refused) get(p) = names[index] == none ? std::string() : std::string(names[index]);
    return refused;
  };
  f.write = [get, none](const Plan& p) { return nlohmann::json(get(p).empty() ? std::string(none) : get(p)); };
  return f;
}

/// A DType member that may be one of `names`.
template <class Get>
PlanField element_type(Place place, Get get, Names names) {
  PlanField f{std::move(place.path), std::move(place.description), "by precision", false, {}, {}, [names] {
                return schema_of_choice(names);
              }};
  f.read = [get, names](const nlohmann::json& v, Plan& p) {
    std::size_t index = 0;
    std::optional<Refusal> refused = read_choice(v, names, index);
    if (!refused) get(p) = dtype_from_name(names[index]).value();
    return refused;
  };
  f.write = [get](const Plan& p) { return nlohmann::json(std::string(name(get(p)))); };
  return f;
}

/// An optional member: `inner` reads and describes the value, unset members are not printed.
template <class T, class Get, class Read>
PlanField maybe(Place place, Get get, Read read, std::function<nlohmann::json()> schema) {
  PlanField f{std::move(place.path), std::move(place.description), "the preset's", false, {}, {}, std::move(schema)};
  f.read = [get, read](const nlohmann::json& v, Plan& p) {
    T value{};
    std::optional<Refusal> refused = read(v, value);
    if (!refused) get(p) = value;
    return refused;
  };
  f.write = [get](const Plan& p) { return get(p) ? printed(*get(p)) : nlohmann::json(); };
  return f;
}

/// A field that is printed only where it differs from its default, since plans in older checkpoints do not have it.
inline PlanField unless(const nlohmann::json& usual, PlanField field) {
  field.write = [write = field.write, usual](const Plan& p) {
    const nlohmann::json value = write(p);
    return value == usual ? nlohmann::json() : value;
  };
  return std::move(field).otherwise(usual.dump());
}
inline PlanField unless_true(PlanField field) { return unless(true, std::move(field)); }

}  // namespace tandem

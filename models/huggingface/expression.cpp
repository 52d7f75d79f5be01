#include "models/huggingface/expression.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace tandem::huggingface {
namespace {

using nlohmann::json;

[[noreturn]] void fail(const json& value, const std::string& reason, const std::string& remedy = "") {
  throw ConfigError(Problem{"", "", value_text(value), reason, remedy});
}

bool truth(const json& v) {
  if (v.is_null()) return false;
  if (!v.is_boolean()) fail(v, "must be true or false, not " + kind_text(v));
  return v.get<bool>();
}

double number(const json& v) {
  if (!v.is_number()) fail(v, v.is_null() ? "is missing" : "must be a number, not " + kind_text(v), "give a number");
  return v.get<double>();
}

bool whole(const json& v) { return v.is_number_integer(); }

json plus(const json& a, const json& b, char sign) {
  number(a), number(b);
  std::int64_t sum = 0;
  if (!whole(a) || !whole(b)) return sign == '+' ? number(a) + number(b) : number(a) - number(b);
  const auto x = a.get<std::int64_t>(), y = b.get<std::int64_t>();
  if (sign == '+' ? __builtin_add_overflow(x, y, &sum) : __builtin_sub_overflow(x, y, &sum)) fail(a, "is too large", "give smaller sizes");
  return sum;
}

json times(const json& a, const json& b) {
  number(a), number(b);
  std::int64_t product = 0;
  if (!whole(a) || !whole(b)) return number(a) * number(b);
  if (__builtin_mul_overflow(a.get<std::int64_t>(), b.get<std::int64_t>(), &product)) fail(a, "is too large", "give smaller sizes");
  return product;
}

json quotient(const json& a, const json& b) {
  if (number(b) == 0) fail(b, "must not be 0", "give a number from 1");
  if (whole(a) && whole(b) && b.get<std::int64_t>() > 0 && a.get<std::int64_t>() % b.get<std::int64_t>() == 0)
    return a.get<std::int64_t>() / b.get<std::int64_t>();
  return number(a) / number(b);
}

json compare(const std::string& op, const json& a, const json& b) {
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  const double x = number(a), y = number(b);
  if (op == "<") return x < y;
  if (op == "<=") return x <= y;
  return op == ">" ? x > y : x >= y;
}

json rounded(const json& v) {
  const double nearest = std::round(number(v));
  if (!(std::abs(nearest) < 9e18)) fail(v, "is too large", "give smaller sizes");
  return whole(v) ? v : json(static_cast<std::int64_t>(nearest));
}

/// How often `value` stands in a list, or a character in a text.
json occurrences(const json& in, const json& value) {
  if (in.is_string() && value.is_string()) {
    const auto& text = in.get_ref<const std::string&>();
    if (value.get_ref<const std::string&>().size() != 1) return 0;
    return static_cast<std::int64_t>(std::count(text.begin(), text.end(), value.get_ref<const std::string&>().front()));
  }
  if (in.is_null()) return 0;
  if (!in.is_array()) fail(in, "must be a list, not " + kind_text(in));
  return static_cast<std::int64_t>(std::count(in.begin(), in.end(), value));
}

/// Number of layers 0 to n - 1 whose index plus an offset is a multiple of a period.
json multiples(const std::vector<json>& a) {
  for (const json& v : a)
    if (!whole(v) || v.get<std::int64_t>() < 0) fail(v, "must be a whole number from 0");
  const auto n = a[0].get<std::int64_t>(), period = a[1].get<std::int64_t>(), offset = a[2].get<std::int64_t>();
  if (period == 0) fail(a[1], "must not be 0", "give a number from 1");
  return (n + offset % period + period - 1) / period - (offset % period + period - 1) / period;
}

/// The shortest text that, repeated, gives `text`.
std::string shortest_period(const std::string& text) {
  for (std::size_t n = 1; n < text.size(); ++n) {
    bool repeats = true;  // the last time it may be cut short
    for (std::size_t i = n; repeats && i < text.size(); ++i) repeats = text[i] == text[i - n];
    if (repeats) return text.substr(0, n);
  }
  return text;
}

/// One letter per layer of a list, as in model.window.layers: `letter` for layers with `value`, else "f".
json letters(const json& list, const json& value, char letter) {
  if (!list.is_array() || list.empty()) return {};
  std::string all;
  for (const json& v : list) all += v == value ? letter : 'f';
  return shortest_period(all);
}

/// A list, or the characters of a text, as layer letters. After the list,
/// `a` has pairs of a value and its letter. Null if a value has no pair.
json spelled(const std::vector<json>& a) {
  const json& list = a.front();
  std::vector<json> values(list.begin(), list.is_array() ? list.end() : list.begin());
  if (list.is_string())
    for (const char c : list.get_ref<const std::string&>()) values.push_back(std::string(1, c));
  std::string all;
  for (const json& v : values) {
    std::size_t i = 1;
    while (i + 1 < a.size() && a[i] != v) i += 2;
    if (i + 1 >= a.size()) return {};
    all += a[i + 1].get<std::string>();
  }
  return all.empty() ? json() : json(shortest_period(all));
}

/// Letters of `a[0]` layers: `a[2]` for those whose index is in the list `a[1]`, `a[3]` for the others.
json placed(const std::vector<json>& a) {
  if (!whole(a[0]) || a[0].get<std::int64_t>() < 0 || a[0].get<std::int64_t>() > 100000) fail(a[0], "must be a whole number from 0 to 100000");
  std::string all;
  for (std::int64_t l = 0; l < a[0].get<std::int64_t>(); ++l)
    all += (a[1].is_array() && std::find(a[1].begin(), a[1].end(), l) != a[1].end() ? a[2] : a[3]).get<std::string>();
  return all.empty() ? json() : json(shortest_period(all));
}

/// Letters of `a[0]` layers: `a[2]` for the first `a[1]` of them, `a[3]` for the others.
json parted(const std::vector<json>& a) {
  for (const json& n : {a[0], a[1]})
    if (!whole(n) || n.get<std::int64_t>() < 0 || n.get<std::int64_t>() > 100000) fail(n, "must be a whole number from 0 to 100000");
  std::string all;
  for (std::int64_t l = 0; l < a[0].get<std::int64_t>(); ++l) all += a[l < a[1].get<std::int64_t>() ? 2 : 3].get<std::string>();
  return all.empty() ? json() : json(shortest_period(all));
}

/// The layer of a key of single layers' sizes, "05"; none for what is no index.
std::optional<std::size_t> layer_of(const std::string& key) {
  std::size_t layer = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), layer);
  return error == std::errc() && end == key.data() + key.size() ? std::optional(layer) : std::nullopt;
}

/// Whether `a[0]`, sizes of single layers by their index, gives all layers of kind `a[2]` in the list `a[1]` the same sizes,
/// only those named behind, and no other layer any.
json regular(const std::vector<json>& a) {
  const json &sizes = a[0], &kinds = a[1];
  if (!sizes.is_object() || !kinds.is_array()) return false;
  for (const auto& [key, own] : sizes.items()) {
    const std::optional<std::size_t> layer = layer_of(key);
    if (!layer || *layer >= kinds.size() || kinds[*layer] != a[2] || !own.is_object() || own != *sizes.begin()) return false;
    for (const auto& [name, value] : own.items())
      if (std::find(a.begin() + 3, a.end(), json(name)) == a.end()) return false;
  }
  return sizes.empty() || static_cast<std::ptrdiff_t>(sizes.size()) == std::count(kinds.begin(), kinds.end(), a[2]);
}

/// The size `name` that single layers have; null where they have none of this name.
json own_size(const json& sizes, const json& name) {
  if (!sizes.is_object() || sizes.empty() || !sizes.begin()->is_object()) return {};
  return sizes.begin()->value(name.get<std::string>(), json());
}

/// A number, or that of which all entries of a list are; null where they differ.
json same(const json& of) {
  if (!of.is_array() || of.empty()) return of.is_array() ? json() : of;
  return std::count(of.begin(), of.end(), of.front()) == static_cast<std::ptrdiff_t>(of.size()) ? of.front() : json();
}

/// Letters of a period of `n` layers, of which only the last one differs.
json one_in(const json& n, const json& others, const json& last) {
  if (!whole(n) || n.get<std::int64_t>() < 1 || n.get<std::int64_t>() > 1000) fail(n, "must be a whole number from 1 to 1000");
  std::string out;
  for (std::int64_t i = 1; i < n.get<std::int64_t>(); ++i) out += others.get<std::string>();
  return out + last.get<std::string>();
}

/// The words of a list by the pairs of an old and a new word behind it. Null if a word has no pair.
json reworded(const std::vector<json>& a) {
  json out = json::array();
  for (const json& word : a.front().is_array() ? a.front() : json::array({a.front()})) {
    std::size_t i = 1;
    while (i + 1 < a.size() && a[i] != word) i += 2;
    if (i + 1 >= a.size()) return {};
    out.push_back(a[i + 1]);
  }
  return out;
}

/// Length of a list, or of a text in characters.
json entries(const json& of) {
  if (of.is_string()) return static_cast<std::int64_t>(of.get_ref<const std::string&>().size());
  return of.is_array() ? static_cast<std::int64_t>(of.size()) : std::int64_t{0};
}

/// Entry `at` of a list, counted from 0; null where it has none, or is no list.
json entry(const json& of, const json& at) {
  if (of.is_object() && at.is_string()) return of.value(at.get<std::string>(), json());
  if (!of.is_array() || !whole(at) || at.get<std::int64_t>() < 0 || at.get<std::size_t>() >= of.size()) return {};
  return of[at.get<std::size_t>()];
}

/// Calls a function that needs no environment; nothing if `name` is not such a function.
std::optional<json> plain_call(const std::string& name, const std::vector<json>& a) {
  if (name == "any" && !a.empty()) return std::find(a.begin() + 1, a.end(), a.front()) != a.end();
  if (name == "count" && a.size() == 2) return occurrences(a[0], a[1]);
  if (name == "letters" && a.size() == 2) return letters(a[0], a[1], 'w');
  if (name == "index_letters" && a.size() == 2) return letters(a[0], a[1], 'i');
  if (name == "spelled" && a.size() > 1) return spelled(a);
  if (name == "placed" && a.size() == 4) return placed(a);
  if (name == "parted" && a.size() == 4) return parted(a);
  if (name == "regular" && a.size() > 3) return regular(a);
  if (name == "own_size" && a.size() == 2) return own_size(a[0], a[1]);
  if (name == "same" && a.size() == 1) return same(a[0]);
  if (name == "starts" && a.size() == 2) return a[0].is_string() && a[0].get<std::string>().starts_with(a[1].get<std::string>());
  if (name == "one_full_in" && a.size() == 1) return one_in(a[0], "w", "f");
  if (name == "one_in" && a.size() == 3) return one_in(a[0], a[1], a[2]);
  if (name == "reworded" && a.size() > 1) return reworded(a);
  if (name == "entry" && a.size() == 2) return entry(a[0], a[1]);
  if (name == "multiples" && a.size() == 3) return multiples(a);
  if (name == "length" && a.size() == 1) return entries(a[0]);
  if (name == "list" && !a.empty()) return json(a);
  if (name == "round" && a.size() == 1) return rounded(a[0]);
  if (name == "floor" && a.size() == 1) return rounded(whole(a[0]) ? a[0] : json(std::floor(number(a[0]))));
  if (name == "sqrt" && a.size() == 1) return std::sqrt(number(a[0]));
  if (name == "log" && a.size() == 1) return std::log(number(a[0]));
  if (name == "min" && a.size() == 2) return number(a[0]) <= number(a[1]) ? a[0] : a[1];
  if (name == "max" && a.size() == 2) return number(a[0]) >= number(a[1]) ? a[0] : a[1];
  return std::nullopt;
}

/// Reads and evaluates in one pass. Branches not taken are read with `live` false, which looks up no names.
class Reader {
 public:
  Reader(std::string_view text, Names& names) : text_(text), names_(names) {}

  json whole_text() {
    json value = choice(true);
    skip_spaces();
    if (at_ != text_.size()) unreadable();
    return value;
  }

 private:
  [[noreturn]] void unreadable() const {
    throw ConfigError(Problem{"", "", std::string(text_), "cannot be read at \"" + std::string(text_.substr(at_)) + '"',
                              "see models/huggingface/README.md"});
  }

  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool take(std::string_view sign) {
    skip_spaces();
    if (!text_.substr(at_).starts_with(sign)) return false;
    const std::size_t end = at_ + sign.size();
    const bool word = std::isalpha(static_cast<unsigned char>(sign.front())) != 0;
    if (word && end < text_.size() && is_name(text_[end])) return false;
    at_ = end;
    return true;
  }

  void need(std::string_view sign) {
    if (!take(sign)) unreadable();
  }

  static bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

  json choice(bool live) {
    json value = fallback(live);
    skip_spaces();
    if (text_.substr(at_).starts_with("??") || !take("?")) return value;
    const bool first = live && truth(value);
    json yes = choice(first);
    need(":");
    json no = choice(live && !first);
    return first ? yes : no;
  }

  json fallback(bool live) {
    json value = either(live);
    while (take("??")) {
      json other = either(live && value.is_null());
      if (value.is_null()) value = std::move(other);
    }
    return value;
  }

  json either(bool live) {
    json value = both(live);
    while (take("or")) {
      const bool known = live && truth(value);
      const json other = both(live && !known);
      if (live) value = known || truth(other);
    }
    return value;
  }

  json both(bool live) {
    json value = comparison(live);
    while (take("and")) {
      const bool open = live && truth(value);
      const json other = comparison(open);
      if (live) value = open && truth(other);
    }
    return value;
  }

  json comparison(bool live) {
    json value = sum(live);
    for (const char* op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!take(op)) continue;
      const json other = sum(live);
      return live ? compare(op, value, other) : json();
    }
    return value;
  }

  json sum(bool live) {
    json value = product(live);
    while (true) {
      const char sign = take("+") ? '+' : take("-") ? '-' : ' ';
      if (sign == ' ') return value;
      const json other = product(live);
      if (live) value = plus(value, other, sign);
    }
  }

  json product(bool live) {
    json value = factor(live);
    while (true) {
      const char sign = take("*") ? '*' : take("/") ? '/' : ' ';
      if (sign == ' ') return value;
      const json other = factor(live);
      if (live) value = sign == '*' ? times(value, other) : quotient(value, other);
    }
  }

  json factor(bool live) {
    if (take("not")) {
      const json value = factor(live);
      return live ? json(!truth(value)) : json();
    }
    if (take("(")) {
      json value = choice(live);
      need(")");
      return value;
    }
    skip_spaces();
    if (at_ == text_.size()) unreadable();
    const char c = text_[at_];
    if (c == '\'') return quoted();
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) return digits();
    return named(live);
  }

  json quoted() {
    const std::size_t end = text_.find('\'', at_ + 1);
    if (end == std::string_view::npos) unreadable();
    json value = std::string(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return value;
  }

  json digits() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    json value = json::parse(text_.substr(begin, at_ - begin), nullptr, false);
    if (!value.is_number()) at_ = begin, unreadable();
    if (!value.is_number_unsigned()) return value;
    return value.get<std::int64_t>();
  }

  json named(bool live) {
    const bool field = take("$");
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    const std::string name(text_.substr(begin, at_ - begin));
    if (name.empty()) unreadable();
    if (field) return live ? names_.field(name) : json();
    if (name == "true" || name == "false") return name == "true";
    if (name == "null") return {};
    if (!take("(")) return live ? names_.fact(name) : json();
    return called(name, live);
  }

  json called(const std::string& name, bool live) {
    std::vector<json> arguments;
    while (!take(")")) {
      if (!arguments.empty()) need(",");
      arguments.push_back(choice(live));
    }
    if (!live) return {};
    const std::optional<json> plain = plain_call(name, arguments);
    return plain ? *plain : names_.call(name, arguments);
  }

  std::string_view text_;
  Names& names_;
  std::size_t at_ = 0;
};

}  // namespace

json evaluate(std::string_view text, Names& names) { return Reader(text, names).whole_text(); }

}  // namespace tandem::huggingface

#include "models/huggingface/expression.hpp"

#include <map>
#include <nlohmann/json.hpp>

#include "tests/catch.hpp"

using namespace tandem;
using nlohmann::json;

namespace {

/// Fields a = 6, b = 4, text = "xy", list = [1, 2, 1], gone = null; no facts.
class Fields : public huggingface::Names {
 public:
  json field(const std::string& path) override {
    asked.push_back(path);
    return values.contains(path) ? values[path] : json();
  }
  json fact(const std::string& name) override { return name == "half" ? json(0.5) : json(); }
  json call(const std::string&, const std::vector<json>& arguments) override { return arguments.size(); }

  json values = {{"a", 6}, {"b", 4}, {"text", "xy"}, {"list", {1, 2, 1}}, {"large", 4'000'000'000'000'000'000}, {"yes", true}};
  std::vector<std::string> asked;
};

json value(std::string_view text) {
  Fields fields;
  return huggingface::evaluate(text, fields);
}

std::string refusal(std::string_view text) {
  try {
    value(text);
    return "";
  } catch (const ConfigError& e) {
    return e.problems().front().reason;
  }
}

}  // namespace

TEST_CASE("whole numbers stay exact and other quotients become doubles") {
  CHECK(value("$a * $b + 2 * 3 - 1") == 29);
  CHECK(value("($a + $b) / 5").is_number_integer());
  CHECK(value("$a / $b") == 1.5);
  CHECK(value("9007199254740993 + 0").get<std::int64_t>() == 9007199254740993);
  CHECK(value("round(half + 1)") == 2);
  CHECK(value("floor($a / $b)") == 1);
  CHECK(value("log(8) / log(2)").get<double>() == Approx(3));
}

TEST_CASE("a missing field takes the other side of ??, and an error names it where there is none") {
  CHECK(value("$gone ?? $a") == 6);
  CHECK(value("$a ?? $gone * 2") == 6);
  CHECK(value("$gone ?? $lost ?? 'none'") == "none");
  CHECK(refusal("$gone * 2") == "is missing");
}

TEST_CASE("conditions choose, and what is not chosen is not asked for") {
  Fields fields;
  CHECK(huggingface::evaluate("$a > $b and not ($b == 4.5) ? 'large' : $never", fields) == "large");
  CHECK(fields.asked == std::vector<std::string>{"a", "b", "b"});
  CHECK(value("$yes == true or $never") == true);
  CHECK(value("$a == 6 ? $b == 4 ? 1 : 2 : 3") == 1);
  CHECK(value("any($text, 'z', 'xy')") == true);
}

TEST_CASE("layers become letters by their names or their places, and the shortest text that repeats") {
  CHECK(value("spelled('MFMF', 'M', 'r', 'F', 'a')") == "ra");
  CHECK(value("spelled($list, 1, 'x', 2, 'y')") == "xy");  // the last time is cut short
  CHECK(value("spelled($text, 'x', 'a')").is_null());      // y has no letter
  CHECK(value("spelled($gone, 'x', 'a')").is_null());
  CHECK(value("placed(6, $list, 'a', 'r')") == "raarr");
  CHECK(value("placed(4, $gone, 'a', 'r')") == "r");
  CHECK(value("length($text) + length($list)") == 5);
}

TEST_CASE("entries of lists, letters of texts and regular layers are counted") {
  CHECK(value("count($list, 1)") == 2);
  CHECK(value("count($text, 'x')") == 1);
  CHECK(value("count($gone, 'x')") == 0);
  CHECK(value("length($list)") == 3);
  CHECK(value("index_letters($list, 1)").get<std::string>().find_first_not_of("if") == std::string::npos);
  for (int n = 0; n < 14; ++n)
    for (int offset = 0; offset < 4; ++offset) {
      int expected = 0;
      for (int i = 0; i < n; ++i) expected += (i + offset) % 3 == 0 ? 1 : 0;
      CHECK(value("multiples(" + std::to_string(n) + ", 3, " + std::to_string(offset) + ")") == expected);
    }
}

TEST_CASE("numbers that do not fit, divisions by nothing and wrong kinds are refused") {
  CHECK(refusal("$large * 4") == "is too large");
  CHECK(refusal("$large + $large + $large") == "is too large");
  CHECK(refusal("$a / ($b - 4)") == "must not be 0");
  CHECK(refusal("$text * 2") == "must be a number, not a string");
  CHECK(refusal("$a and $b") == "must be true or false, not a whole number");
  CHECK(refusal("count($a, 1)") == "must be a list, not a whole number");
}

TEST_CASE("an expression that cannot be read is refused where it stops making sense") {
  CHECK(refusal("$a * (2") == "cannot be read at \"\"");
  CHECK(refusal("$a 2") == "cannot be read at \"2\"");
  CHECK(refusal("") == "cannot be read at \"\"");
}

TEST_CASE("letters, words and entries of lists") {
  CHECK(value("one_in(4, 'r', 'a')") == "rrra");
  CHECK(value("one_in(1, 'r', 'a')") == "a");
  CHECK(value("reworded($list, 1, 'one', 2, 'two')") == json({"one", "two", "one"}));
  CHECK(value("reworded($text, 'xy', 'z')") == json({"z"}));
  CHECK(value("reworded($list, 1, 'one')").is_null());
  CHECK(value("entry($list, 1)") == 2);
  CHECK(value("entry($list, 3)").is_null());
  CHECK(value("entry($text, 0)").is_null());
}

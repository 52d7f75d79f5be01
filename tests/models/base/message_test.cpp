#include "models/base/error.hpp"
#include "models/base/text.hpp"
#include "tests/catch.hpp"

using namespace tandem;

TEST_CASE("Control characters of a text are shown and not sent") {
  CHECK(printable("a\x1b]0;x\a\x7f b\tc\n") == "a\\x1b]0;x\\x07\\x7f b\\x09c\\x0a");
  CHECK(printable("a\tb\nc\r", "\n") == "a\\x09b\nc\\x0d");
  CHECK(printable("\xC2\x9B[2J") == "\\x9b[2J");
  CHECK(printable("\xC2\xA0 \xC3\xA9 \xE2\x80\x93 \x9B") == "\xC2\xA0 \xC3\xA9 \xE2\x80\x93 \x9B");
  CHECK(printable("ends in \xC2") == "ends in \xC2");
}

TEST_CASE("The middle of a long text is left out between whole characters") {
  CHECK(without_middle("0123456789", 10) == "0123456789");
  CHECK(without_middle("0123456789abcdef", 12) == "01234...cdef");
  const std::string text = [] {
    std::string t;
    for (int i = 0; i < 100; ++i) t += "\xC3\xA9";
    return t;
  }();
  for (std::size_t limit = 9; limit < 40; ++limit) {
    const std::string cut = without_middle(text, limit);
    CHECK(cut.size() <= limit);
    CHECK(cut.find("\xC3\xA9...\xC3\xA9") != std::string::npos);
  }
}

TEST_CASE("A message shows no part of an input at any length") {
  const std::string much(100'000, 'k');
  for (const Problem& p : {Problem{much, "", "", "is bad", ""}, Problem{"f", much, "", "is bad", ""}, Problem{"f", "a", much, "is bad", ""},
                           Problem{"f", "a", "1", much, ""}, Problem{"f", "a", "1", "is bad", much}}) {
    CHECK(p.message().size() < 5000);
    CHECK(p.message().find("...") != std::string::npos);
  }
  CHECK(Problem{"f", "axes." + much + ".values", "1", "is bad", ""}.message().find("k.values = 1: is bad") != std::string::npos);
}

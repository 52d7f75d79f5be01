#include "models/base/left_out.hpp"

#include "tests/catch.hpp"

using namespace tandem;

using Words = std::vector<std::string>;

TEST_CASE("a text names repositories with their owners, and papers by arXiv's number") {
  CHECK(named_evidence("NVIDIA/NeMo:docs/a/b.md (arXiv 2401.10241), and NVIDIA/NeMo-Framework-Launcher.") ==
        Words{"NVIDIA/NeMo", "2401.10241", "NVIDIA/NeMo-Framework-Launcher"});
  CHECK(named_evidence("a/b/c.py, version 12.5, /usr, x/, NeMo alone, 24.07, v1.2/x").empty());
  CHECK(named_evidence("x/y and x/y").size() == 1);
}

TEST_CASE("evidence rests on a source that is left out where it names it whole, while that lasts and in that thread") {
  const Sources sources{{"set"}, {"NVIDIA/NeMo", "2401.10241"}};
  CHECK_FALSE(rests_on_left_out("NVIDIA/NeMo: a.py"));
  {
    const LeftOut without(sources);
    CHECK(rests_on_left_out("pytorch/pytorch; NVIDIA/NeMo v2.0.0: a.py"));
    CHECK(rests_on_left_out("arXiv 2401.10241, section 4"));
    CHECK_FALSE(rests_on_left_out("NVIDIA/NeMo-Framework-Launcher: a.yaml"));
    CHECK_FALSE(rests_on_left_out("NeMo"));
    {
      const Sources none;
      const LeftOut inner(none);
      CHECK_FALSE(rests_on_left_out("NVIDIA/NeMo: a.py"));
    }
    CHECK(rests_on_left_out("NVIDIA/NeMo: a.py"));
  }
  CHECK_FALSE(rests_on_left_out("NVIDIA/NeMo: a.py"));
}

TEST_CASE("of fits without sources the one counts that has every source left out that any fit knows, and the fewest others") {
  const auto choice = [](const Words& sets, const Words& choices) {
    const Sources sources{sets, {}};
    const LeftOut without(sources);
    return choice_without(choices);
  };
  CHECK(choice({"a"}, {"a+b", "a", "c"}) == "a");
  CHECK(choice({"a", "b"}, {"a", "b", "a+b+c"}) == "a+b+c");
  CHECK(choice({"a", "never fitted"}, {"a", "b"}) == "a");
  CHECK(choice({"a", "b"}, {"a", "b"}).empty());
  CHECK(choice({"c"}, {"a", "b"}).empty());
  CHECK(choice({}, {"a"}).empty());
}

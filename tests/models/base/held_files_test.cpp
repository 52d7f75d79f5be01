#include "models/base/held_files.hpp"

#include <thread>

#include "tests/catch.hpp"

using namespace tandem;

TEST_CASE("While files are held an answer is read once on each thread, otherwise each time") {
  HeldAnswers<int> answers;
  int reads = 0;
  const auto get = [&](const char* name) { return answers.get(name, [&] { return ++reads; }); };
  CHECK(get("a") == 1);
  CHECK(get("a") == 2);
  {
    const HeldFiles held;
    CHECK(get("a") == 3);
    CHECK(get("b") == 4);
    {
      const HeldFiles inner;
      CHECK(get("a") == 3);
    }
    CHECK(get("a") == 3);
    std::uint64_t there = 0;
    std::thread([&] { there = HeldFiles::period(); }).join();
    CHECK(there == HeldFiles::period());
  }
  CHECK(HeldFiles::period() == 0);
  CHECK(get("a") == 5);
  const HeldFiles again;
  CHECK(get("a") == 6);
}

TEST_CASE("A shared answer is read once for all threads while files are held, otherwise each time") {
  SharedHeldAnswers<int> answers;
  int reads = 0;
  const auto get = [&] { return answers.get("a", [&] { return ++reads; }); };
  CHECK(get() == 1);
  CHECK(get() == 2);
  const HeldFiles held;
  CHECK(get() == 3);
  int other = 0;
  std::thread([&] { other = get(); }).join();
  CHECK(other == 3);
  CHECK(get() == 3);
}

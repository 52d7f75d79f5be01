#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "exec/data/data.hpp"
#include "exec/data/permutation.hpp"
#include "exec/data/started_at.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/source_dir.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

/// A file that is gone when the test ends.
class SavedText {
 public:
  SavedText(const std::string& name, const std::string& text) : path_("exec_data_test_" + name + ".txt") {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~SavedText() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Bytes 0, 1, 2, ... so that a window's first token says where it lies.
std::string ramp(int n) {
  std::string s;
  for (int i = 0; i < n; ++i) s.push_back(static_cast<char>(i));
  return s;
}

std::vector<std::int32_t> sequence(const TokenSource& data, std::int64_t index, std::size_t seq) {
  std::vector<std::int32_t> tokens(seq + 1);
  data.sequence(index, tokens);
  return tokens;
}

const std::string kText = tests::source_dir() + "/experiments/data/kjv-new-testament.txt";

}  // namespace

TEST_CASE("A permutation visits every index once for every size") {
  const std::uint64_t size = GENERATE(1, 2, 3, 4, 5, 7, 16, 17, 100, 1023, 1024, 1025);
  const Permutation order(size, 42);
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < size; ++i) seen.insert(order(i));
  REQUIRE(seen.size() == size);
  REQUIRE(*seen.rbegin() == size - 1);
}

TEST_CASE("A permutation leaves few points in place and depends on its key") {
  constexpr std::uint64_t size = 1000;
  const Permutation order(size, 1), other(size, 2);
  int fixed = 0, equal = 0;
  for (std::uint64_t i = 0; i < size; ++i) fixed += order(i) == i, equal += order(i) == other(i);
  // Random permutations have 1 of each on average; 8 or more has probability 1e-5.
  CHECK(fixed < 8);
  CHECK(equal < 8);
}

TEST_CASE("A text without a whole sequence is refused with its length and the length that is enough") {
  const SavedText file("short", std::string(640, 'x'));
  const auto said = [&](std::int64_t seq, const TextPart& part) -> std::string {
    try {
      open_tokens(file.path(), seq, 1, part);
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "";
  };
  const std::string last = said(64, {0.9, 1}), first = said(600, {0, 0.9}), all = said(640, {});
  CHECK(last.find("data = 640 bytes: its last 10 %, which is held out for evaluations, is shorter than a sequence with its last target, "
                  "65 bytes: it has 64") != std::string::npos);
  CHECK(first.find("data = 640 bytes: its first 90 %") != std::string::npos);
  CHECK(all.find("data = 640 bytes: the text is shorter than a sequence with its last target, 641 bytes; give at least 641 bytes") !=
        std::string::npos);
  CHECK(last.find("--eval-data") != std::string::npos);
  CHECK(first.find("--eval-data") != std::string::npos);
  CHECK(said(700, {0, 0.9}).find("--eval-data") == std::string::npos);  // would not be enough
  // Where evaluations read the last tenth, the first nine tenths' remedy is enough for both.
  for (const auto& [text, seq, part] : {std::tuple(last, 64, TextPart{0.9, 1}), std::tuple(first, 600, TextPart{0.9, 1})}) {
    const std::size_t at = text.find("at least ");
    REQUIRE(at != std::string::npos);
    const int enough = std::stoi(text.substr(at + 9));
    const SavedText long_enough("enough", std::string(static_cast<std::size_t>(enough), 'x'));
    const SavedText too_short("less", std::string(static_cast<std::size_t>(enough - 1), 'x'));
    CHECK(open_tokens(long_enough.path(), seq, 1, part)->sequences() == 1);
    CHECK(open_tokens(long_enough.path(), seq, 1, {0, part.begin})->sequences() >= 1);
    CHECK_THROWS_AS(open_tokens(too_short.path(), seq, 1, part), ConfigError);
  }
}

TEST_CASE("Epochs are the sequences that were read over those of the text") {
  const SavedText file("epochs", ramp(3 * 41 + 3));
  const auto data = open_tokens(file.path(), 3, 7);
  CHECK(data->epochs(41) == 1.0);
  CHECK(data->epochs(10.25) == 0.25);
  const auto later = started_at(open_tokens(file.path(), 3, 7), 100);  // after 100 sequences of another length
  CHECK(later->epochs(182) == 2.0);
}

TEST_CASE("Every epoch covers every window of the text once, each in another order") {
  const SavedText file("epoch", ramp(3 * 41 + 3));  // 41 windows of 3 and a tail of two that no window reaches
  const auto data = open_tokens(file.path(), 3, 7);
  std::vector<std::vector<std::int32_t>> orders;
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    auto& order = orders.emplace_back();
    for (std::int64_t i = 0; i < 41; ++i) {
      const auto tokens = sequence(*data, epoch * 41 + i, 3);
      REQUIRE(tokens[0] % 3 == 0);
      for (int t = 1; t <= 3; ++t) REQUIRE(tokens[static_cast<std::size_t>(t)] == tokens[0] + t);
      order.push_back(tokens[0]);
    }
    REQUIRE(std::set<std::int32_t>(order.begin(), order.end()).size() == 41);
  }
  for (std::size_t a = 0; a < orders.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) CHECK(orders[a] != orders[b]);
}

TEST_CASE("The same seed and index give the same tokens, another seed another order") {
  const auto a = open_tokens(kText, 64, 1), b = open_tokens(kText, 64, 1), c = open_tokens(kText, 64, 2);
  bool differs = false;
  for (std::int64_t i : {0, 1, 1000, 123456789}) {
    CHECK(sequence(*a, i, 64) == sequence(*b, i, 64));
    differs = differs || sequence(*a, i, 64) != sequence(*c, i, 64);
  }
  CHECK(differs);
}

TEST_CASE("Threads may read sequences at once", "[tsan]") {
  const auto data = open_tokens(kText, 32, 1);
  std::vector<std::vector<std::int32_t>> got(4);
  std::vector<std::thread> threads;
  for (auto& g : got) threads.emplace_back([&] { for (std::int64_t i = 0; i < 50; ++i) g = sequence(*data, i, 32); });
  for (auto& t : threads) t.join();
  for (const auto& g : got) CHECK(g == got[0]);
}

TEST_CASE("Bytes above 127 are tokens above 127") {
  const SavedText file("high", std::string("\xff\x80\x00", 3));
  const auto data = open_tokens(file.path(), 2, 0);
  CHECK(data->vocab_size() == 256);
  CHECK(sequence(*data, 0, 2) == std::vector<std::int32_t>{255, 128, 0});
}

TEST_CASE("A text that is missing, a folder or too short is refused with its name") {
  CHECK_THROWS_AS(open_tokens("no_such_text.txt", 4, 0), ConfigError);
  CHECK_THROWS_AS(open_tokens(tests::source_dir(), 4, 0), ConfigError);
  const SavedText file("short", "four");
  try {
    open_tokens(file.path(), 4, 0);
    FAIL("not refused");
  } catch (const ConfigError& e) {
    CHECK(e.problems().at(0).file == file.path());
    CHECK(e.problems().at(0).remedy.find("at least 5 bytes") != std::string::npos);
  }
  CHECK_NOTHROW(open_tokens(file.path(), 3, 0));
}

TEST_CASE("Bigram entropy is zero when each byte decides the next, and ln 2 for a fair coin after each") {
  const SavedText fixed("fixed", "abababababab");
  CHECK(*bigram_entropy(*read_token_file(fixed.path())) == 0);
  // The cycle "aabb" repeated: after a comes a or b equally often, after b too (closed: it ends where it began).
  std::string text;
  for (int i = 0; i < 100; ++i) text += "aabb";
  const SavedText coin("coin", text + "a");
  CHECK(*bigram_entropy(*read_token_file(coin.path())) == Approx(std::log(2.0)).epsilon(1e-14));  // rounding of one log and 4 products
}

TEST_CASE("Bigram entropy of the carried text equals a count by another route") {
  // H(next | previous) = H(pair) - H(previous), over maps instead of tables.
  std::ifstream in(kText, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  std::map<std::string, double> pairs;
  std::map<char, double> firsts;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) pairs[text.substr(i, 2)] += 1, firsts[text[i]] += 1;
  const double n = static_cast<double>(text.size() - 1);
  double entropy = 0;
  for (const auto& [pair, c] : pairs) entropy -= c / n * std::log(c / n);
  for (const auto& [first, c] : firsts) entropy += c / n * std::log(c / n);
  CHECK(*bigram_entropy(*read_token_file(kText)) == Approx(entropy).epsilon(1e-12));  // sums of about a thousand terms
  CHECK(text.size() == 949740);

}

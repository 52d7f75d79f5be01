#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "exec/data/blend.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

/// Token 0 of sequence i is its own number, token 1 that of the i-th sequence.
class Numbered final : public TokenSource {
 public:
  Numbered(std::int32_t own, std::int64_t vocab) : own_(own), vocab_(vocab) {}
  std::int64_t vocab_size() const override { return vocab_; }
  std::int64_t sequences() const override { return 10; }
  std::uint64_t fingerprint() const override { return static_cast<std::uint64_t>(own_) + 1; }
  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    tokens[0] = own_;
    tokens[1] = static_cast<std::int32_t>(index);
  }

 private:
  std::int32_t own_;
  std::int64_t vocab_;
};

std::unique_ptr<TokenSource> blend_of(const std::vector<double>& weights) {
  std::vector<BlendPart> parts;
  for (std::size_t p = 0; p < weights.size(); ++p)
    parts.push_back({std::make_shared<Numbered>(static_cast<std::int32_t>(p), 100 + static_cast<std::int64_t>(p)), weights[p]});
  return blend(std::move(parts));
}

std::pair<std::int32_t, std::int32_t> at(const TokenSource& source, std::int64_t index) {
  std::int32_t tokens[2];
  source.sequence(index, tokens);
  return {tokens[0], tokens[1]};
}

}  // namespace

TEST_CASE("a blend of three to one takes the part that is furthest behind its share") {
  // Written out by hand: shares 3/4 and 1/4; after n sequences a part is behind by share * max(n, 1) - taken.
  const auto source = blend_of({3, 1});
  const std::vector<std::pair<std::int32_t, std::int32_t>> expected{{0, 0}, {1, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 1}, {0, 4}, {0, 5}};
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(at(*source, static_cast<std::int64_t>(i)) == expected[i]);
}

TEST_CASE("every part of a blend stays near its share, and its sequences come in order, from whatever index one asks") {
  const std::vector<double> weights{0.5, 0.3, 0.15, 0.05};
  const auto in_order = blend_of(weights), anywhere = blend_of({5, 3, 1.5, 0.5});
  CHECK(at(*anywhere, 4999).first >= 0);
  std::vector<std::int32_t> taken(weights.size());
  for (std::int64_t i = 0; i < 5000; ++i) {
    const auto [part, index] = at(*in_order, i);
    CHECK(index == taken[static_cast<std::size_t>(part)]++);
    CHECK(at(*anywhere, i) == std::pair(part, index));
    for (std::size_t p = 0; p < weights.size(); ++p)
      CHECK(std::abs(taken[p] - weights[p] * static_cast<double>(i + 1)) < static_cast<double>(weights.size()));
  }
}

TEST_CASE("the epochs of a blend are those of the text that is read most often") {
  CHECK(blend_of({3, 1})->epochs(40) == Approx(3));  // 30 of 40 sequences come from ten
  CHECK(blend_of({1, 1})->epochs(40) == Approx(2));
}

TEST_CASE("threads that read one blend read the same", "[tsan]") {
  const auto shared = blend_of({2, 5, 1}), own = blend_of({2, 5, 1});
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> read(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < read.size(); ++t)
    threads.emplace_back([&, t] {
      for (std::int64_t i = 0; i < 3000; ++i) read[t].push_back(at(*shared, (i * 7 + static_cast<std::int64_t>(t) * 311) % 3000));
    });
  for (std::thread& t : threads) t.join();
  for (std::size_t t = 0; t < read.size(); ++t)
    for (std::int64_t i = 0; i < 3000; ++i)
      CHECK(read[t][static_cast<std::size_t>(i)] == at(*own, (i * 7 + static_cast<std::int64_t>(t) * 311) % 3000));
}

TEST_CASE("a blend has the largest vocabulary, all sequences, and a fingerprint of parts and shares") {
  const auto source = blend_of({1, 1});
  CHECK(source->vocab_size() == 101);
  CHECK(source->sequences() == 20);
  CHECK(source->fingerprint() == blend_of({2, 2})->fingerprint());
  CHECK(source->fingerprint() != blend_of({1, 2})->fingerprint());
  CHECK(source->fingerprint() != blend_of({1, 1, 1})->fingerprint());
}

TEST_CASE("weights that are no share are refused") {
  for (const double weight : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    CHECK_THROWS_AS(blend_of({1, weight}), ConfigError);
  CHECK_THROWS_AS(blend({}), ConfigError);
  CHECK_THROWS_AS(blend_of(std::vector<double>(256, 1)), ConfigError);
}

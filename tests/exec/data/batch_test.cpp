// What a micro-batch's tokens, targets, types and labels hold, and how BERT's examples are made.
#include <cmath>
#include <fstream>
#include <numeric>

#include "exec/data/batch_reader.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/source_dir.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

using Tokens = std::vector<std::int32_t>;

/// Sequence i of a text of 50 different ones: token t is 4 * (i % 50) + (1 in the second half) + 2 if t is odd, so a token
/// says where it comes from.
class Telling final : public TokenSource {
 public:
  static constexpr std::int64_t kDifferent = 50;
  std::int64_t vocab_size() const override { return 4 * kDifferent; }
  std::int64_t sequences() const override { return different; }
  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    const auto seq = tokens.size() - 1;
    for (std::size_t t = 0; t <= seq; ++t)
      tokens[t] = static_cast<std::int32_t>(4 * (index % different) + (t >= seq / 2 ? 1 : 0) + (t % 2 == 1 ? 2 : 0));
  }
  std::int64_t different = kDifferent;
};

constexpr std::int32_t kMask = 200;

Plan bert(std::int64_t seq = 40) {
  Plan p;
  p.model.family = Family::bert;
  p.model.vocab_size = kMask + 1;
  p.model.token_types = 2;
  p.training.seq_length = seq;
  p.training.micro_batch_size = 1;
  p.training.seed = 5;
  return p;
}

/// One micro-batch on one context rank.
struct Batch {
  Tokens tokens, targets, types, labels;
};

Batch read(const Plan& plan, const TokenSource& source, std::int64_t first, std::int64_t context_rank = 0) {
  const BatchReader reader(data_shape(plan), source, context_rank);
  const auto get = [&](Input input) {
    Tokens v(static_cast<std::size_t>(reader.elements(input)));
    reader.fill(input, first, v.data());
    return v;
  };
  return {get(Input::tokens), get(Input::targets), get(Input::types), get(Input::labels)};
}

Tokens plain(const TokenSource& source, std::int64_t index, std::int64_t seq) {
  Tokens v(static_cast<std::size_t>(seq) + 1);
  source.sequence(index, v);
  v.pop_back();
  return v;
}

/// The tokens before any was hidden.
Tokens shown(const Batch& b) {
  Tokens v = b.tokens;
  for (std::size_t i = 0; i < v.size(); ++i)
    if (b.targets[i] >= 0) v[i] = b.targets[i];
  return v;
}

std::int64_t hidden(const Batch& b) {
  return std::count_if(b.targets.begin(), b.targets.end(), [](auto t) { return t >= 0; });
}

}  // namespace

TEST_CASE("Slots are known by four names") {
  CHECK(input_of("tokens") == Input::tokens);
  CHECK(input_of("targets") == Input::targets);
  CHECK(input_of("types") == Input::types);
  CHECK(input_of("labels") == Input::labels);
  CHECK_FALSE(input_of("token").has_value());
}

TEST_CASE("Decoders read a sequence and the same one position on") {
  Plan p = bert(8);
  p.model.family = Family::gpt;
  p.training.micro_batch_size = 2;
  const auto b = read(p, Telling(), 3);
  CHECK(b.tokens == Tokens{12, 14, 12, 14, 13, 15, 13, 15, 16, 18, 16, 18, 17, 19, 17, 19});
  CHECK(b.targets == Tokens{14, 12, 14, 13, 15, 13, 15, 13, 18, 16, 18, 17, 19, 17, 19, 17});
}

TEST_CASE("Context ranks together read what one rank reads, everything in the position's own place") {
  const auto family = GENERATE(Family::gpt, Family::bert);
  Plan whole = bert(24), part = whole;
  whole.model.family = part.model.family = family;
  const std::int64_t ranks = GENERATE(2, 3, 4);
  part.parallel.context = ranks;
  const auto b = read(whole, Telling(), 17);
  const std::size_t piece = 24 / (2 * static_cast<std::size_t>(ranks));
  for (std::int64_t r = 0; r < ranks; ++r) {
    const auto mine = read(part, Telling(), 17, r);
    REQUIRE(mine.tokens.size() == 2 * piece);
    for (std::size_t i = 0; i < 2 * piece; ++i) {
      const auto number = static_cast<std::size_t>(i < piece ? r : 2 * ranks - 1 - r);
      const auto at = number * piece + i % piece;
      REQUIRE(mine.tokens[i] == b.tokens[at]);
      REQUIRE(mine.targets[i] == b.targets[at]);
      REQUIRE(mine.types[i] == b.types[at]);
    }
    if (family == Family::bert) CHECK(mine.labels == (r == 0 ? b.labels : Tokens{-1}));
  }
}

TEST_CASE("Every sequence hides as many positions as the plan says, and asks for what was there") {
  const std::int64_t seq = GENERATE(1, 2, 12, 40, 512);
  const Plan p = bert(seq);
  const Telling source;
  for (std::int64_t i = 0; i < 40; ++i) {
    const auto b = read(p, source, i);
    REQUIRE(hidden(b) == p.masked_positions());
    const auto original = plain(source, i, seq), before = shown(b);
    const auto half = seq / 2;
    REQUIRE(std::equal(original.begin(), original.begin() + half, before.begin()));
    for (std::size_t t = 0; t < b.tokens.size(); ++t) REQUIRE((b.targets[t] >= -1 && b.targets[t] < kMask));
  }
}

TEST_CASE("Of the hidden positions eight in ten show the mask, one a random token and one what was there") {
  const Plan p = bert(100);
  const Telling source;
  double n = 0, mask = 0, kept = 0, other = 0, sum = 0;
  std::vector<int> at(100);
  for (std::int64_t i = 0; i < 2000; ++i) {
    const auto b = read(p, source, i);
    for (std::size_t t = 0; t < 100; ++t) {
      if (b.targets[t] < 0) {
        REQUIRE(b.tokens[t] != kMask);
        continue;
      }
      ++n, ++at[t];
      if (b.tokens[t] == kMask) ++mask;
      else if (b.tokens[t] == b.targets[t]) ++kept;
      else ++other, sum += b.tokens[t];
    }
  }
  REQUIRE(n == 30000);
  // Five standard deviations of n draws; a random token equals the one it replaces once in 200.
  CHECK(std::abs(mask / n - 0.8) < 5 * std::sqrt(0.8 * 0.2 / n));
  CHECK(std::abs(kept / n - 0.1005) < 5 * std::sqrt(0.1 * 0.9 / n));
  CHECK(std::abs(other / n - 0.0995) < 5 * std::sqrt(0.1 * 0.9 / n));
  CHECK(std::abs(sum / other - 99.5) < 5 * 57.7 / std::sqrt(other));  // uniform on 0 .. 199
  // Every position is hidden 300 times in the mean, with a deviation of 16.
  CHECK(*std::min_element(at.begin(), at.end()) > 220);
  CHECK(*std::max_element(at.begin(), at.end()) < 380);
}

TEST_CASE("Half of the sequences end with another's second half, and their labels say so") {
  const Plan p = bert();
  const Telling source;
  int strangers = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    const auto b = read(p, source, i);
    const auto before = shown(b), original = plain(source, i, 40);
    const auto from = before[20] / 4;  // the sequence that the second half tells of
    REQUIRE(before[20] % 2 == 1);
    for (std::size_t t = 20; t < 40; ++t) REQUIRE(before[t] / 4 == from);
    REQUIRE(b.labels == Tokens{from == i % Telling::kDifferent ? 0 : 1});
    strangers += b.labels[0];
  }
  CHECK(std::abs(strangers - 500) < 80);  // five deviations of 1000 fair coins
}

TEST_CASE("A text of one sequence has no other to take from") {
  Telling source;
  source.different = 1;
  for (std::int64_t i = 0; i < 50; ++i) REQUIRE(read(bert(), source, i).labels == Tokens{0});
}

TEST_CASE("Types part the sequence in the middle where the model has them") {
  Plan p = bert(8);
  CHECK(read(p, Telling(), 0).types == Tokens{0, 0, 0, 0, 1, 1, 1, 1});
  p.model.token_types = 1;
  CHECK(read(p, Telling(), 0).types == Tokens(8, 0));
}

TEST_CASE("An example is a function of seed and sequence, and its micro-batch does not matter") {
  Plan p = bert(), pairs = p, seeded = p;
  pairs.training.micro_batch_size = 2;
  seeded.training.seed = 6;
  const Telling source;
  const auto two = read(pairs, source, 10);
  int differ = 0;
  for (std::int64_t i = 0; i < 2; ++i) {
    const auto b = read(p, source, 10 + i), again = read(p, source, 10 + i);
    CHECK(b.tokens == again.tokens);
    CHECK(std::equal(b.tokens.begin(), b.tokens.end(), two.tokens.begin() + 40 * i));
    CHECK(std::equal(b.targets.begin(), b.targets.end(), two.targets.begin() + 40 * i));
    CHECK(b.labels[0] == two.labels[static_cast<std::size_t>(i)]);
    differ += b.targets != read(seeded, source, 10 + i).targets;
  }
  CHECK(differ == 2);
  CHECK(read(p, source, 10).targets != read(p, source, 60).targets);  // the same text, another draw
}

TEST_CASE("A source of ready-made examples is taken at its word") {
  class Ready final : public TokenSource {
   public:
    std::int64_t vocab_size() const override { return 3; }
    void sequence(std::int64_t, std::span<std::int32_t>) const override { throw ContractError("not asked"); }
    Example masked_example(std::int64_t index, const Masking& m) const override {
      require(m.seq_length == 4 && m.masked == 1 && m.mask_token == kMask && m.seed == 5, "asked for something else");
      return {{7, 8, 9, static_cast<std::int32_t>(index)}, {-1, 6, -1, -1}, {0, 1, 1, 1}, 1};
    }
  };
  const auto b = read(bert(4), Ready(), 3);
  CHECK(b.tokens == Tokens{7, 8, 9, 3});
  CHECK(b.targets == Tokens{-1, 6, -1, -1});
  CHECK(b.types == Tokens{0, 1, 1, 1});
  CHECK(b.labels == Tokens{1});
  CHECK_THROWS_AS(read(bert(5), Ready(), 3), ContractError);
}

TEST_CASE("Pairs of a byte text come from the text") {
  const std::string path = tests::source_dir() + "/experiments/data/kjv-new-testament.txt";
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto source = open_tokens(path, 32, 1);
  CHECK(source->sequences() == static_cast<std::int64_t>((text.size() - 1) / 32));
  Plan p = bert(32);
  p.model.vocab_size = 257;
  for (std::int64_t i = 0; i < 20; ++i) {
    const auto before = shown(read(p, *source, i));
    const std::string whole(before.begin(), before.end());
    REQUIRE(text.find(whole.substr(0, 16)) != std::string::npos);
    REQUIRE(text.find(whole.substr(16)) != std::string::npos);
  }
}

TEST_CASE("module k of multi-token prediction reads the token k further and is asked for the one behind it") {
  Plan plan;
  plan.model.vocab_size = Telling().vocab_size();
  plan.model.mtp.num_layers = 2;
  plan.training.seq_length = 8;
  plan.training.micro_batch_size = 2;
  for (const std::int64_t ranks : {1, 2}) {
    plan.parallel.context = ranks;
    const SequenceMap places(ranks, 8 / ranks);
    const Telling source;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const BatchReader reader(data_shape(plan), source, rank);
      const std::int64_t here = 8 / ranks;
      REQUIRE(reader.elements(Input::mtp_tokens) == 2 * 2 * here);
      Tokens tokens(static_cast<std::size_t>(4 * here)), targets(tokens);
      reader.fill(Input::mtp_tokens, 3, tokens.data());
      reader.fill(Input::mtp_targets, 3, targets.data());
      std::size_t i = 0;
      for (std::int64_t k = 1; k <= 2; ++k)
        for (std::int64_t s = 0; s < 2; ++s) {
          Tokens text(9);
          source.sequence(3 + s, text);
          for (std::int64_t at = 0; at < here; ++at, ++i) {
            const auto place = static_cast<std::size_t>(places.position(rank, at) + k);
            CHECK(tokens[i] == (place < 8 ? text[place] : 0));
            CHECK(targets[i] == (place < 8 ? text[place + 1] : -1));
          }
        }
    }
  }
}

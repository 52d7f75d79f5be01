// A mask that is any token of the vocabulary.

#include "exec/data/named_mask.hpp"

#include <algorithm>

#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

constexpr std::int64_t kWords = 9, kLength = 40, kHidden = 12;

/// A text with all of the vocabulary's tokens.
class AllWords final : public TokenSource {
 public:
  std::int64_t vocab_size() const override { return kWords; }
  std::uint64_t fingerprint() const override { return 7; }
  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    for (std::size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<std::int32_t>((static_cast<std::size_t>(index) + 7 * i) % kWords);
  }
};

/// With the second half of each sequence its own, so that positions can be compared with the text.
class OneSequence final : public TokenSource {
 public:
  std::int64_t vocab_size() const override { return kWords; }
  std::int64_t sequences() const override { return 1; }
  void sequence(std::int64_t, std::span<std::int32_t> tokens) const override { AllWords().sequence(3, tokens); }
};

const Masking kMasking{kLength, kHidden, kWords - 1, true, 5};

}  // namespace

TEST_CASE("a named mask hides tokens of a text that has all tokens, and leaves the others as they are") {
  constexpr std::int32_t kMask = 4;
  const auto source = with_mask(std::make_unique<OneSequence>(), {kMask, kWords});
  CHECK(source->vocab_size() == kWords - 1);  // beside which a mask has room
  std::vector<std::int32_t> text(kLength);
  OneSequence().sequence(0, text);
  std::int64_t masks = 0, random = 0;
  for (std::int64_t index = 0; index < 200; ++index) {
    const Example e = source->masked_example(index, kMasking);
    CHECK(std::count_if(e.targets.begin(), e.targets.end(), [](std::int32_t t) { return t >= 0; }) == kHidden);
    for (std::size_t i = 0; i < kLength; ++i) {
      if (e.targets[i] < 0) CHECK(e.tokens[i] == text[i]);
      else CHECK(e.targets[i] == text[i]);
      const bool other = e.targets[i] >= 0 && e.tokens[i] != text[i];
      masks += other && e.tokens[i] == kMask ? 1 : 0;
      random += other && e.tokens[i] != kMask ? 1 : 0;
      CHECK((e.tokens[i] >= 0 && e.tokens[i] < kWords));
    }
  }
  // Of 2,400 hidden positions, 80 % show the mask where the text has another token, and 10 % a random one.
  const auto hidden = static_cast<double>(200 * kHidden);
  const double others = 1 - static_cast<double>(std::count(text.begin(), text.end(), kMask)) / kLength;
  CHECK(static_cast<double>(masks) / hidden == Approx(0.8 * others).margin(0.04));
  CHECK(static_cast<double>(random) / hidden == Approx(0.1).margin(0.03));
}

TEST_CASE("the last token as a named mask gives the usual examples, and every named mask a fingerprint of its own") {
  const auto named = with_mask(std::make_unique<AllWords>(), {static_cast<std::int32_t>(kWords - 1), kWords});
  const auto other = with_mask(std::make_unique<AllWords>(), {2, kWords});
  for (std::int64_t index = 0; index < 20; ++index) {
    const Example a = AllWords().masked_example(index, kMasking), b = named->masked_example(index, kMasking);
    CHECK((a.tokens == b.tokens && a.targets == b.targets && a.types == b.types && a.label == b.label));
  }
  CHECK(named->fingerprint() != other->fingerprint());
  CHECK(named->fingerprint() != AllWords().fingerprint());
}

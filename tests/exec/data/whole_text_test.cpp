// A text once: windows in order, sequences that are not repeated, and documents without their beginnings.

#include <algorithm>
#include <map>

#include "exec/data/document_ends.hpp"
#include "exec/data/ordered_windows.hpp"
#include "exec/data/read_once.hpp"
#include "exec/data/whole_documents.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

using Tokens = std::vector<std::int32_t>;

/// Bytes 0, 1, 2, ... in documents that begin at these tokens.
TokenFile ramp(std::int64_t count, std::vector<std::int64_t> documents = {}) {
  TokenFile file;
  for (std::int64_t i = 0; i < count; ++i) file.bytes.push_back(static_cast<char>(i));
  file.documents = std::move(documents);
  return file;
}
std::shared_ptr<const TokenFile> shared(TokenFile file) { return std::make_shared<const TokenFile>(std::move(file)); }

/// By target token: the number of tokens before it in its window, over sequences 0 to `sequences` - 1. Each target occurs once.
std::map<std::int32_t, std::int64_t> contexts(const TokenSource& source, std::int64_t length, std::int64_t sequences) {
  std::map<std::int32_t, std::int64_t> found;
  for (std::int64_t s = 0; s < sequences; ++s) {
    const Example e = source.next_example(s, length);
    std::int64_t targets = 0;
    for (std::size_t p = 0; p < e.targets.size(); ++p) {
      if (e.targets[p] < 0) continue;
      ++targets;
      CHECK(e.tokens[p] + 1 == e.targets[p]);  // bytes count up, also before the target
      CHECK(found.emplace(e.targets[p], static_cast<std::int64_t>(p) + 1).second);
    }
    CHECK(source.targets(s, length) == targets);
  }
  return found;
}

}  // namespace

TEST_CASE("Windows in order predict every token but the first once, with the last one filled up") {
  for (const std::int64_t count : {2, 7, 8, 9, 16, 17, 30}) {
    const auto source = open_ordered(shared(ramp(count)), {8, 8, false});
    CHECK(source->sequences() == (count - 1 + 7) / 8);
    const auto found = contexts(*source, 8, source->sequences() + 3);  // those beyond the text have no targets
    REQUIRE(found.size() == static_cast<std::size_t>(count - 1));
    for (const auto& [token, before] : found) CHECK(before == (token - 1) % 8 + 1);
  }
}

TEST_CASE("Windows that overlap show each token at least the rest of a window") {
  for (const std::int64_t count : {4, 9, 10, 12, 13, 40})
    for (const std::int64_t stride : {1, 3, 7}) {
      const auto source = open_ordered(shared(ramp(count)), {8, stride, false});
      const auto found = contexts(*source, 8, source->sequences() + 2);
      REQUIRE(found.size() == static_cast<std::size_t>(count - 1));
      for (const auto& [token, before] : found) CHECK(before >= std::min<std::int64_t>(token, 8 - stride + 1));
    }
}

TEST_CASE("Separate documents do not predict each other's first token") {
  const auto source = open_ordered(shared(ramp(20, {0, 3, 4, 11})), {8, 8, true});
  const auto found = contexts(*source, 8, source->sequences());
  CHECK(found.size() == 16);
  for (const std::int32_t first : {3, 4, 11}) CHECK(found.count(first) == 0);
  CHECK(source->next_example(0, 8).documents == Tokens{0, 0, 0, 3, 4, 4, 4, 4});
  CHECK(source->next_example(1, 8).documents == Tokens{0, 0, 0, 3, 3, 3, 3, 3});
  CHECK(source->next_example(2, 8).documents == Tokens{0, 0, 0, 3, 3, 3, 3, 3});  // 3 positions of the text, and what fills it up
}

TEST_CASE("A text without a second token cannot be predicted") {
  CHECK_THROWS_AS(open_ordered(shared(ramp(1)), {8, 8, false}), ConfigError);
}

TEST_CASE("Sequences read once have no targets when they are repeated") {
  const auto once = read_once(open_tokens(shared(ramp(41)), 8, 1));
  REQUIRE(once->sequences() == 5);
  CHECK(contexts(*once, 8, 12).size() == 40);
  const Masking masking{8, 2, 255, true, 1};
  const auto hidden = [&](std::int64_t index) {
    const Example e = once->masked_example(index, masking);
    return std::count_if(e.targets.begin(), e.targets.end(), [](std::int32_t t) { return t >= 0; }) + (e.label >= 0 ? 10 : 0);
  };
  for (const std::int64_t index : {0, 4}) CHECK(hidden(index) == 12);
  for (const std::int64_t index : {5, 11}) CHECK(hidden(index) == 0);
  const auto pairs = read_once(open_tokens(shared(ramp(41)), 8, 1));
  CHECK(pairs->prefix_example(1, {5, 3}).targets.front() >= 0);
  CHECK(pairs->prefix_example(5, {5, 3}).targets == Tokens{-1, -1, -1});
  CHECK(pairs->prefix_example(5, {5, 3}).decoder_tokens.size() == 3);
}

TEST_CASE("Documents that are too long keep their ends") {
  TokenFile file = ramp(14, {0, 3, 10});
  file.answers.assign(14, false);
  for (const std::size_t answer : {2, 8, 9, 13}) file.answers[answer] = true;
  const auto [ends, cut] = keep_ends(shared(file), 4);
  CHECK(cut == 1);
  CHECK(ends->documents == std::vector<std::int64_t>{0, 3, 7});
  CHECK(ends->stored(3, 7) == file.stored(6, 10));
  CHECK(ends->answers == std::vector<bool>{false, false, true, false, false, true, true, false, false, false, true});
  const auto whole = shared(file);
  CHECK(keep_ends(whole, 7).file == whole);
  CHECK(unfit_documents(*ends, 3).unanswered == 0);
}

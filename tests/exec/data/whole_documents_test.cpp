// Sequences of whole documents, and their distribution.

#include "exec/data/whole_documents.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "exec/data/blend.hpp"
#include "exec/data/packing.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

/// Documents of bytes. Token i of the file is i, so that a token says where it comes from; capital letters are answers.
std::shared_ptr<const TokenFile> documents(const std::vector<std::string>& texts) {
  TokenFile file;
  for (const std::string& text : texts) {
    file.documents.push_back(file.count());
    for (const char c : text) {
      file.bytes.push_back(static_cast<char>(file.bytes.size()));
      file.answers.push_back(c >= 'A' && c <= 'Z');
    }
  }
  return std::make_shared<const TokenFile>(std::move(file));
}

std::vector<Example> epoch(const TokenSource& source, std::int64_t length) {
  std::vector<Example> all;
  for (std::int64_t i = 0; i < source.sequences(); ++i) all.push_back(source.next_example(i, length));
  return all;
}

using Tokens = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("Packing keeps documents whole and fills sequences") {
  const std::vector<std::int64_t> lengths{3, 7, 1, 5, 2, 4, 8, 2};
  const auto sequences = pack(lengths, 8);
  std::set<std::size_t> seen;
  for (const auto& s : sequences) {
    std::int64_t filled = 0;
    for (const std::size_t d : s) filled += lengths[d];
    CHECK(filled <= 8);
    for (const std::size_t d : s) CHECK(seen.insert(d).second);
  }
  CHECK(seen.size() == lengths.size());
  CHECK(sequences.size() == 4);  // 32 positions of documents: 8, 7+1, 5+3, 4+2+2
  CHECK_THROWS_AS(pack(lengths, 7), ContractError);
}

TEST_CASE("A sequence is a document with targets where the next token is an answer, and padding without") {
  const auto source = open_documents(documents({"abCDe", "fGh"}), {6, 1, false});
  REQUIRE(source->sequences() == 2);
  auto all = epoch(*source, 6);
  std::sort(all.begin(), all.end(), [](const Example& a, const Example& b) { return a.tokens < b.tokens; });
  CHECK(all[0].tokens == Tokens{0, 1, 2, 3, 0, 0});
  CHECK(all[0].targets == Tokens{-1, 2, 3, -1, -1, -1});
  CHECK(all[0].documents.empty());
  CHECK(all[1].tokens == Tokens{5, 6, 0, 0, 0, 0});
  CHECK(all[1].targets == Tokens{6, -1, -1, -1, -1, -1});
  CHECK(source->targets(0, 6) + source->targets(1, 6) == 3);
}

TEST_CASE("Packed documents say where each begins, and where padding does") {
  const auto source = open_documents(documents({"aBc", "dEfG", "hI"}), {8, 1, true});
  REQUIRE(source->sequences() == 1);
  const Example e = source->next_example(0, 8);
  CHECK(e.tokens == Tokens{3, 4, 5, 0, 1, 7, 0, 0});
  CHECK(e.targets == Tokens{4, -1, 6, 1, -1, 8, -1, -1});
  CHECK(e.documents == Tokens{0, 0, 0, 3, 3, 5, 6, 6});
  CHECK(source->targets(0, 8) == 4);
}

TEST_CASE("Documents longer than a sequence are cut, and left out where no answer remains") {
  const auto file = documents({"abcdefG", "aBcdefg", "abc", "aB"});
  const auto [cut, unanswered] = unfit_documents(*file, 4);
  CHECK(cut == 1);
  CHECK(unanswered == 2);
  const auto source = open_documents(file, {4, 1, false});
  std::set<std::int32_t> firsts;
  for (const Example& e : epoch(*source, 4)) firsts.insert(e.tokens.front());
  CHECK(firsts == std::set<std::int32_t>{7, 17});
  CHECK_THROWS_AS(open_documents(documents({"abc", "de"}), {4, 1, false}), ConfigError);
}

TEST_CASE("Each pass over the documents has its own order, and a part has its own documents") {
  std::vector<std::string> texts(40, "aB");
  const auto file = documents(texts);
  const auto source = open_documents(file, {4, 9, false});
  std::vector<std::int32_t> first, second;
  for (std::int64_t i = 0; i < 80; ++i) (i < 40 ? first : second).push_back(source->next_example(i, 4).tokens[0]);
  CHECK(first != second);
  std::sort(first.begin(), first.end()), std::sort(second.begin(), second.end());
  CHECK(first == second);
  const auto trained = open_documents(file, {4, 9, false}, {0, 0.9}), held = open_documents(file, {4, 9, false}, {0.9, 1});
  CHECK(trained->sequences() == 36);
  CHECK(held->sequences() == 4);
  for (const Example& e : epoch(*held, 4)) CHECK(e.tokens[0] >= 72);
  CHECK(trained->fingerprint() != held->fingerprint());
}

TEST_CASE("A blend gives its parts' examples and targets") {
  const auto answers = std::shared_ptr<const TokenSource>(open_documents(documents({"aBc", "dEf"}), {4, 1, false}));
  const auto text = std::shared_ptr<const TokenSource>(open_tokens(documents({"abcdefghijklmnop"}), 4, 1));
  const auto both = blend({{answers, 1}, {text, 1}});
  std::int64_t masked = 0, all = 0;
  for (std::int64_t i = 0; i < 8; ++i) {
    const Example e = both->next_example(i, 4);
    CHECK(both->targets(i, 4) == 4 - std::count(e.targets.begin(), e.targets.end(), -1));
    (both->targets(i, 4) == 4 ? all : masked) += 1;
  }
  CHECK(masked == 4);
  CHECK(all == 4);
}

// Windows of a text whose documents are kept apart, and where data sets say that documents begin.

#include "exec/data/separate_windows.hpp"

#include <algorithm>
#include <fstream>

#include "exec/data/batch_reader.hpp"
#include "exec/data/token_writer.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

using Tokens = std::vector<std::int32_t>;

/// Bytes 0, 1, 2, ... in documents that begin at these tokens.
std::shared_ptr<const TokenFile> ramp(std::int64_t count, std::vector<std::int64_t> documents) {
  TokenFile file;
  for (std::int64_t i = 0; i < count; ++i) file.bytes.push_back(static_cast<char>(i));
  file.documents = std::move(documents);
  return std::make_shared<const TokenFile>(std::move(file));
}

}  // namespace

TEST_CASE("A window has the documents of its text, and no target in another one") {
  const std::vector<std::int64_t> firsts{0, 3, 4, 8, 13};
  const auto source = open_separate(ramp(17, firsts), 4, 1);
  REQUIRE(source->sequences() == 4);
  for (std::int64_t i = 0; i < 4; ++i) {
    const Example e = source->next_example(i, 4);
    std::int64_t targets = 0;
    for (std::size_t p = 0; p < 4; ++p) {
      const std::int64_t token = e.tokens[p], first = e.tokens[0];
      const std::int64_t own = *(std::upper_bound(firsts.begin(), firsts.end(), token) - 1);
      CHECK(e.documents[p] == std::max<std::int64_t>(0, own - first));
      const bool ends = std::binary_search(firsts.begin(), firsts.end(), token + 1);
      CHECK(e.targets[p] == (ends ? -1 : token + 1));
      targets += ends ? 0 : 1;
    }
    CHECK(source->targets(i, 4) == targets);
  }
}

TEST_CASE("A file without documents is one, and documents of one token have no target") {
  const Example e = open_separate(ramp(9, {}), 4, 1)->next_example(0, 4);
  CHECK(e.documents == Tokens{0, 0, 0, 0});
  CHECK(std::count(e.targets.begin(), e.targets.end(), -1) == 0);
  CHECK_THROWS_AS(open_separate(ramp(5, {0, 1, 2, 3, 4}), 4, 1), ConfigError);
}

TEST_CASE("A part of a text begins within its documents") {
  const auto held = open_separate(ramp(20, {0, 12, 18}), 4, 1, {0.5, 1});
  REQUIRE(held->sequences() == 2);
  for (std::int64_t i = 0; i < 2; ++i) {
    const Example e = held->next_example(i, 4);
    CHECK(e.documents == (e.tokens[0] == 10 ? Tokens{0, 0, 2, 2} : Tokens{0, 0, 0, 0}));
    CHECK(held->targets(i, 4) == 3);
  }
}

TEST_CASE("Documents of a Megatron-LM data set begin where they were written, without empty ones") {
  const tests::TemporaryFolder folder;
  const std::string prefix = folder.at("set");
  TokenWriter writer(prefix, 100);
  for (const Tokens& document : {Tokens{1, 2, 3}, Tokens{}, Tokens{4}, Tokens{5, 6}, Tokens{}}) writer.add_document(document);
  writer.commit();
  const auto file = read_token_file(prefix);
  CHECK(file->documents == std::vector<std::int64_t>{0, 3, 4});
  std::fstream index(prefix + ".idx", std::ios::in | std::ios::out | std::ios::binary);
  index.seekp(-16, std::ios::end);  // the last but one of the list of documents
  const std::int64_t wrong = 99;
  index.write(reinterpret_cast<const char*>(&wrong), sizeof wrong);
  index.close();
  CHECK_THROWS_AS(read_token_file(prefix), ConfigError);
}

TEST_CASE("A module of multi-token prediction reads no token of another document") {
  DataShape shape;
  shape.seq_length = 4, shape.micro_batch_size = 1, shape.mtp = 1;
  const auto source = open_separate(ramp(5, {0, 2}), 4, 1);
  const BatchReader reader(shape, *source, 0);
  Tokens tokens(4), targets(4), documents(4);
  reader.fill(Input::mtp_tokens, 0, tokens.data());
  reader.fill(Input::mtp_targets, 0, targets.data());
  reader.fill_documents(0, 1, documents.data());
  CHECK(tokens == Tokens{1, 0, 3, 0});
  CHECK(targets == Tokens{-1, -1, 4, -1});
  CHECK(documents == Tokens{0, 0, 2, 2});
  CHECK(reader.targets(0, 1) == 3);
}

// Token ids as Megatron-LM stores them, written: bytes as the format says, and what the reader makes of them.

#include "exec/data/token_writer.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "exec/data/token_file.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem::exec;

namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("documents are written as Megatron-LM's IndexedDatasetBuilder writes them") {
  const tandem::tests::TemporaryFolder folder;
  TokenWriter writer(folder.at("x"), 300);
  const std::vector<std::int32_t> first{1, 2, 258}, last{7};
  writer.add_document(first);
  writer.add_document({});
  writer.add_document(last);
  writer.commit();
  CHECK(bytes_of(folder.at("x.bin")) == std::string("\1\0\2\0\2\1\7\0", 8));
  const std::string header("MMIDIDX\0\0\1\0\0\0\0\0\0\0\x08\2\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0", 34);  // version, code of uint16, 2 sequences, 4 ends
  const std::string lengths("\3\0\0\0\1\0\0\0", 8), places("\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0", 16);
  const std::string ends("\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0", 32);
  CHECK(bytes_of(folder.at("x.idx")) == header + lengths + places + ends);
}

TEST_CASE("ids take two bytes below 65,500 and four from there on") {
  const tandem::tests::TemporaryFolder folder;
  for (const auto& [vocabulary, type] : {std::pair(65'499, TokenType::uint16), {65'500, TokenType::int32}}) {
    TokenWriter writer(folder.at("x"), vocabulary);
    const std::vector<std::int32_t> ids{0, vocabulary - 1};
    writer.add_document(ids);
    writer.commit();
    const auto file = read_token_file(folder.at("x"));
    CHECK(file->type == type);
    std::vector<std::int32_t> back(2);
    file->read(0, back);
    CHECK(back == ids);
  }
}

TEST_CASE("files that are not committed are not left") {
  const tandem::tests::TemporaryFolder folder;
  {
    TokenWriter writer(folder.at("x"), 300);
    writer.add_document(std::vector<std::int32_t>{1});
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

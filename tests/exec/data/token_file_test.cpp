// Token ids as Megatron-LM and llm.c store them. The files are written here byte by byte, as their formats say.

#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "exec/data/data.hpp"
#include "models/base/error.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace tandem;
using namespace tandem::exec;

namespace {

void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

template <class T>
void put(std::string& to, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}

template <class T>
std::string ids(const std::vector<std::int64_t>& tokens) {
  std::string out;
  for (const std::int64_t t : tokens) put(out, static_cast<T>(t));
  return out;
}

/// An index of Megatron-LM: documents of `lengths` tokens, ids of `width` bytes and type `code`.
std::string index_of(const std::vector<std::int32_t>& lengths, std::uint8_t code, std::int64_t width) {
  std::string out("MMIDIDX\0\0", 9);
  put(out, std::uint64_t{1});
  put(out, code);
  put(out, std::uint64_t{lengths.size()});
  put(out, std::uint64_t{lengths.size() + 1});
  std::int64_t at = 0;
  for (const std::int32_t n : lengths) put(out, n);
  for (const std::int32_t n : lengths) put(out, std::exchange(at, at + n * width));
  for (std::size_t i = 0; i <= lengths.size(); ++i) put(out, static_cast<std::int64_t>(i));
  return out;
}

std::string llmc(std::uint32_t magic, std::uint32_t version, std::uint32_t count, const std::string& tokens) {
  std::string out;
  put(out, magic);
  put(out, version);
  put(out, count);
  return out + std::string(1024 - out.size(), '\0') + tokens;
}

std::vector<std::int32_t> all(const TokenFile& file) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(file.count()));
  file.read(0, out);
  return out;
}

Problem refusal(const std::string& path) {
  try {
    read_token_file(path);
  } catch (const ConfigError& e) {
    return e.problems().at(0);
  }
  FAIL("not refused");
  return {};
}

const std::vector<std::int64_t> kTokens{5, 50256, 0, 7, 300, 12};

}  // namespace

TEST_CASE("A data set of Megatron-LM is read by its .bin, its .idx or its prefix") {
  const tests::TemporaryFolder folder;
  const std::string prefix = folder.at("my_text_document");
  write_file(prefix + ".bin", ids<std::uint16_t>(kTokens));
  write_file(prefix + ".idx", index_of({2, 4}, 8, 2));
  for (const std::string ending : {".bin", ".idx", ""}) {
    const auto file = read_token_file(prefix + ending);
    CHECK(file->path == prefix + ".bin");
    CHECK(all(*file) == std::vector<std::int32_t>(kTokens.begin(), kTokens.end()));
    CHECK(file->vocab_size == 50257);
    CHECK_FALSE(bigram_entropy(*file));
  }
  // Windows of two tokens and a target: of six tokens the first five are inputs of two windows.
  const auto source = open_tokens(prefix + ".bin", 2, 0);
  CHECK(source->sequences() == 2);
  std::vector<std::int32_t> window(3);
  source->sequence(0, window);
  CHECK((window == std::vector<std::int32_t>{5, 50256, 0} || window == std::vector<std::int32_t>{0, 7, 300}));
}

TEST_CASE("Every type of whole numbers gives the same tokens") {
  const tests::TemporaryFolder folder;
  const std::vector<std::int64_t> small{5, 100, 0, 7, 3, 12};
  const std::vector<std::pair<std::uint8_t, std::string>> stored{{1, ids<std::uint8_t>(small)},  {2, ids<std::int8_t>(small)},
                                                                 {3, ids<std::int16_t>(small)},  {4, ids<std::int32_t>(small)},
                                                                 {5, ids<std::int64_t>(small)},  {8, ids<std::uint16_t>(small)}};
  for (const auto& [code, bytes] : stored) {
    const std::string prefix = folder.at("t" + std::to_string(code));
    write_file(prefix + ".bin", bytes);
    write_file(prefix + ".idx", index_of({6}, code, static_cast<std::int64_t>(bytes.size() / 6)));
    const auto file = read_token_file(prefix);
    CHECK(all(*file) == std::vector<std::int32_t>(small.begin(), small.end()));
    CHECK(file->vocab_size == 101);
  }
}

TEST_CASE("Files of llm.c are read behind their header") {
  const tests::TemporaryFolder folder;
  write_file(folder.at("gpt2.bin"), llmc(20240520, 1, 6, ids<std::uint16_t>(kTokens)));
  write_file(folder.at("llama3.bin"), llmc(20240801, 7, 3, ids<std::int32_t>({128000, 1, 2})));
  CHECK(all(*read_token_file(folder.at("gpt2.bin"))) == std::vector<std::int32_t>(kTokens.begin(), kTokens.end()));
  CHECK(all(*read_token_file(folder.at("llama3.bin"))) == std::vector<std::int32_t>{128000, 1, 2});
}

TEST_CASE("A file of llm.c that lacks tokens of its header, or has more, is refused") {
  const tests::TemporaryFolder folder;
  const std::string path = folder.at("gpt2.bin"), whole = llmc(20240520, 1, 6, ids<std::uint16_t>(kTokens));
  for (const std::string& wrong : {whole.substr(0, whole.size() - 2), whole.substr(0, whole.size() - 1), whole + '\0',
                                   whole.substr(0, 1024)}) {
    write_file(path, wrong);
    const Problem p = refusal(path);
    CHECK((p.file == path && p.field == "tokens" && p.value == "6"));
    CHECK(p.reason == "the tokens of its header take 12 bytes, the file has " + std::to_string(wrong.size() - 1024));
  }
}

TEST_CASE("Token ids without a type, of a wrong type, damaged or out of range are refused") {
  const tests::TemporaryFolder folder;
  const std::string prefix = folder.at("d"), index = prefix + ".idx";
  write_file(prefix + ".bin", ids<std::uint16_t>(kTokens));
  CHECK(refusal(prefix + ".bin").remedy.find("d.idx") != std::string::npos);  // no index: once read as bytes in silence
  write_file(index, "MMIDIDX");
  CHECK(refusal(prefix).file == index);
  const std::string good = index_of({2, 4}, 8, 2);
  write_file(index, good.substr(0, 30));
  CHECK(refusal(prefix).reason.find("header") != std::string::npos);
  write_file(index, index_of({2, 4}, 7, 4));
  CHECK(refusal(prefix).field == "type of token ids");
  write_file(index, index_of({2, 3}, 8, 2));
  CHECK(refusal(prefix).reason.find("the .bin has 12") != std::string::npos);
  std::string many = good;
  many[18] = '\x7f';  // the number of sequences
  many[25] = '\x7f';
  write_file(index, many);
  CHECK(refusal(prefix).field == "number of sequences");
  for (std::size_t size = 34; size < good.size(); ++size) {  // cut anywhere in its lists, of lengths, of places and of documents
    write_file(index, good.substr(0, size));
    const bool of_sequences = size < 34 + 2 * 12;
    CHECK(refusal(prefix).field == (of_sequences ? "number of sequences" : "number of documents"));
  }
  write_file(index, good);
  CHECK_NOTHROW(read_token_file(prefix));
  write_file(prefix + ".bin", ids<std::int32_t>({1, -2, 3}));
  write_file(index, index_of({3}, 4, 4));
  CHECK(refusal(prefix).value == "-2");
  write_file(prefix + ".bin", ids<std::int64_t>({1, std::int64_t{1} << 40}));
  write_file(index, index_of({2}, 5, 8));
  CHECK(refusal(prefix).field == "token id");
}

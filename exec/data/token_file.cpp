#include "exec/data/token_file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/input.hpp"

namespace tandem::exec {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr std::size_t kMostBytes = std::size_t{1} << 40;  // the real limit is the host's memory
constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
constexpr std::size_t kIndexHeader = 34;  // magic, version, type of ids, numbers of sequences and documents
constexpr std::uint64_t kListed = 12;  // of a sequence: its length as int32 and its place in bytes as int64
constexpr std::uint64_t kDocument = 8;  // its first sequence, as int64
constexpr std::size_t kLlmcHeader = 1024;

std::size_t size_of(TokenType type) {
  switch (type) {
    case TokenType::byte:
    case TokenType::int8: return 1;
    case TokenType::int16:
    case TokenType::uint16: return 2;
    case TokenType::int32: return 4;
    case TokenType::int64: return 8;
  }
  return 1;
}

template <class T>
T load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <class Read>
auto as_stored(TokenType type, const Read& read) {
  switch (type) {
    case TokenType::byte: return read(std::uint8_t{});
    case TokenType::int8: return read(std::int8_t{});
    case TokenType::int16: return read(std::int16_t{});
    case TokenType::uint16: return read(std::uint16_t{});
    case TokenType::int32: return read(std::int32_t{});
    case TokenType::int64: return read(std::int64_t{});
  }
  return read(std::uint8_t{});
}

std::string whole(const std::string& path) {
  if (const std::string why = why_unreadable(path); !why.empty())
    throw ConfigError(Problem{path, "data", "", "the text cannot be read: " + why, "give the path of a plain text file, or of a data set of token ids"});
  if (!is_regular_file(path))
    throw ConfigError(Problem{path, "data", "", "is no plain file", "give the path of a plain text file, or of a data set of token ids"});
  return InputFile(path).whole(kMostBytes);
}

TokenType type_of(const std::string& index, int code) {
  switch (code) {
    case 1: return TokenType::byte;
    case 2: return TokenType::int8;
    case 3: return TokenType::int16;
    case 4: return TokenType::int32;
    case 5: return TokenType::int64;
    case 8: return TokenType::uint16;
    default:
      throw ConfigError(Problem{index, "type of token ids", std::to_string(code), "is no type of whole numbers in Megatron-LM's data sets",
                                "make the data set again with whole numbers (codes 1 to 5 and 8)"});
  }
}

struct ListSizes {
  std::uint64_t sequences, documents;
};

/// The first token of each document that has one. `text`: an index, whose lists are whole.
template <class Damaged>
std::vector<std::int64_t> documents_of(const std::string& text, const ListSizes& sizes, const Damaged& damaged) {
  const auto [sequences, count] = sizes;
  const char* const lengths = text.data() + kIndexHeader;
  const char* const documents = lengths + kListed * sequences;
  std::vector<std::int64_t> firsts;
  std::uint64_t sequence = 0;
  std::int64_t token = 0, last = -1;
  for (std::uint64_t d = 0; d < count; ++d) {
    const auto first = load<std::int64_t>(documents + kDocument * d);
    if (first < static_cast<std::int64_t>(sequence) || first > static_cast<std::int64_t>(sequences))
      damaged("first sequence of document " + std::to_string(d), std::to_string(first),
              "is not from " + std::to_string(sequence) + " to " + std::to_string(sequences));
    for (; sequence < static_cast<std::uint64_t>(first); ++sequence)
      token += std::max(0, load<std::int32_t>(lengths + 4 * sequence));
    if (token == last) firsts.pop_back();  // the document before it has no token
    firsts.push_back(last = token);
  }
  if (sequence == sequences && !firsts.empty()) firsts.pop_back();  // the last entry is the end
  return firsts;
}

/// An index of a data set, of which `size` bytes are stored.
struct DataSetIndex {
  TokenType type;
  std::vector<std::int64_t> documents;
};
DataSetIndex read_index(const std::string& index, std::size_t size) {
  const std::string text = whole(index);
  const auto damaged = [&](const std::string& field, const std::string& value, const std::string& why) {
    throw ConfigError(Problem{index, field, value, why, "make the data set again"});
  };
  if (!std::string_view(text).starts_with(kIndexMagic)) damaged("first bytes", "", "is no index of a Megatron-LM data set: it does not begin with MMIDIDX");
  if (text.size() < kIndexHeader) damaged("size", std::to_string(text.size()) + " bytes", "ends within its header");
  const char* at = text.data() + kIndexMagic.size();
  if (const auto version = load<std::uint64_t>(at); version != 1) damaged("version", std::to_string(version), "is not 1, the only one there is");
  const TokenType type = type_of(index, load<std::uint8_t>(at + 8));
  const auto sequences = load<std::uint64_t>(at + 9), documents = load<std::uint64_t>(at + 17);
  const std::uint64_t lists = text.size() - kIndexHeader;
  const auto require_listed = [&](const char* what, std::uint64_t count, std::uint64_t most) {
    if (count > most) damaged(what, std::to_string(count), "is more than its " + std::to_string(text.size()) + " bytes can list");
  };
  require_listed("number of sequences", sequences, lists / kListed);
  require_listed("number of documents", documents, (lists - kListed * sequences) / kDocument);
  std::uint64_t tokens = 0;
  for (std::uint64_t i = 0; i < sequences; ++i)
    tokens += static_cast<std::uint64_t>(std::max(0, load<std::int32_t>(text.data() + kIndexHeader + 4 * i)));
  if (tokens * size_of(type) != size)
    damaged("tokens", std::to_string(tokens), "its tokens take " + std::to_string(tokens * size_of(type)) + " bytes, the .bin has " + std::to_string(size));
  return {type, documents_of(text, {sequences, documents}, damaged)};
}

/// Ids must be from 0 to 2^31 - 1. Returns one more than the largest.
std::int64_t vocabulary_of(const TokenFile& file) {
  std::int64_t least = 0, most = -1;
  as_stored(file.type, [&](auto stored) {
    using T = decltype(stored);
    const std::int64_t n = file.count();
    for (std::int64_t i = 0; i < n; ++i) {
      const auto id = static_cast<std::int64_t>(load<T>(file.bytes.data() + file.header + static_cast<std::size_t>(i) * sizeof(T)));
      least = std::min(least, id), most = std::max(most, id);
    }
  });
  if (least < 0 || most > std::numeric_limits<std::int32_t>::max())
    throw ConfigError(Problem{file.path, "token id", std::to_string(least < 0 ? least : most), "is not from 0 to 2,147,483,647", "make the data set again"});
  return most + 1;
}

/// The type of ids behind a header of llm.c, by its first two numbers: of GPT-2's tokens, of LLaMA 3's. Nothing for other files.
/// The header's third number is that of the tokens: a file of another size is damaged.
std::optional<TokenType> llmc_type(const std::string& path, const std::string& bytes) {
  if (bytes.size() < kLlmcHeader) return std::nullopt;
  const auto magic = load<std::uint32_t>(bytes.data()), version = load<std::uint32_t>(bytes.data() + 4);
  std::optional<TokenType> type;
  if (magic == 20240520 && version == 1) type = TokenType::uint16;
  if (magic == 20240801 && version == 7) type = TokenType::int32;
  if (!type) return type;
  const std::uint64_t tokens = load<std::uint32_t>(bytes.data() + 8), takes = tokens * size_of(*type);
  const std::uint64_t there = bytes.size() - kLlmcHeader;
  if (takes != there)
    throw ConfigError(Problem{path, "tokens", std::to_string(tokens),
                              "the tokens of its header take " + std::to_string(takes) + " bytes, the file has " + std::to_string(there),
                              "make the data set again, or copy it whole"});
  return type;
}

/// PREFIX of a data set whose .bin and .idx exist; empty if `path` names none.
std::string data_set(const std::string& path) {
  std::string prefix = path;
  if (path.ends_with(".bin") || path.ends_with(".idx")) prefix.resize(path.size() - 4);
  else if (file_exists(path)) return "";
  return file_exists(prefix + ".bin") && file_exists(prefix + ".idx") ? prefix : "";
}

}  // namespace

std::int64_t TokenFile::count() const {
  return static_cast<std::int64_t>((bytes.size() - header) / size_of(type));
}

void TokenFile::read(std::int64_t first, std::span<std::int32_t> tokens) const {
  as_stored(type, [&](auto stored) {
    using T = decltype(stored);
    const char* at = bytes.data() + header + static_cast<std::size_t>(first) * sizeof(T);
    for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(load<T>(at)), at += sizeof(T);
  });
}

std::string_view TokenFile::stored(std::int64_t first, std::int64_t last) const {
  const std::size_t each = size_of(type);
  const auto begin = header + static_cast<std::size_t>(first) * each, size = static_cast<std::size_t>(last - first) * each;
  return std::string_view(bytes).substr(begin, size);
}

std::shared_ptr<const TokenFile> read_token_file(const std::string& path) {
  const std::string prefix = data_set(path);
  TokenFile file;
  file.path = prefix.empty() ? path : prefix + ".bin";
  file.bytes = whole(file.path);
  const std::optional<TokenType> llmc = prefix.empty() ? llmc_type(file.path, file.bytes) : std::nullopt;
  const bool text = prefix.empty() && !llmc;
  if (text && path.ends_with(".bin"))
    throw ConfigError(Problem{path, "data", "", "does not say the type of its token ids",
                              "put its index beside it, " + path.substr(0, path.size() - 4) + ".idx, or give a text another ending than .bin"});
  if (!prefix.empty()) {
    DataSetIndex index = read_index(prefix + ".idx", file.bytes.size());
    file.type = index.type, file.documents = std::move(index.documents);
  } else if (llmc) file.type = *llmc, file.header = kLlmcHeader;
  if (!text) file.vocab_size = vocabulary_of(file);
  return std::make_shared<const TokenFile>(std::move(file));
}

}  // namespace tandem::exec

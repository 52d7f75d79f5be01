#include "exec/data/data.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <vector>

#include "exec/data/permutation.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/fnv.hpp"

namespace tandem::exec {
namespace {

std::vector<std::uint8_t> read_bytes(const std::string& path) {
  if (file_exists(path) && !is_regular_file(path))
    throw ConfigError(Problem{path, "data", "", "is no plain file", "give the path of a plain text file"});
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const auto size = in ? static_cast<std::int64_t>(in.tellg()) : -1;
  if (size < 0)
    throw ConfigError(Problem{path, "data", "", "the text cannot be read", "give the path of a plain text file"});
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), size);
  if (in.gcount() != size) throw ConfigError(Problem{path, "data", "", "the text ended early while it was read", ""});
  return bytes;
}

std::vector<std::uint8_t> read_part(const std::string& path, const TextPart& part) {
  require(0 <= part.begin && part.begin <= part.end && part.end <= 1, "a part of a text lies within it");
  std::vector<std::uint8_t> bytes = read_bytes(path);
  const auto at = [size = static_cast<double>(bytes.size())](double fraction) {
    return static_cast<std::ptrdiff_t>(size * fraction);
  };
  return {bytes.begin() + at(part.begin), bytes.begin() + at(part.end)};
}

/// Window w holds tokens [w*seq, (w+1)*seq] of the text: neighbours share one byte, the target of one and input of the next.
class ByteText final : public TokenSource {
 public:
  ByteText(const std::string& path, std::int64_t seq_length, std::uint64_t seed, const TextPart& part)
      : bytes_(read_part(path, part)), seq_length_(seq_length), seed_(seed) {
    require(seq_length >= 1, "a sequence has at least one token");
    if (static_cast<std::int64_t>(bytes_.size()) < seq_length + 1)
      throw ConfigError(Problem{path, "data", std::to_string(bytes_.size()) + " bytes",
                                std::string(part.end - part.begin < 1 ? "the part of the text that is read" : "the text") +
                                    " is shorter than one sequence and its last target",
                                "give at least " + std::to_string(seq_length + 1) + " bytes, or shorten training.seq_length"});
    windows_ = (static_cast<std::int64_t>(bytes_.size()) - 1) / seq_length;
  }

  std::int64_t vocab_size() const override { return 256; }
  std::int64_t sequences() const override { return windows_; }
  std::uint64_t fingerprint() const override {
    return fnv1a({reinterpret_cast<const char*>(bytes_.data()), bytes_.size()});
  }

  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    require(index >= 0, "sequences are counted from zero");
    require(static_cast<std::int64_t>(tokens.size()) == seq_length_ + 1, "a sequence is seq_length + 1 tokens");
    std::copy_n(bytes_.begin() + window(index) * seq_length_, tokens.size(), tokens.begin());
  }

 private:
  std::int64_t window(std::int64_t index) const {
    const auto epoch = static_cast<std::uint64_t>(index / windows_);
    const Permutation order(static_cast<std::uint64_t>(windows_), seed_ ^ epoch * 0xD1342543DE82EF95);
    return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(index % windows_)));
  }

  std::vector<std::uint8_t> bytes_;
  std::int64_t seq_length_, windows_ = 0;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<TokenSource> open_byte_text(const std::string& path, std::int64_t seq_length, std::uint64_t seed,
                                            const TextPart& part) {
  return std::make_unique<ByteText>(path, seq_length, seed, part);
}

double bigram_entropy(const std::string& path) {
  const auto bytes = read_bytes(path);
  if (bytes.size() < 2) throw ConfigError(Problem{path, "data", "", "the text has no pair of bytes", ""});
  std::vector<std::int64_t> pairs(256 * 256), firsts(256);
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    ++pairs[bytes[i] * std::size_t{256} + bytes[i + 1]];
    ++firsts[bytes[i]];
  }
  double sum = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (pairs[i] > 0)
      sum -= static_cast<double>(pairs[i]) * std::log(static_cast<double>(pairs[i]) / static_cast<double>(firsts[i / 256]));
  return sum / static_cast<double>(bytes.size() - 1);
}

}  // namespace tandem::exec

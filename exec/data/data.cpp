#include "exec/data/data.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/data/permutation.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/fnv.hpp"
#include "models/base/input.hpp"

namespace tandem::exec {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 40;  // the real limit is the host's memory

std::string_view part_of(std::string_view bytes, const TextPart& part) {
  require(0 <= part.begin && part.begin <= part.end && part.end <= 1, "a part of a text lies within it");
  const auto at = [size = static_cast<double>(bytes.size())](double fraction) { return static_cast<std::size_t>(size * fraction); };
  return bytes.substr(at(part.begin), at(part.end) - at(part.begin));
}

/// Window w holds tokens [w*seq, (w+1)*seq] of the text. A window's last target is the next window's first input.
class ByteText final : public TokenSource {
 public:
  ByteText(std::shared_ptr<const TextFile> file, std::int64_t seq_length, std::uint64_t seed, const TextPart& part)
      : file_(std::move(file)), bytes_(part_of(file_->bytes, part)), seq_length_(seq_length), seed_(seed) {
    require(seq_length >= 1, "a sequence has at least one token");
    if (static_cast<std::int64_t>(bytes_.size()) < seq_length + 1)
      throw ConfigError(Problem{file_->path, "data", std::to_string(bytes_.size()) + " bytes",
                                std::string(part.end - part.begin < 1 ? "the part of the text that is read" : "the text") +
                                    " is shorter than one sequence and its last target",
                                "give at least " + std::to_string(seq_length + 1) + " bytes, or shorten training.seq_length"});
    windows_ = (static_cast<std::int64_t>(bytes_.size()) - 1) / seq_length;
  }

  std::int64_t vocab_size() const override { return 256; }
  std::int64_t sequences() const override { return windows_; }
  std::uint64_t fingerprint() const override {
    return fnv1a(bytes_);
  }

  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    require(index >= 0, "sequences are counted from zero");
    require(static_cast<std::int64_t>(tokens.size()) == seq_length_ + 1, "a sequence is seq_length + 1 tokens");
    const auto* first = reinterpret_cast<const unsigned char*>(bytes_.data()) + window(index) * seq_length_;
    std::copy_n(first, tokens.size(), tokens.begin());
  }

 private:
  std::int64_t window(std::int64_t index) const {
    const auto epoch = static_cast<std::uint64_t>(index / windows_);
    const Permutation order(static_cast<std::uint64_t>(windows_), seed_ ^ epoch * 0xD1342543DE82EF95);
    return static_cast<std::int64_t>(order(static_cast<std::uint64_t>(index % windows_)));
  }

  std::shared_ptr<const TextFile> file_;
  std::string_view bytes_;
  std::int64_t seq_length_, windows_ = 0;
  std::uint64_t seed_;
};

}  // namespace

std::shared_ptr<const TextFile> read_text_file(const std::string& path) {
  if (const std::string why = why_unreadable(path); !why.empty())
    throw ConfigError(Problem{path, "data", "", "the text cannot be read: " + why, "give the path of a plain text file"});
  if (!is_regular_file(path)) throw ConfigError(Problem{path, "data", "", "is no plain file", "give the path of a plain text file"});
  return std::make_shared<const TextFile>(TextFile{path, InputFile(path).whole(kMostBytes)});
}

std::unique_ptr<TokenSource> open_byte_text(std::shared_ptr<const TextFile> file, std::int64_t seq_length, std::uint64_t seed,
                                            const TextPart& part) {
  return std::make_unique<ByteText>(std::move(file), seq_length, seed, part);
}

std::unique_ptr<TokenSource> open_byte_text(const std::string& path, std::int64_t seq_length, std::uint64_t seed,
                                            const TextPart& part) {
  return open_byte_text(read_text_file(path), seq_length, seed, part);
}

double bigram_entropy(const TextFile& file) {
  const std::string_view bytes = file.bytes;
  if (bytes.size() < 2) throw ConfigError(Problem{file.path, "data", "", "the text has no pair of bytes", ""});
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  std::vector<std::int64_t> pairs(256 * 256), firsts(256);
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    ++pairs[byte(i) * std::size_t{256} + byte(i + 1)];
    ++firsts[byte(i)];
  }
  double sum = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (pairs[i] > 0)
      sum -= static_cast<double>(pairs[i]) * std::log(static_cast<double>(pairs[i]) / static_cast<double>(firsts[i / 256]));
  return sum / static_cast<double>(bytes.size() - 1);
}

}  // namespace tandem::exec

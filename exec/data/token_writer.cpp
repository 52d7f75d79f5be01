#include "exec/data/token_writer.hpp"

#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr std::int64_t kNarrow = 65'500;  // Megatron-LM's bound for ids of 2 bytes
constexpr std::size_t kFlush = std::size_t{1} << 20;

template <class T>
void append(std::string& to, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}

}  // namespace

TokenWriter::TokenWriter(std::string prefix, std::int64_t vocab_size)
    : prefix_(std::move(prefix)), width_(vocab_size < kNarrow ? 2 : 4), ids_(prefix_ + ".bin"), index_(prefix_ + ".idx") {}

TokenWriter::~TokenWriter() = default;

void TokenWriter::add_document(std::span<const std::int32_t> ids) {
  if (ids.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    throw ConfigError(Problem{prefix_ + ".idx", "document", std::to_string(ids.size()) + " tokens", "is longer than the format can say",
                              "cut the text into documents"});
  for (const std::int32_t id : ids) {
    width_ == 2 ? append(buffer_, static_cast<std::uint16_t>(id)) : append(buffer_, id);
    if (buffer_.size() >= kFlush) ids_.add(buffer_), buffer_.clear();
  }
  if (!ids.empty()) lengths_.push_back(static_cast<std::int32_t>(ids.size()));
  tokens_ += static_cast<std::int64_t>(ids.size());
  ends_.push_back(static_cast<std::int64_t>(lengths_.size()));
}

void TokenWriter::commit() {
  ids_.add(buffer_);
  write_index();
  ids_.commit();
  index_.commit();
}

/// Header, lengths of sequences, their places in bytes, and the first sequence of each document with one more behind the last.
void TokenWriter::write_index() {
  std::string out("MMIDIDX\0\0", 9);
  append(out, std::uint64_t{1});
  append(out, static_cast<std::uint8_t>(width_ == 2 ? 8 : 4));
  append(out, static_cast<std::uint64_t>(lengths_.size()));
  append(out, static_cast<std::uint64_t>(ends_.size() + 1));
  for (const std::int32_t length : lengths_) append(out, length);
  std::int64_t place = 0;
  for (const std::int32_t length : lengths_) append(out, std::exchange(place, place + std::int64_t{length} * width_));
  append(out, std::int64_t{0});
  for (const std::int64_t end : ends_) append(out, end);
  index_.add(out);
}

}  // namespace tandem::exec

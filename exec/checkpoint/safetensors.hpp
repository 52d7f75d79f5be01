#pragma once
// The head of a safetensors file (https://github.com/huggingface/safetensors, "Format").

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "models/base/dtype.hpp"

namespace tandem::exec {

constexpr std::size_t kHeaderWord = 8;  ///< bytes of the header's length
constexpr std::size_t kLargestHeader = std::size_t{100} << 20;  ///< safetensors' own limit

/// Least significant byte first, as safetensors wants it.
std::string little(std::uint64_t value, std::size_t bytes);
std::uint64_t from_little(std::string_view bytes);

/// safetensors' names of the types that state is kept in.
const char* safetensors_name(DType type);
std::optional<DType> safetensors_type(const std::string& name);

/// Of a tensor, or a part of one.
std::string shape_text(std::int64_t rows, std::int64_t cols);

/// A JSON object of values that are JSON already. Text from the start: a tree of JSON needs memory to be taken apart, and a save that
/// lacks it must not end the program.
std::string object_text(const std::map<std::string, std::string>& entries);
std::string quoted(const std::string& text);

class SafetensorsHeader {
 public:
  /// Behind the ones before it, `shape` as shape_text() has it. Returns where it begins, in bytes behind the header.
  std::uint64_t add(const std::string& name, const char* type, const std::string& shape, std::uint64_t bytes);
  void set(const std::string& key, const std::string& value) { metadata_[key] = quoted(value); }
  /// With its length in front, and blanks behind it up to a multiple of 8.
  std::string text() const;

 private:
  std::map<std::string, std::string> tensors_, metadata_;
  std::uint64_t end_ = 0;
};

}  // namespace tandem::exec

#pragma once
// The header of a safetensors file (https://github.com/huggingface/safetensors, "Format").

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "models/base/dtype.hpp"

namespace tandem::exec {

constexpr std::size_t kHeaderWord = 8;  ///< bytes of the header's length field
constexpr std::size_t kLargestHeader = std::size_t{100} << 20;  ///< safetensors' own limit

/// Little-endian bytes of a number, as safetensors stores them.
std::string little(std::uint64_t value, std::size_t bytes);
std::uint64_t from_little(std::string_view bytes);

/// The safetensors names of the types that states are stored in.
const char* safetensors_name(DType type);
std::optional<DType> safetensors_type(const std::string& name);

/// The shape of a tensor or of a part, as JSON.
std::string shape_text(std::int64_t rows, std::int64_t cols);

/// A JSON object of values that are JSON text already. It builds text, not a JSON tree, because destroying a tree needs memory. A
/// save that lacks memory must not end the program.
std::string object_text(const std::map<std::string, std::string>& entries);
std::string quoted(const std::string& text);

class SafetensorsHeader {
 public:
  /// Adds a tensor after the previous ones. `shape` is a shape_text(). Returns its byte offset after the header.
  std::uint64_t add(const std::string& name, const char* type, const std::string& shape, std::uint64_t bytes);
  void set(const std::string& key, const std::string& value) { metadata_[key] = quoted(value); }
  /// The header with its length in front, padded with blanks to a multiple of 8 bytes.
  std::string text() const;

 private:
  std::map<std::string, std::string> tensors_, metadata_;
  std::uint64_t end_ = 0;
};

}  // namespace tandem::exec

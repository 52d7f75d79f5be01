#include "exec/checkpoint/safetensors.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace tandem::exec {
namespace {

constexpr std::array<std::pair<const char*, DType>, 4> kTypes{
    {{"F64", DType::fp64}, {"F32", DType::fp32}, {"BF16", DType::bf16}, {"F16", DType::fp16}}};

}  // namespace

std::string little(std::uint64_t value, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
  return out;
}

std::uint64_t from_little(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

const char* safetensors_name(DType type) {
  return std::find_if(kTypes.begin(), kTypes.end(), [type](const auto& known) { return known.second == type; })->first;
}

std::optional<DType> safetensors_type(const std::string& name) {
  for (const auto& [word, type] : kTypes)
    if (name == word) return type;
  return std::nullopt;
}

std::string shape_text(std::int64_t rows, std::int64_t cols) {
  return "[" + std::to_string(rows) + (cols == 1 ? "" : "," + std::to_string(cols)) + "]";
}

std::string object_text(const std::map<std::string, std::string>& entries) {
  std::string out = entries.empty() ? "{" : "";
  for (const auto& [key, value] : entries) out += (out.empty() ? "{" : ",") + quoted(key) + ":" + value;
  return out + "}";
}

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

std::uint64_t SafetensorsHeader::add(const std::string& name, const char* type, const std::string& shape, std::uint64_t bytes) {
  const std::uint64_t begin = std::exchange(end_, end_ + bytes);
  tensors_[name] = "{\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end_) + "],\"dtype\":\"" + type +
                   "\",\"shape\":" + shape + "}";
  return begin;
}

std::string SafetensorsHeader::text() const {
  auto all = tensors_;
  all["__metadata__"] = object_text(metadata_);
  std::string body = object_text(all);
  body.resize((body.size() + kHeaderWord - 1) / kHeaderWord * kHeaderWord, ' ');
  return little(body.size(), kHeaderWord) + body;
}

}  // namespace tandem::exec

#include "exec/checkpoint/manifest.hpp"

#include <zlib.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "exec/checkpoint/safetensors.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "tandem checkpoint folder";
constexpr std::string_view kSum = ",\"checksum\":";
constexpr std::int64_t kMost = std::int64_t{1} << 40;

std::string range(std::int64_t first, std::int64_t count) { return std::to_string(first) + ":" + std::to_string(first + count); }

std::string list(const std::vector<std::string>& values) {
  std::string out = "[";
  for (const std::string& v : values) out += (out.size() == 1 ? "" : ",") + v;
  return out + "]";
}

std::string part_text(const Block& b, const StoredPart& s) {
  std::vector<std::string> numbers;
  for (const std::int64_t n : {b.row, b.col, b.rows, b.cols}) numbers.push_back(std::to_string(n));
  numbers.push_back(std::to_string(s.file));
  numbers.push_back(std::to_string(s.at));
  numbers.push_back(std::to_string(s.crc32));
  return list(numbers);
}

std::string tensor_text(const SavedTensor& t, const std::vector<StoredPart>& stored) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < stored.size(); ++i) parts.push_back(part_text(t.parts[i], stored[i]));
  return object_text({{"buffer", quoted(t.buffer)}, {"name", quoted(t.name)}, {"dtype", quoted(safetensors_name(t.type))},
                      {"shape", shape_text(t.rows, t.cols)}, {"parts", list(parts)}});
}

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw ConfigError(Problem{path, "", "", reason, "give another checkpoint of the run"});
}

/// Parses the text after checking its checksum.
json checked(const std::string& text, const std::string& path) {
  const std::size_t at = text.rfind(kSum);
  if (at == std::string::npos) refuse(path, "is no manifest of a checkpoint, or is cut short");
  json all = parse_json(text, path, {kLargestHeader * 16, 64});
  if (!all.is_object() || !all.contains("checksum") || all["checksum"] != crc32_of(std::string_view(text).substr(0, at)))
    refuse(path, "is damaged: its checksum is not that of its bytes");
  return all;
}

void add_part(const json& numbers, SavedTensor& t, std::vector<StoredPart>& stored) {
  if (numbers.size() != 7) throw std::out_of_range(t.name + " has a part that is none");
  const auto at = [&](std::size_t i) {
    const auto n = numbers.at(i).get<std::int64_t>();
    if (n < 0 || n > kMost) throw std::out_of_range(t.name + " has a part that is none");
    return n;
  };
  const Block b{at(0), at(1), at(2), at(3)};
  if (b.empty() || b.row + b.rows > t.rows || b.col + b.cols > t.cols || b.rows > kMost / b.cols)
    throw std::out_of_range(t.name + " has a part outside of it");
  t.parts.push_back(b);
  stored.push_back({static_cast<std::uint32_t>(at(4)), static_cast<std::uint64_t>(at(5)), static_cast<std::uint32_t>(at(6))});
}

void add_tensor(const json& from, Manifest& out) {
  const auto shape = from.at("shape").get<std::vector<std::int64_t>>();
  const auto type = safetensors_type(from.at("dtype"));
  SavedTensor t{from.at("buffer"), from.at("name"), type.value_or(DType::fp32), 0, 1, {}};
  if (!type || shape.empty() || shape.size() > 2) throw std::out_of_range(t.name + " has no type or shape");
  t.rows = shape[0], t.cols = shape.size() == 2 ? shape[1] : 1;
  std::vector<StoredPart> stored;
  std::int64_t elements = 0;
  for (const json& part : from.at("parts")) add_part(part, t, stored), elements += t.parts.back().elements();
  for (const StoredPart& s : stored)
    if (s.file >= out.files.size()) throw std::out_of_range(t.name + " is in a file that is not listed");
  if (t.rows > kMost || t.cols > kMost || elements != t.rows * t.cols) throw std::out_of_range(t.name + " is not whole");
  out.tensors.push_back(std::move(t));
  out.stored.push_back(std::move(stored));
}

}  // namespace

std::uint32_t crc32_of(std::string_view bytes) {
  return static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::string part_name(const SavedTensor& t, const Block& part) {
  return tensor_name(t) + "[" + range(part.row, part.rows) + "," + range(part.col, part.cols) + "]";
}

std::string text_of(const Manifest& manifest) {
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : metadata_of(kFormat, manifest.facts, manifest.run)) metadata[key] = quoted(value);
  std::vector<std::string> files;
  for (const std::string& f : manifest.files) files.push_back(quoted(f));
  std::string text = "{\"metadata\":" + object_text(metadata) + ",\n\"files\":" + list(files) + ",\n\"tensors\":[";
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i)
    text += (i == 0 ? "\n" : ",\n") + tensor_text(manifest.tensors[i], manifest.stored[i]);
  text += "\n]";
  const std::string sum = std::to_string(crc32_of(text));
  return text.append(kSum).append(sum).append("}\n");
}

Manifest manifest_of(const std::string& text, const std::string& path) {
  const json all = checked(text, path);
  try {
    Manifest out;
    out.facts = facts_of(all.at("metadata"), kFormat);
    out.run = run_of(all.at("metadata"));
    out.files = all.at("files").get<std::vector<std::string>>();
    for (const json& t : all.at("tensors")) add_tensor(t, out);
    return out;
  } catch (const json::exception&) {
    refuse(path, "is no manifest of a checkpoint");
  } catch (const std::out_of_range& e) {
    refuse(path, "is not a manifest that can be read: " + std::string(e.what()));
  }
}

}  // namespace tandem::exec

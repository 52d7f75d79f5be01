#include "exec/weights/weight_files.hpp"

#include <nlohmann/json.hpp>
#include <set>

#include "exec/checkpoint/safetensors.hpp"
#include "exec/state/stored_values.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/json.hpp"

namespace tandem::exec {
namespace {

using nlohmann::json;

constexpr const char* kOneFile = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

[[noreturn]] void refuse(const std::string& path, const std::string& field, const std::string& value, const std::string& reason,
                         const std::string& remedy) {
  throw ConfigError(Problem{path, field, value, reason, remedy});
}

[[noreturn]] void refuse_damaged(const std::string& path, const std::string& field, const std::string& reason) {
  refuse(path, field, "", reason, "copy the file again");
}

/// The header of a safetensors file, and its length in bytes with the length's own field.
std::pair<json, std::uint64_t> header_of(const std::string& path, InputFile& file) {
  const std::string_view start = file.head(kHeaderWord + 1);
  const std::uint64_t said = start.size() < kHeaderWord ? 0 : from_little(start.substr(0, kHeaderWord));
  if (said < 2 || said > kLargestHeader || (start.size() > kHeaderWord && start[kHeaderWord] != '{'))
    refuse(path, "", "", "is no safetensors file", "give the weights as safetensors: transformers' save_pretrained writes them");
  const auto length = static_cast<std::size_t>(said);
  const std::string_view head = file.head(kHeaderWord + length);
  if (head.size() < kHeaderWord + length) refuse_damaged(path, "", "is cut short");
  try {
    return {parse_json(head.substr(kHeaderWord), path, {kLargestHeader, 64}), kHeaderWord + said};
  } catch (const ConfigError&) {  // nobody mends such a header
    refuse_damaged(path, "", "is damaged: its header is no JSON");
  }
}

/// The place of a tensor, as the header has it. Throws json::exception or std::out_of_range.
StoredTensor tensor_of(const json& entry, std::uint64_t header, std::uint64_t size) {
  StoredTensor t;
  t.type_name = entry.at("dtype").get<std::string>();
  t.type = safetensors_type(t.type_name);
  t.shape = entry.at("shape").get<std::vector<std::int64_t>>();
  const auto place = entry.at("data_offsets").get<std::vector<std::uint64_t>>();
  if (place.size() != 2 || place[0] > place[1]) throw std::out_of_range("has no place");
  if (place[1] > size - header) throw std::out_of_range("ends behind the file, which is cut short");
  t.at = header + place[0];
  t.bytes = place[1] - place[0];
  std::uint64_t elements = 1;
  for (const std::int64_t n : t.shape)
    if (n < 0 || __builtin_mul_overflow(elements, static_cast<std::uint64_t>(n), &elements)) throw std::out_of_range("has no size");
  if (t.type && elements > t.bytes / stored_bytes(*t.type)) throw std::out_of_range("has fewer bytes than its shape");
  if (t.type && elements * stored_bytes(*t.type) != t.bytes) throw std::out_of_range("has more bytes than its shape");
  return t;
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

/// The file that a folder's weights begin with.
std::string weights_in(const std::string& folder) {
  for (const char* name : {kIndex, kOneFile})
    if (is_regular_file(folder + "/" + name)) return folder + "/" + name;
  const bool pickled = file_exists(folder + "/pytorch_model.bin") || file_exists(folder + "/pytorch_model.bin.index.json");
  refuse(folder, "", "", std::string("has no ") + kOneFile + " and no " + kIndex,
         pickled ? "convert pytorch_model.bin: load it with transformers and call save_pretrained" : "give the folder of a model, or its .safetensors file");
}

}  // namespace

std::int64_t StoredTensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t n : shape) product *= n;
  return product;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t n : shape) text += (text.empty() ? "" : ", ") + std::to_string(n);
  return "[" + text + "]";
}

WeightFiles::WeightFiles(const std::string& path) : path_(is_folder(path) ? weights_in(path) : path) {
  if (const std::string why = why_unreadable(path_); !why.empty()) refuse(path_, "", "", why, "give a folder with model.safetensors, or a .safetensors file");
  path_.ends_with(".json") ? add_indexed(path_) : add_file(path_);
}

void WeightFiles::add_file(const std::string& path) {
  auto file = std::make_unique<InputFile>(path);
  const auto size = file->size();
  if (!size) refuse(path, "", "", "is no plain file", "give a .safetensors file");
  const auto [header, length] = header_of(path, *file);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    try {
      StoredTensor t = tensor_of(entry, length, *size);
      t.file = paths_.size();
      if (const auto [other, fresh] = tensors_.emplace(name, t); !fresh) refuse(path, name, "", "is also in " + path_of(other->second), "leave one of them");
    } catch (const json::exception&) {
      refuse_damaged(path, name, "has no type, shape or place");
    } catch (const std::out_of_range& e) {
      refuse_damaged(path, name, e.what());
    }
  }
  paths_.push_back(path);
  files_.push_back(std::move(file));
}

void WeightFiles::add_indexed(const std::string& index) {
  const json document = read_json(index);
  const json map = document.is_object() ? document.value("weight_map", json()) : json();
  if (!map.is_object()) refuse(index, "weight_map", "", "is missing", "give the folder that save_pretrained writes, its .safetensors file or its index");
  std::set<std::string> names;
  for (const auto& [tensor, file] : map.items()) {
    if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos) refuse(index, "weight_map." + tensor, value_text(file), "names no file beside the index", "give the index that save_pretrained writes");
    names.insert(file.get<std::string>());
  }
  for (const std::string& name : names) {
    const std::string path = folder() + "/" + name;
    if (const std::string why = why_unreadable(path); !why.empty()) refuse(path, "", "", why, index + " names it: copy all files of the model");
    add_file(path);
  }
  for (const auto& [tensor, file] : map.items()) {
    const auto found = tensors_.find(tensor);
    const std::string path = folder() + "/" + file.get<std::string>();
    if (found == tensors_.end() || path_of(found->second) != path) refuse(path, tensor, "", "is missing, and " + index + " says that it is here", "copy all files of the model");
  }
}

std::string WeightFiles::folder() const { return folder_of(path_); }

void WeightFiles::read(const StoredTensor& tensor, std::uint64_t from, std::span<std::byte> to) const {
  require(from + to.size() <= tensor.bytes, "bytes outside a stored tensor");
  files_[tensor.file]->read_at(tensor.at + from, to);
}

std::uint64_t WeightFiles::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [name, tensor] : tensors_) sum += tensor.bytes;
  return sum;
}

}  // namespace tandem::exec

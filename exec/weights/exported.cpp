#include "exec/weights/exported.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/checkpoint/safetensors.hpp"
#include "exec/state/stored_values.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/new_file.hpp"
#include "models/base/threads.hpp"
#include "models/plan/adapters.hpp"

namespace tandem::exec {
namespace {

using huggingface::FileTensor;
using huggingface::ParameterRows;
using huggingface::RowRun;

constexpr int kMostReaders = 8;                        // each holds one part in memory
constexpr std::int64_t kAtOnce = std::int64_t{1} << 18;  // numbers that are converted together
constexpr const char* kWeights = "weights";

std::uint64_t elements_of(const FileTensor& t) {
  std::uint64_t product = 1;
  for (const std::int64_t n : t.shape) product *= static_cast<std::uint64_t>(n);
  return product;
}

// ---- files ----

/// A tensor as a file of the export has it.
struct Written {
  std::string name, type;
  std::vector<std::int64_t> shape;
  std::uint64_t elements, bytes;
};

Written written(const FileTensor& t, DType type) {
  const std::uint64_t elements = elements_of(t);
  return {t.name, safetensors_name(type), t.shape, elements, elements * stored_bytes(type)};
}

Written written(const std::string& name, const StoredTensor& t) {
  return {name, t.type_name, t.shape, static_cast<std::uint64_t>(t.elements()), t.bytes};
}

/// A file of the export: the tensors [first, last) of all, and its header.
struct PlannedShard {
  std::string name;
  std::size_t first = 0, last = 0;
};

std::string shard_name(const std::string& name, std::size_t i, std::size_t n) {
  char number[32];
  std::snprintf(number, sizeof number, "-%05zu-of-%05zu", i + 1, n);
  return name + (n == 1 ? "" : number) + ".safetensors";
}

/// Fills file after file, as huggingface_hub does (split_torch_state_dict_into_shards).
std::vector<PlannedShard> shards_of(const std::vector<Written>& tensors, const ExportOptions& options) {
  std::vector<PlannedShard> shards{{}};
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t more = tensors[i].bytes;
    if (bytes > 0 && bytes + more > options.most_bytes) shards.push_back({"", i, i}), bytes = 0;
    shards.back().last = i + 1;
    bytes += more;
  }
  for (std::size_t i = 0; i < shards.size(); ++i) shards[i].name = shard_name(options.weights_name, i, shards.size());
  return shards;
}

std::string header_of(const PlannedShard& shard, const std::vector<Written>& tensors) {
  SafetensorsHeader header;
  header.set("format", "pt");
  for (std::size_t i = shard.first; i < shard.last; ++i)
    header.add(tensors[i].name, tensors[i].type.c_str(), shape_text(tensors[i].shape), tensors[i].bytes);
  return header.text();
}

std::string index_text(const std::vector<PlannedShard>& shards, const std::vector<Written>& tensors, const ExportedFiles& done) {
  nlohmann::json map = nlohmann::json::object();
  for (const PlannedShard& shard : shards)
    for (std::size_t i = shard.first; i < shard.last; ++i) map[tensors[i].name] = shard.name;
  const nlohmann::json sizes{{"total_parameters", done.elements}, {"total_size", done.bytes}};
  return nlohmann::json{{"metadata", sizes}, {"weight_map", map}}.dump(2) + "\n";
}

/// Writes a new folder beside its name. Without commit() nothing is left.
class NewFolder {
 public:
  explicit NewFolder(std::string folder) : final_(std::move(folder)) {
    while (final_.size() > 1 && final_.ends_with('/')) final_.pop_back();
    path_ = final_ + "." + std::to_string(getpid()) + ".new";
    const bool full = is_folder(final_) && !folder_entries(final_).names.empty();
    if (full || (file_exists(final_) && !is_folder(final_)))
      throw ConfigError(Problem{final_, "--out", "", full ? "is a folder with files in it" : "exists", "give a new folder"});
    if (const std::error_code why = make_folders(path_)) refuse_writing(final_, why.value());
  }
  ~NewFolder() { remove_folder(path_); }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  std::unique_ptr<NewFile> file(const std::string& name) const {
    return std::make_unique<NewFile>(path_ + "/" + name, final_ + "/" + name);
  }
  void write(const std::string& name, const std::string& text) const {
    const auto out = file(name);
    out->add(text);
    out->close();
  }
  void commit() const {
    synchronise_folder(path_);
    if (const std::error_code why = exchange_folder(path_, final_)) refuse_writing(final_, why.value());
    const std::size_t slash = final_.rfind('/');
    synchronise_folder(slash == std::string::npos ? "." : final_.substr(0, slash + 1));
  }

 private:
  std::string final_, path_;
};

/// Writes tensors one behind the other into the files that were planned for them.
class ShardWriter {
 public:
  /// `folder` and `tensors` must outlive this.
  ShardWriter(const NewFolder& folder, const std::vector<Written>& tensors, std::vector<PlannedShard> shards)
      : folder_(folder), tensors_(tensors), shards_(std::move(shards)), shard_(shards_.begin()) {}

  const std::vector<PlannedShard>& shards() const { return shards_; }

  /// `add` writes the bytes of the next tensor.
  void next(const std::function<void(NewFile&)>& add) {
    if (next_ == shard_->first) file_ = folder_.file(shard_->name), file_->add(header_of(*shard_, tensors_));
    add(*file_);
    if (++next_ < shard_->last) return;
    file_->close();
    ++shard_;
  }

 private:
  const NewFolder& folder_;
  const std::vector<Written>& tensors_;
  std::vector<PlannedShard> shards_;
  std::vector<PlannedShard>::const_iterator shard_;
  std::unique_ptr<NewFile> file_;
  std::size_t next_ = 0;
};

// ---- weights ----

/// A whole parameter in memory, in the type that it was saved in.
class WholeTensor {
 public:
  WholeTensor(const SavedState& state, std::size_t index, std::int64_t rows) : tensor_(state.tensors()[index]) {
    bytes_.resize(static_cast<std::size_t>(rows * tensor_.cols) * number());
    for_each_index(tensor_.parts.size(), {std::min(kMostReaders, all_cores())}, [&](std::size_t i) {
      const Block& part = tensor_.parts[i];
      std::vector<std::byte> room(static_cast<std::size_t>(part.elements()) * number());
      state.read(index, i, room);
      const std::size_t line = static_cast<std::size_t>(part.cols) * number(), left = static_cast<std::size_t>(part.col) * number();
      for (std::int64_t r = 0; r < part.rows && part.row + r < rows; ++r)
        std::memcpy(at(part.row + r) + left, room.data() + static_cast<std::size_t>(r) * line, line);
    });
  }

  DType type() const { return tensor_.type; }
  std::size_t number() const { return stored_bytes(tensor_.type); }
  std::int64_t cols() const { return tensor_.cols; }
  std::byte* at(std::int64_t row) { return bytes_.data() + static_cast<std::size_t>(row * tensor_.cols) * number(); }
  const std::byte* at(std::int64_t row) const { return bytes_.data() + static_cast<std::size_t>(row * tensor_.cols) * number(); }

 private:
  const SavedTensor& tensor_;
  std::vector<std::byte> bytes_;
};

/// One tensor of a parameter.
struct TensorIn {
  const ParameterRows& rows;
  std::size_t index;
};

/// The bytes of one tensor of a file, in the parameter's type.
std::vector<std::byte> tensor_bytes(const WholeTensor& whole, const ParameterRows& rows, std::size_t tensor) {
  const std::size_t number = whole.number(), cols = static_cast<std::size_t>(whole.cols());
  const std::size_t width = rows.transposed ? static_cast<std::size_t>(rows.tensors[tensor].shape.back()) : 0;
  std::vector<std::byte> out(elements_of(rows.tensors[tensor]) * number);
  for (const RowRun& run : rows.runs) {
    if (run.tensor != tensor) continue;
    for (std::int64_t i = 0; i < run.count; ++i) {
      const std::byte* from = whole.at(run.row + i * run.step);
      const auto row = static_cast<std::size_t>(run.in_tensor + i);
      if (!rows.transposed || cols == 1) std::memcpy(out.data() + row * cols * number, from, cols * number);
      else {
        std::byte* const column = out.data() + (row / width * cols * width + row % width) * number;
        for (std::size_t c = 0; c < cols; ++c) std::memcpy(column + c * width * number, from + c * number, number);
      }
    }
  }
  return out;
}

/// From a parameter's numbers to those of the file, rounded to `to`.
std::vector<std::byte> as_stored(const FileTensor& tensor, DType from, std::span<const std::byte> bytes, DType to) {
  std::vector<double> values(bytes.size() / stored_bytes(from));
  load_values(from, bytes.data(), values);
  for (double& v : values) v -= tensor.offset;
  std::vector<std::byte> out(values.size() * stored_bytes(to));
  store_values(to, values, out.data());
  return out;
}

/// Throws ConfigError if a number was finite and no longer is.
void require_within(DType from, std::span<const std::byte> values, DType to, std::span<const std::byte> converted,
                    const std::string& name) {
  std::vector<double> before(values.size() / stored_bytes(from)), after(before.size());
  load_values(from, values.data(), before);
  load_values(to, converted.data(), after);
  for (std::size_t i = 0; i < before.size(); ++i)
    if (std::isfinite(before[i]) && !std::isfinite(after[i]))
      throw ConfigError(Problem{"", "--dtype", safetensors_name(to), name + " has " + std::to_string(before[i]) + ", which is beyond this type",
                                "give --dtype bf16 or fp32"});
}

void add_converted(NewFile& file, DType from, std::span<const std::byte> values, DType to, const std::string& name) {
  const std::size_t number = stored_bytes(from);
  std::string room;
  for (std::size_t at = 0; at < values.size();) {
    const std::size_t bytes = std::min(values.size() - at, static_cast<std::size_t>(kAtOnce) * number);
    room.resize(bytes / number * stored_bytes(to));
    convert_values(from, values.data() + at, to, std::as_writable_bytes(std::span(room)));
    if (to == DType::fp16) require_within(from, values.subspan(at, bytes), to, std::as_bytes(std::span(room)), name);
    file.add(room);
    at += bytes;
  }
}

void add_tensor(NewFile& file, const WholeTensor& whole, const TensorIn& tensor, DType type) {
  const FileTensor& stored = tensor.rows.tensors[tensor.index];
  const std::vector<std::byte> bytes = tensor_bytes(whole, tensor.rows, tensor.index);
  if (!stored.converts()) return add_converted(file, whole.type(), bytes, type, stored.name);
  const DType wide = whole.type() == DType::fp64 || type == DType::fp64 ? DType::fp64 : DType::fp32;
  add_converted(file, wide, as_stored(stored, whole.type(), bytes, wide), type, stored.name);
}

/// The bytes of a tensor of other files, part by part.
void copy_tensor(NewFile& file, const WeightFiles& others, const std::string& name) {
  const StoredTensor& t = others.tensors().at(name);
  std::string room;
  for (std::uint64_t at = 0; at < t.bytes; at += room.size()) {
    room.resize(std::min<std::uint64_t>(kPartBytes, t.bytes - at));
    others.read(t, at, std::as_writable_bytes(std::span(room)));
    file.add(room);
  }
}

/// Index of the saved tensor that a parameter is exported from.
std::size_t saved_index(const SavedState& state, const std::string& name, DType wanted) {
  const auto& all = state.tensors();
  const auto find = [&](const std::string& buffer) {
    const auto is = [&](const SavedTensor& t) { return t.buffer == buffer && t.name == name; };
    return static_cast<std::size_t>(std::find_if(all.begin(), all.end(), is) - all.begin());
  };
  const std::size_t weights = find(kWeights), master = find("master");
  require(weights < all.size(), "a parameter that the checkpoint does not have");
  return all[weights].type == wanted || master == all.size() ? weights : master;
}

}  // namespace

std::vector<huggingface::WholeParameter> whole_parameters(const SavedState& state, std::int64_t vocab_size) {
  std::vector<huggingface::WholeParameter> out;
  for (const SavedTensor& t : state.tensors()) {
    if (t.buffer != kWeights) continue;
    const bool words = t.name == "embedding.word.weight" || t.name == "output.weight" || t.name == "output.bias" || t.name == "head.output_bias";
    out.push_back({t.name, words ? std::min(t.rows, vocab_size) : t.rows, t.cols});
  }
  return out;
}

std::vector<huggingface::WholeParameter> whole_adapters(const SavedState& state) {
  std::vector<huggingface::WholeParameter> out;
  for (const SavedTensor& t : state.tensors())
    if (t.buffer == kWeights && is_adapter_parameter(t.name)) out.push_back({t.name, t.rows, t.cols});
  return out;
}

ExportedFiles export_weights(const SavedState& state, const std::vector<ParameterRows>& parameters, const ExportOptions& options) {
  std::vector<Written> tensors;
  for (const ParameterRows& p : parameters)
    for (const FileTensor& t : p.tensors) tensors.push_back(written(t, options.type));
  for (const std::string& name : options.copied) tensors.push_back(written(name, options.others->tensors().at(name)));
  ExportedFiles done;
  for (const Written& t : tensors) done.elements += static_cast<std::int64_t>(t.elements), done.bytes += t.bytes;
  const NewFolder folder(options.folder);
  ShardWriter writer(folder, tensors, shards_of(tensors, options));
  for (const ParameterRows& p : parameters) {
    const WholeTensor whole(state, saved_index(state, p.parameter.name, options.type), p.parameter.rows);
    for (std::size_t i = 0; i < p.tensors.size(); ++i)
      writer.next([&](NewFile& file) { add_tensor(file, whole, {p, i}, options.type); });
  }
  for (const std::string& name : options.copied) writer.next([&](NewFile& file) { copy_tensor(file, *options.others, name); });
  for (const PlannedShard& s : writer.shards()) done.names.push_back(s.name);
  if (done.names.size() > 1) folder.write(options.weights_name + ".safetensors.index.json", index_text(writer.shards(), tensors, done));
  folder.write(options.config_name, options.config);
  folder.commit();
  return done;
}

}  // namespace tandem::exec

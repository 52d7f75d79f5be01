#include "exec/checkpoint/single_file.hpp"

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "exec/checkpoint/safetensors.hpp"
#include "exec/state/stored_values.hpp"
#include "models/base/error.hpp"
#include "models/base/fnv.hpp"
#include "models/base/input.hpp"
#include "models/base/output.hpp"

namespace tandem::exec {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "tandem checkpoint";
constexpr const char* kWeights = "weights";
constexpr std::size_t kWord = 8;  // of the checksum, in bytes
constexpr std::uint64_t kLargest = std::uint64_t{1} << 40;

std::uint64_t bytes_of(const SavedTensor& t) { return static_cast<std::uint64_t>(t.rows * t.cols) * stored_bytes(t.type); }

// ---- writing ----

std::string header_of(const std::map<std::string, std::string>& metadata, const std::vector<SavedTensor>& tensors) {
  SafetensorsHeader header;
  for (const auto& [key, value] : metadata) header.set(key, value);
  for (const SavedTensor& t : tensors)
    header.add(tensor_name(t), safetensors_name(t.type), shape_text(t.rows, t.cols), bytes_of(t));
  header.add("checksum", "U8", "[" + std::to_string(kWord) + "]", kWord);
  return header.text();
}

/// The blocks of each tensor that the ranks hold, by (buffer, name).
using Places = std::map<std::pair<std::string, std::string>, std::vector<BlockPlace>>;

Places places_of(const WholeMoment& moment, const std::vector<SavedTensor>& tensors) {
  Places places;
  std::map<std::string, std::map<std::string, DType>> types;  // by buffer and name
  for (const SavedTensor& t : tensors) types[t.buffer][t.name] = t.type;
  for (const auto& [buffer, of] : types)
    for (const RankState& rank : moment.ranks)
      for (const HeldBlock& held : counted_blocks(rank, buffer))
        places[{buffer, held.param->name}].push_back(place_of(rank, held, state_offset(rank, buffer), of.at(held.param->name)));
  return places;
}

/// Reads a block and copies its rows to their places in the whole tensor.
void read_block(const BlockPlace& from, const SavedTensor& t, std::string& whole) {
  const std::size_t number = stored_bytes(t.type);
  for (const Block& part : parts_of(from.block, part_elements(t.type))) {
    const std::vector<std::byte> room = values_at(rows_of(from, part), t.type);
    const std::size_t row_bytes = static_cast<std::size_t>(part.cols) * number;
    for (std::int64_t r = 0; r < part.rows; ++r)
      std::memcpy(whole.data() + static_cast<std::size_t>((part.row + r) * t.cols + part.col) * number,
                  room.data() + static_cast<std::size_t>(r) * row_bytes, row_bytes);
  }
}

/// An output file that computes the checksum of its contents.
class SummedFile {
 public:
  explicit SummedFile(const std::string& path) : file_(path) {}
  void add(std::string_view bytes) {
    sum_ = fnv1a(bytes, sum_);
    file_.add(bytes);
  }
  void commit() {
    file_.add(little(sum_, kWord));
    file_.commit();
  }

 private:
  OutputFile file_;
  std::uint64_t sum_ = fnv1a("");
};

// ---- reading ----

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw ConfigError(Problem{path, "", "", reason, "give a whole file that `tandem train --save` wrote"});
}

/// Reads only the header first: a file that is no checkpoint may be a device, or larger than the host's memory.
json read_header(const std::string& path, InputFile& file, std::size_t& length) {
  const std::string_view start = file.head(kHeaderWord + 1);
  const std::uint64_t said = start.size() < kHeaderWord ? 0 : from_little(start.substr(0, kHeaderWord));
  if (said < 2 || said > kLargestHeader || (start.size() > kHeaderWord && start[kHeaderWord] != '{')) refuse(path, "is not a checkpoint");
  length = static_cast<std::size_t>(said);
  const std::string_view head = file.head(kHeaderWord + length);
  if (head.size() < kHeaderWord + length) refuse(path, "is cut short");
  try {
    return parse_json(head.substr(kHeaderWord), path, {kLargestHeader, 64});
  } catch (const ConfigError&) {  // a checkpoint is no text to mend
    refuse(path, "is cut short or damaged: its header is no JSON");
  }
}

struct Entry {
  std::string name;
  DType type;
  std::int64_t rows, cols;
  std::uint64_t begin, end;  ///< byte offsets after the header
};

Entry entry(const std::string& name, const json& t) {
  const auto shape = t.at("shape").get<std::vector<std::int64_t>>();
  const auto at = t.at("data_offsets").get<std::vector<std::uint64_t>>();
  if (at.size() != 2 || at[0] > at[1] || at[1] > kLargest || shape.empty() || shape.size() > 2)
    throw std::out_of_range(name + " has no place");
  const auto type = safetensors_type(t.at("dtype"));
  if (!type) throw std::out_of_range(name + " has another dtype than F64, F32, BF16 and F16");
  const std::int64_t rows = shape[0], cols = shape.size() == 2 ? shape[1] : 1;
  const auto most = static_cast<std::int64_t>(kLargest);
  const bool sensible = rows >= 0 && cols > 0 && rows <= most && cols <= most && (rows == 0 || cols <= most / rows);
  if (!sensible || static_cast<std::uint64_t>(rows * cols) * stored_bytes(*type) != at[1] - at[0])
    throw std::out_of_range(name + " has another size than its shape");
  return {name, *type, rows, cols, at[0], at[1]};
}

/// By offset in the file, which gives the order of the model.
std::map<std::uint64_t, Entry> entries(const json& header) {
  std::map<std::uint64_t, Entry> all;
  for (const auto& [name, t] : header.items())
    if (name != "__metadata__" && name != "checksum") {
      const Entry e = entry(name, t);
      all.emplace(e.begin, e);
    }
  return all;
}

std::string buffer_of(const std::string& name) {
  for (const char* buffer : {"exp_avg", "exp_avg_sq", "master"})
    if (name.starts_with(std::string(buffer) + ".")) return buffer;
  return kWeights;
}

SavedTensor tensor_of(const Entry& e) {
  SavedTensor t{buffer_of(e.name), e.name, e.type, e.rows, e.cols, {}};
  if (t.buffer != kWeights) t.name = e.name.substr(t.buffer.size() + 1);
  t.parts = parts_of({0, 0, e.rows, e.cols}, part_elements(e.type));
  return t;
}

class FileState final : public SavedState {
 public:
  explicit FileState(const std::string& path) : path_(path), file_(path) {
    const json header = read_header(path, file_, length_);
    try {
      const json& metadata = header.at("__metadata__");
      facts_ = facts_of(metadata, kFormat);
      run_ = run_of(metadata);
      for (const auto& [begin, e] : entries(header)) {
        tensors_.push_back(tensor_of(e));
        begins_.push_back(begin);
        end_ = std::max(end_, e.end);
      }
    } catch (const json::exception&) {
      refuse(path, "is a safetensors file, but not a checkpoint");
    } catch (const std::out_of_range& e) {
      refuse(path, "is not a checkpoint that can be read: " + std::string(e.what()));
    }
    check();
  }

  const StateFacts& facts() const override { return facts_; }
  const std::vector<SavedTensor>& tensors() const override { return tensors_; }
  std::string file() const override { return path_; }
  void read(std::size_t tensor, std::size_t part, std::span<std::byte> to) const override {
    const SavedTensor& t = tensors_[tensor];
    const auto before = static_cast<std::uint64_t>(t.parts[part].row * t.cols) * stored_bytes(t.type);
    file_.read_at(kHeaderWord + length_ + begins_[tensor] + before, to);
  }

  SavedRun& run() { return run_; }
  std::uint64_t sum() const { return sum_; }

 private:
  /// Checks the file's size and checksum.
  void check() {
    const std::uint64_t whole = kHeaderWord + length_ + end_ + kWord;
    const auto size = file_.size();
    if (!size) refuse(path_, "is no plain file");
    if (*size != whole) refuse(path_, *size > whole ? "is longer than its header says" : "is cut short");
    sum_ = fnv1a("");
    std::string room;
    for (std::uint64_t at = 0; at < whole - kWord; at += room.size()) {
      room.resize(std::min<std::uint64_t>(kPartBytes, whole - kWord - at));
      file_.read_at(at, std::as_writable_bytes(std::span(room)));
      sum_ = fnv1a(room, sum_);
    }
    std::string said(kWord, '\0');
    file_.read_at(whole - kWord, std::as_writable_bytes(std::span(said)));
    if (from_little(said) != sum_) refuse(path_, "is cut short or damaged: its checksum is not that of its bytes");
  }

  std::string path_;
  InputFile file_;
  std::size_t length_ = 0;
  StateFacts facts_;
  SavedRun run_;
  std::vector<SavedTensor> tensors_;
  std::vector<std::uint64_t> begins_;
  std::uint64_t end_ = 0, sum_ = 0;
};

}  // namespace

void save_single_file(const std::string& path, const SavedRun& run, const WholeMoment& moment) {
  const std::vector<SavedTensor> tensors = kept_tensors(moment.ranks, moment.plan);
  const Places places = places_of(moment, tensors);
  SummedFile file(path);
  file.add(header_of(metadata_of(kFormat, moment.facts, run), tensors));
  std::string whole;
  for (const SavedTensor& t : tensors) {
    whole.assign(bytes_of(t), '\0');
    std::int64_t elements = 0;
    for (const BlockPlace& place : places.at({t.buffer, t.name})) read_block(place, t, whole), elements += place.block.elements();
    require(elements == t.rows * t.cols, "a tensor that its ranks do not have whole");
    file.add(whole);
  }
  file.commit();
}

Checkpoint open_single_file(const std::string& path) {
  auto state = std::make_unique<FileState>(path);
  SavedRun run = std::move(state->run());
  const std::uint64_t sum = state->sum();
  return {std::move(state), std::move(run), sum};
}

}  // namespace tandem::exec

#include "exec/state/checkpoint.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "models/base/fnv.hpp"
#include "models/base/input.hpp"
#include "models/base/json.hpp"
#include "models/base/narrow.hpp"
#include "models/base/output.hpp"
#include "models/fields/plan_values.hpp"
#include "models/graph/segments.hpp"

namespace tandem::exec {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "tandem checkpoint";
constexpr const char* kWeights = "weights";
constexpr std::size_t kWord = 8;                               // of the header's length, and of the checksum
constexpr std::size_t kLargest = std::size_t{1} << 40;
constexpr std::size_t kLargestHeader = std::size_t{100} << 20;  // safetensors' own limit

// ---- bytes ----

/// Least significant byte first, as safetensors wants it.
void append_little(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

std::uint64_t little(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

std::size_t size_of(DType t) { return static_cast<std::size_t>(bits(t)) / 8; }

/// safetensors' names of the types that buffers are kept in.
constexpr std::array<std::pair<const char*, DType>, 4> kTypes{
    {{"F64", DType::fp64}, {"F32", DType::fp32}, {"BF16", DType::bf16}, {"F16", DType::fp16}}};

const char* file_name(DType t) {
  return std::find_if(kTypes.begin(), kTypes.end(), [t](const auto& known) { return known.second == t; })->first;
}
std::optional<DType> type_of(const std::string& name) {
  for (const auto& [word, t] : kTypes)
    if (name == word) return t;
  return std::nullopt;
}

template <class Float, class Bits>
void append_values(std::string& out, const std::vector<double>& values) {
  for (double v : values) {
    const auto number = static_cast<Float>(v);
    Bits bits;
    std::memcpy(&bits, &number, sizeof bits);
    append_little(out, bits, sizeof bits);
  }
}

template <class Float, class Bits>
std::vector<double> values_of(std::string_view bytes) {
  std::vector<double> values(bytes.size() / sizeof(Bits));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = static_cast<Bits>(little(bytes.substr(i * sizeof(Bits), sizeof(Bits))));
    Float number;
    std::memcpy(&number, &bits, sizeof bits);
    values[i] = number;
  }
  return values;
}

/// Numbers of 16 bits go through their bits.
void append_narrow(std::string& out, DType dtype, const std::vector<double>& values) {
  for (const double v : values) {
    const auto number = static_cast<float>(v);
    append_little(out, dtype == DType::bf16 ? to_bf16(number) : to_fp16(number), 2);
  }
}

std::vector<double> narrow_values(DType dtype, std::string_view bytes) {
  std::vector<double> values(bytes.size() / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto bits = static_cast<std::uint16_t>(little(bytes.substr(2 * i, 2)));
    values[i] = static_cast<double>(dtype == DType::bf16 ? from_bf16(bits) : from_fp16(bits));
  }
  return values;
}

void append_values(std::string& out, DType dtype, const std::vector<double>& values) {
  if (bits(dtype) == 16) return append_narrow(out, dtype, values);
  dtype == DType::fp64 ? append_values<double, std::uint64_t>(out, values) : append_values<float, std::uint32_t>(out, values);
}

std::vector<double> values_of(DType dtype, std::string_view bytes) {
  if (bits(dtype) == 16) return narrow_values(dtype, bytes);
  return dtype == DType::fp64 ? values_of<double, std::uint64_t>(bytes) : values_of<float, std::uint32_t>(bytes);
}

// ---- writing ----

std::string tensor_name(const StateBuffer& buffer, const GatheredTensor& t) {
  return buffer.name == kWeights ? t.name : buffer.name + "." + t.name;
}

std::string shape_of(const GatheredTensor& t) {
  return "[" + std::to_string(t.rows) + (t.cols == 1 ? "" : "," + std::to_string(t.cols)) + "]";
}

std::string quoted(const std::string& text) { return json(text).dump(); }

/// Text from the start: a tree of JSON needs memory to be taken apart, and a save that lacks it must not end the program.
class Header {
 public:
  void add(const std::string& name, const char* dtype, const std::string& shape, std::size_t bytes) {
    const std::size_t begin = std::exchange(end_, end_ + bytes);
    tensors_[name] = "{\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end_) + "],\"dtype\":\"" + dtype +
                     "\",\"shape\":" + shape + "}";
  }
  void set(const char* key, const std::string& value) { metadata_[key] = quoted(value); }
  /// With its length in front, and blanks behind it up to a multiple of 8.
  std::string text() const {
    auto all = tensors_;
    all["__metadata__"] = object_of(metadata_);
    std::string body = object_of(all);
    body.resize((body.size() + kWord - 1) / kWord * kWord, ' ');
    std::string out;
    append_little(out, body.size(), kWord);
    return out + body;
  }

 private:
  using Entries = std::map<std::string, std::string>;  // values are JSON

  static std::string object_of(const Entries& entries) {
    std::string out;
    for (const auto& [key, value] : entries) out += (out.empty() ? "{" : ",") + quoted(key) + ":" + value;
    return out + "}";
  }

  Entries tensors_, metadata_;
  std::size_t end_ = 0;
};

/// Only what a run without a loss scale and without skipped updates has not.
void set_scale(Header& header, const ScaleState& scale) {
  if (scale.skipped > 0) header.set("skipped_steps", std::to_string(scale.skipped));
  if (scale.loss_scale == 1 && scale.good_steps == 0 && scale.bad_steps == 0) return;
  header.set("loss_scale", number_text(scale.loss_scale));
  header.set("good_steps", std::to_string(scale.good_steps));
  header.set("bad_steps", std::to_string(scale.bad_steps));
}

std::string header_of(const Checkpoint& c) {
  Header header;
  header.set("format", kFormat);
  header.set("schema_version", "1");
  header.set("steps", std::to_string(c.state.steps));
  header.set("samples", std::to_string(c.state.samples));
  header.set("data", std::to_string(c.data));
  if (c.held_out) header.set("held_out", json(*c.held_out).dump());
  header.set("plan", c.plan_json);
  set_scale(header, c.state.scale);
  for (const StateBuffer& b : c.state.buffers)
    for (const GatheredTensor& t : b.tensors)
      header.add(tensor_name(b, t), file_name(b.dtype), shape_of(t), t.values.size() * size_of(b.dtype));
  header.add("checksum", "U8", "[" + std::to_string(kWord) + "]", kWord);
  return header.text();
}

// ---- reading ----

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw ConfigError(Problem{path, "", "", reason, "give a whole file that `tandem train --save` wrote"});
}

/// The header, before anything behind it is read: what is no checkpoint may be a device, or larger than the host's memory.
json read_header(const std::string& path, InputFile& file, std::size_t& length) {
  const std::string_view start = file.head(kWord + 1);
  const std::uint64_t said = start.size() < kWord ? 0 : little(start.substr(0, kWord));
  if (said < 2 || said > kLargestHeader || (start.size() > kWord && start[kWord] != '{')) refuse(path, "is not a checkpoint");
  length = static_cast<std::size_t>(said);
  const std::string_view head = file.head(kWord + length);
  if (head.size() < kWord + length) refuse(path, "is cut short");
  return parse_json(head.substr(kWord), path, {kLargestHeader, 64});
}

/// Bytes that a header gives its file, with the checksum.
std::size_t declared_size(const json& header, std::size_t length) {
  std::size_t end = header.contains("checksum") ? 0 : kWord;
  for (const auto& [name, t] : header.items()) {
    if (name == "__metadata__") continue;
    const auto at = t.at("data_offsets").get<std::vector<std::size_t>>();
    if (at.size() != 2 || at[1] > kLargest) throw std::out_of_range(name + " has no place");
    end = std::max(end, at[1] + (header.contains("checksum") ? 0 : kWord));
  }
  return kWord + length + end;
}

/// The bytes of a whole file that nobody changed.
std::string read_whole(const std::string& path, InputFile& file, std::size_t size) {
  if (file.size().value_or(size) > size) refuse(path, "is longer than its header says");
  std::string bytes = file.whole(size);
  if (bytes.size() < size) refuse(path, "is cut short");
  const std::string_view all = bytes;
  if (little(all.substr(all.size() - kWord)) != fnv1a(all.substr(0, all.size() - kWord)))
    refuse(path, "is cut short or damaged: its checksum is not that of its bytes");
  return bytes;
}

struct Entry {
  std::string name, dtype;
  std::int64_t rows, cols;
  std::size_t begin, end;
};

Entry entry(const std::string& name, const json& t) {
  const auto shape = t.at("shape").get<std::vector<std::int64_t>>();
  const auto at = t.at("data_offsets").get<std::vector<std::size_t>>();
  if (at.size() != 2 || at[0] > at[1] || shape.empty() || shape.size() > 2) throw std::out_of_range(name + " has no place");
  return {name, t.at("dtype"), shape[0], shape.size() == 2 ? shape[1] : 1, at[0], at[1]};
}

/// By their place in the file, which is the order of the model.
std::map<std::size_t, Entry> entries(const json& header) {
  std::map<std::size_t, Entry> all;
  for (const auto& [name, t] : header.items())
    if (name != "__metadata__" && name != "checksum") {
      const Entry e = entry(name, t);
      all.emplace(e.begin, e);
    }
  return all;
}

GatheredTensor tensor(const Entry& e, std::string_view data) {
  const auto dtype = type_of(e.dtype);
  if (!dtype) throw std::out_of_range(e.name + " has another dtype than F64, F32, BF16 and F16");
  const std::size_t bytes = e.end - e.begin, most = data.size() / 2;
  const auto rows = static_cast<std::size_t>(e.rows), cols = static_cast<std::size_t>(e.cols);
  if (e.end > data.size() || rows > most || (rows > 0 && cols > most / rows) || rows * cols * size_of(*dtype) != bytes)
    throw std::out_of_range(e.name + " has another size than its shape");
  const std::string_view own = data.substr(e.begin, bytes);
  return {e.name, e.rows, e.cols, values_of(*dtype, own)};
}

/// "exp_avg.word.weight" is of an optimizer's buffer; a weight's own name begins with none of theirs.
std::string buffer_of(const std::string& name) {
  for (const char* buffer : {"exp_avg", "exp_avg_sq", "master"})
    if (name.starts_with(std::string(buffer) + ".")) return buffer;
  return kWeights;
}

StateBuffer& buffer_in(TrainingState& state, const std::string& name, DType dtype) {
  for (StateBuffer& b : state.buffers)
    if (b.name == name) return b;
  return state.buffers.emplace_back(StateBuffer{name, dtype, {}});
}

void add(TrainingState& state, const Entry& e, std::string_view data) {
  GatheredTensor t = tensor(e, data);
  const std::string name = buffer_of(e.name);
  if (name != kWeights) t.name = t.name.substr(name.size() + 1);
  buffer_in(state, name, type_of(e.dtype).value()).tensors.push_back(std::move(t));
}

template <class Number>
Number number(const json& metadata, const char* key) {
  const std::string text = metadata.at(key);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || value < Number{}) throw std::out_of_range(std::string(key) + " is no number");
  return value;
}

template <class Number>
Number number_or(const json& metadata, const char* key, Number otherwise) {
  return metadata.contains(key) ? number<Number>(metadata, key) : otherwise;
}

ScaleState scale_of(const json& metadata) {
  const ScaleState scale{number_or(metadata, "loss_scale", 1.0), number_or<std::uint32_t>(metadata, "good_steps", 0),
                         number_or<std::uint32_t>(metadata, "bad_steps", 0), number_or<std::int64_t>(metadata, "skipped_steps", 0)};
  int exponent = 0;
  if (std::frexp(scale.loss_scale, &exponent) != 0.5) throw std::out_of_range("loss_scale is no power of two");
  return scale;
}

Checkpoint checkpoint_of(const std::string& path, const json& header, std::string_view data) {
  const json& metadata = header.at("__metadata__");
  if (metadata.at("format") != kFormat || metadata.at("schema_version") != "1")
    throw std::out_of_range("its format is not " + std::string(kFormat) + " 1");
  Checkpoint c;
  c.state.file = path;
  c.state.steps = number<std::int64_t>(metadata, "steps");
  c.state.samples = number<std::int64_t>(metadata, "samples");
  c.data = number<std::uint64_t>(metadata, "data");
  if (metadata.contains("held_out")) c.held_out = number<double>(metadata, "held_out");
  if (c.held_out && !(*c.held_out < 1)) throw std::out_of_range("held_out is no share");
  c.plan_json = metadata.at("plan");
  c.state.scale = scale_of(metadata);
  for (const auto& [begin, e] : entries(header)) add(c.state, e, data);
  return c;
}

// ---- whether a plan goes on ----

json at(const json& plan, const std::string& pointer) {
  const json::json_pointer place(pointer);
  return plan.contains(place) ? plan.at(place) : json();
}

/// Fields of the plan that decide what is kept, and which sequences and random numbers a step sees.
std::set<std::string> fixed_fields(const json& a, const json& b) {
  std::set<std::string> fields{"/training/precision", "/training/dtypes/weights", "/training/dtypes/optimizer_state", "/training/dtypes/master",
                               "/training/optimizer", "/training/seed",           "/training/seq_length",
                               "/training/decoder_seq_length"};
  for (const json& model : {at(a, "/model"), at(b, "/model")})
    for (const auto& [key, value] : model.items()) fields.insert("/model/" + key);
  return fields;
}

/// A plan without what of its model decides neither the state nor what a step computes: names, and room.
json deciding(json plan) {
  if (!at(plan, "/model").is_object()) return plan;
  json& model = plan["model"];
  for (const char* key : {"name", "notes", "pad_vocab_to"}) model.erase(key);
  if (model.contains("moe") && model["moe"].is_object()) model["moe"].erase("rows_bound");
  return plan;
}

/// Fields that a run may change where it goes on, but that change what it learns.
constexpr const char* kHyperParameters[] = {
    "learning_rate", "min_learning_rate", "learning_rate_decay", "learning_rate_unit", "warmup", "decay_power", "beta1", "beta2", "epsilon",
    "weight_decay", "momentum", "dropout/hidden", "dropout/attention", "clip_grad", "global_batch_size", "batch_rampup/start",
    "batch_rampup/increment", "batch_rampup/samples"};

std::string dotted(const std::string& pointer) {
  std::string field = pointer.substr(1);
  for (char& c : field) c = c == '/' ? '.' : c;
  return field;
}

Problem difference(const std::string& path, const std::string& field, const json& saved, const json& wanted) {
  return {path, dotted(field), value_text(saved), "the plan has " + value_text(wanted), "resume with the plan that was trained"};
}

std::int64_t samples_before(const Plan& plan, std::int64_t steps) {
  if (steps == 0) return 0;
  const Segment last = segments(plan, steps).back();
  return last.first_sample + last.steps * last.global_batch_size;
}

}  // namespace

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  std::string bytes = header_of(checkpoint);
  for (const StateBuffer& b : checkpoint.state.buffers)
    for (const GatheredTensor& t : b.tensors)
      append_values(bytes, b.dtype, t.values);
  append_little(bytes, fnv1a(bytes), kWord);
  write_text(path, bytes);
}

Checkpoint load_checkpoint(const std::string& path) {
  InputFile file(path);
  std::size_t length = 0;
  const json header = read_header(path, file, length);
  try {
    const std::string bytes = read_whole(path, file, declared_size(header, length));
    return checkpoint_of(path, header, std::string_view(bytes).substr(kWord + length));
  } catch (const json::exception&) {
    refuse(path, "is a safetensors file, but not a checkpoint");
  } catch (const std::out_of_range& e) {
    refuse(path, "is not a checkpoint that can be read: " + std::string(e.what()));
  }
}

void require_resumable(const std::string& path, const Checkpoint& checkpoint, const Plan& plan) {
  const json saved = deciding(parse_json(checkpoint.plan_json, path)), wanted = deciding(json::parse(to_json(plan, -1)));
  std::vector<Problem> problems;
  for (const std::string& field : fixed_fields(saved, wanted))
    if (at(saved, field) != at(wanted, field)) problems.push_back(difference(path, field, at(saved, field), at(wanted, field)));
  const std::int64_t samples = samples_before(plan, checkpoint.state.steps);
  if (problems.empty() && samples != checkpoint.state.samples)
    problems.push_back({path, "samples", std::to_string(checkpoint.state.samples),
                        "the plan's batches have " + std::to_string(samples) + " behind as many steps",
                        "resume with the training.global_batch_size and batch_rampup that were trained"});
  if (!problems.empty()) throw ConfigError(problems);
}

std::vector<std::string> changed_hyper_parameters(const std::string& path, const Checkpoint& checkpoint, const Plan& plan) {
  const json saved = parse_json(checkpoint.plan_json, path), wanted = json::parse(to_json(plan, -1));
  std::vector<std::string> out;
  for (const char* name : kHyperParameters) {
    const std::string field = std::string("/training/") + name;
    const json before = at(saved, field), now = at(wanted, field);
    if (before != now) out.push_back(dotted(field) + " from " + value_text(before) + " to " + value_text(now));
  }
  return out;
}

}  // namespace tandem::exec

#include "exec/weights/pretrained.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/state/stored_values.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

using huggingface::ParameterRows;
using huggingface::RowRun;
using huggingface::WeightTable;

constexpr std::size_t kMostProblems = 20;  // that one refusal tells
constexpr const char* kRemedy = "use a plan of this model";
constexpr const char* kOutput = "output.weight";
constexpr const char* kWords = "embedding.word.weight";

/// Looks tensors up and collects what is wrong.
class TensorFinder {
 public:
  TensorFinder(const WeightFiles& files, const WeightTable& table) : files_(files), table_(table) {
    const auto begins = [&](const auto& entry) { return entry.first.starts_with(table.prefix); };
    bare_ = !table.prefix.empty() && std::none_of(files.tensors().begin(), files.tensors().end(), begins);
  }

  /// The name that this model's files have for a name of the table.
  std::string name_here(const std::string& name) const {
    return bare_ && name.starts_with(table_.prefix) ? name.substr(table_.prefix.size()) : name;
  }

  const StoredTensor* optional(const std::string& name) {
    const std::string here = name_here(name);
    const auto found = files_.tensors().find(here);
    if (found == files_.tensors().end()) return nullptr;
    known_.insert(here);
    return &found->second;
  }

  /// nullptr after a complaint.
  const StoredTensor* wanted(const huggingface::FileTensor& tensor) {
    const StoredTensor* found = optional(tensor.name);
    const std::string wants = ": the plan's model wants " + shape_text(tensor.shape), file = found == nullptr ? files_.path() : files_.path_of(*found);
    if (found == nullptr) complain({file, tensor.name, "", "is missing" + wants, kRemedy});
    else if (found->shape != tensor.shape) complain({file, tensor.name, shape_text(found->shape), "has another shape" + wants, kRemedy});
    else if (!found->type)
      complain({file, tensor.name, found->type_name, "is no type that weights are read from" + wants, "convert the weights to F32, F16 or BF16"});
    else return found;
    return nullptr;
  }

  void complain_of_others() {
    for (const auto& [name, tensor] : files_.tensors()) {
      const auto ends = [&name = name](const std::string& ending) { return ("." + name).ends_with(ending); };
      if (known_.contains(name) || std::any_of(table_.ignored.begin(), table_.ignored.end(), ends)) continue;
      complain({files_.path_of(tensor), name, shape_text(tensor.shape), "is unexpected: the plan's model has no such weights", kRemedy});
    }
  }

  void complain(Problem problem) {
    if (problems_.size() >= kMostProblems) return;
    problem.field = name_here(problem.field);
    problems_.push_back(std::move(problem));
  }

  void finish() const {
    if (!problems_.empty()) throw ConfigError(problems_);
  }

 private:
  const WeightFiles& files_;
  const WeightTable& table_;
  bool bare_ = false;
  std::set<std::string> known_;
  std::vector<Problem> problems_;
};

/// A parameter and its tensors in the files.
struct Located {
  ParameterRows rows;
  std::vector<const StoredTensor*> tensors;
};

/// The type of all tensors, else the widest one they can be converted to.
DType common_type(const Located& of) {
  const DType first = *of.tensors.front()->type;
  const auto is = [&](const StoredTensor* t) { return *t->type == first; };
  if (std::all_of(of.tensors.begin(), of.tensors.end(), is)) return first;
  const auto widest = [](const StoredTensor* t) { return *t->type == DType::fp64; };
  return std::any_of(of.tensors.begin(), of.tensors.end(), widest) ? DType::fp64 : DType::fp32;
}

class PretrainedState final : public SavedState {
 public:
  PretrainedState(WeightFiles files, const WeightTable& table, std::vector<ParameterRows> parameters) : files_(std::move(files)) {
    TensorFinder finder(files_, table);
    for (ParameterRows& p : parameters) {
      std::vector<const StoredTensor*> tensors;
      for (const huggingface::FileTensor& t : p.tensors) tensors.push_back(finder.wanted(t));
      located_.push_back({std::move(p), std::move(tensors)});
    }
    const auto output = table.parameters.find(kOutput);
    const bool tied = output != table.parameters.end() && find(kOutput) == nullptr;
    const StoredTensor* copy = tied ? finder.optional(output->second.of.front()) : nullptr;
    finder.complain_of_others();
    finder.finish();
    if (copy != nullptr) require_tied(*copy, output->second.of.front());
    for (const Located& l : located_) {
      const auto& p = l.rows.parameter;
      const DType type = common_type(l);
      tensors_.push_back({"weights", p.name, type, p.rows, p.cols, parts_of({0, 0, p.rows, p.cols}, part_elements(type))});
    }
  }

  const StateFacts& facts() const override { return facts_; }
  const std::vector<SavedTensor>& tensors() const override { return tensors_; }
  std::string file() const override { return files_.path(); }

  void read(std::size_t tensor, std::size_t part, std::span<std::byte> to) const override {
    const Located& from = located_[tensor];
    const Block& block = tensors_[tensor].parts[part];
    for (const RowRun& run : from.rows.runs) {
      const auto run_rows_before = [&](std::int64_t row) {
        return std::clamp<std::int64_t>((row - run.row + run.step - 1) / run.step, 0, run.count);
      };
      const std::int64_t first = run_rows_before(block.row), last = run_rows_before(block.row + block.rows);
      const RowRun here{run.tensor, run.in_tensor + first, run.row + first * run.step - block.row, run.step, last - first};
      if (here.count > 0) read_rows(from, here, tensors_[tensor].type, to);
    }
  }

 private:
  /// nullptr: the plan's model has no such parameter.
  const Located* find(const std::string& name) const {
    const auto is = [&](const Located& l) { return l.rows.parameter.name == name; };
    const auto found = std::find_if(located_.begin(), located_.end(), is);
    return found == located_.end() ? nullptr : &*found;
  }

  /// `run.row` counts from the first row of `to`.
  void read_rows(const Located& from, const RowRun& run, DType type, std::span<std::byte> to) const {
    const StoredTensor& t = *from.tensors[run.tensor];
    const std::int64_t cols = from.rows.parameter.cols, width = from.rows.transposed ? t.shape.back() : cols;
    const std::size_t number = stored_bytes(*t.type), count = static_cast<std::size_t>(run.count);
    const std::size_t row_bytes = static_cast<std::size_t>(cols) * number;
    std::vector<std::byte> room(count * row_bytes);
    if (!from.rows.transposed || cols == 1) {
      files_.read(t, static_cast<std::uint64_t>(run.in_tensor * cols) * number, room);
      return place_rows(room, *t.type, run, cols, type, to);
    }
    std::vector<std::byte> line(count * number);
    for (std::int64_t c = 0; c < cols; ++c) {
      files_.read(t, static_cast<std::uint64_t>(c * width + run.in_tensor) * number, line);
      std::byte* column = room.data() + static_cast<std::size_t>(c) * number;
      for (std::size_t r = 0; r < count; ++r) std::memcpy(column + r * row_bytes, &line[r * number], number);
    }
    place_rows(room, *t.type, run, cols, type, to);
  }

  static void place_rows(std::span<const std::byte> rows, DType from, const RowRun& run, std::int64_t cols, DType type,
                         std::span<std::byte> to) {
    const auto width = static_cast<std::size_t>(cols);
    const std::size_t line = width * stored_bytes(from), line_to = width * stored_bytes(type);
    for (std::int64_t i = 0; i < run.count; ++i) {
      const std::byte* source = rows.data() + static_cast<std::size_t>(i) * line;
      std::byte* place = to.data() + static_cast<std::size_t>(run.row + i * run.step) * line_to;
      convert_values(from, source, type, {place, line_to});
    }
  }

  /// A tied model may have its word matrix twice. Throws ConfigError if the copy is another matrix.
  void require_tied(const StoredTensor& copy, const std::string& name) const {
    const Located* words = find(kWords);
    require(words != nullptr, "a model without words");
    const StoredTensor& first = *words->tensors.front();
    bool equal = first.bytes == copy.bytes && first.type_name == copy.type_name;
    std::vector<std::byte> a, b;
    for (std::uint64_t at = 0; equal && at < copy.bytes; at += a.size()) {
      a.resize(std::min<std::uint64_t>(kPartBytes, copy.bytes - at));
      b.resize(a.size());
      files_.read(first, at, a);
      files_.read(copy, at, b);
      equal = a == b;
    }
    if (!equal)
      throw ConfigError(Problem{files_.path_of(copy), name, shape_text(copy.shape),
                                "is not equal to " + words->rows.tensors.front().name + ", and the plan ties them",
                                "set model.tie_embeddings to false"});
  }

  WeightFiles files_;
  StateFacts facts_;
  std::vector<Located> located_;
  std::vector<SavedTensor> tensors_;
};

}  // namespace

std::vector<huggingface::WholeParameter> whole_parameters(std::span<const RankState> ranks, const Plan& plan) {
  std::vector<huggingface::WholeParameter> out;
  for (const SavedTensor& t : kept_tensors(ranks, plan))
    if (t.buffer == "weights" && !is_adapter_parameter(t.name)) out.push_back({t.name, t.rows, t.cols});
  return out;
}

std::unique_ptr<SavedState> open_pretrained(WeightFiles files, const WeightTable& table, std::vector<ParameterRows> parameters) {
  return std::make_unique<PretrainedState>(std::move(files), table, std::move(parameters));
}

}  // namespace tandem::exec

#include "exec/weights/pretrained.hpp"

#include <algorithm>
#include <cstring>

#include "exec/checkpoint/checkpoint.hpp"
#include "exec/state/stored_values.hpp"
#include "exec/weights/tensor_finder.hpp"
#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

using huggingface::ParameterRows;
using huggingface::RowRun;
using huggingface::WeightTable;

constexpr const char* kWithoutModules = "transformers saves no modules of multi-token prediction; set model.mtp.num_layers to 0 to train without them";
constexpr const char* kOutput = "output.weight";
constexpr const char* kWords = "embedding.word.weight";

/// Parameters without those of heads that the files lack altogether.
std::vector<ParameterRows> without_drawn(TensorFinder& finder, const WeightTable& table, std::vector<ParameterRows> parameters) {
  for (const std::string& head : table.drawn) {
    const auto there = [&](const huggingface::FileTensor& t) { return finder.optional(t.name) != nullptr; };
    const auto of_head = [&](const ParameterRows& p) { return p.parameter.name.starts_with(head); };
    const auto found = [&](const ParameterRows& p) { return of_head(p) && std::any_of(p.tensors.begin(), p.tensors.end(), there); };
    if (std::none_of(parameters.begin(), parameters.end(), found)) std::erase_if(parameters, of_head);
  }
  return parameters;
}

/// A parameter and its tensors in the files.
struct Located {
  ParameterRows rows;
  std::vector<const StoredTensor*> tensors;
  std::vector<std::optional<ScaledBlocks>> blocks;  ///< of tensors in 8 bits
};

/// The type of all tensors, else the widest one they can be converted to. What is computed from the files' numbers is wide.
DType common_type(const Located& of) {
  const auto is = [](DType type) { return [type](const StoredTensor* t) { return t->type == type; }; };
  const auto& all = of.tensors;
  if (std::any_of(all.begin(), all.end(), is(DType::fp64))) return DType::fp64;
  const bool computed = of.rows.tensors.front().converts() || !all.front()->type;
  return !computed && std::all_of(all.begin(), all.end(), is(*all.front()->type)) ? *all.front()->type : DType::fp32;
}

/// Numbers of one type.
struct Numbers {
  DType type;
  std::vector<std::byte> bytes;
};

class PretrainedState final : public SavedState {
 public:
  PretrainedState(WeightFiles files, const WeightTable& table, std::vector<ParameterRows> parameters) : files_(std::move(files)) {
    TensorFinder finder(files_, table);
    for (ParameterRows& p : without_drawn(finder, table, std::move(parameters))) {
      Located l;
      for (const huggingface::FileTensor& t : p.tensors) {
        l.tensors.push_back(finder.wanted(t, p.parameter.name.starts_with("mtp") ? kWithoutModules : kOtherPlan));
        const bool narrow = l.tensors.back() != nullptr && !l.tensors.back()->type;
        l.blocks.push_back(narrow ? finder.blocks_of(t.name, *l.tensors.back()) : std::nullopt);
      }
      l.rows = std::move(p);
      located_.push_back(std::move(l));
    }
    const auto output = table.parameters.find(kOutput);
    const bool tied = output != table.parameters.end() && find(kOutput) == nullptr;
    const StoredTensor* copy = tied ? finder.optional(output->second.of.front()) : nullptr;
    const std::vector<TwinTensors> twins = finder.twins();
    finder.complain_of_others();
    finder.finish();
    if (copy != nullptr) require_tied(*copy, output->second.of.front());
    for (const TwinTensors& t : twins)
      if (!equal(*t.first, *t.copy)) refuse_copy(t, ", whose copy transformers makes it", "leave one of them out");
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
    const std::int64_t cols = from.rows.parameter.cols;
    Numbers rows = from.rows.transposed && cols > 1 ? columns_of(from, run) : rows_of(from, run);
    const huggingface::FileTensor& tensor = from.rows.tensors[run.tensor];
    if (!all_finite(rows.type, rows.bytes))
      throw ConfigError(Problem{files_.path_of(*from.tensors[run.tensor]), tensor.name, "", "has numbers that are not finite (NaN or infinity)",
                                "give weights of a training that did not diverge"});
    if (tensor.converts()) convert(tensor, rows);
    place_rows(rows, run, cols, type, to);
  }

  Numbers rows_of(const Located& from, const RowRun& run) const {
    const std::int64_t cols = from.rows.parameter.cols;
    if (const auto& blocks = from.blocks[run.tensor])
      return {DType::fp32, blocks->numbers(files_, *from.tensors[run.tensor], run.in_tensor * cols, run.count * cols)};
    const StoredTensor& t = *from.tensors[run.tensor];
    const std::size_t number = stored_bytes(*t.type);
    Numbers rows{*t.type, std::vector<std::byte>(static_cast<std::size_t>(run.count * cols) * number)};
    files_.read(t, static_cast<std::uint64_t>(run.in_tensor * cols) * number, rows.bytes);
    return rows;
  }

  /// Columns of a tensor, or of one of its matrices, as rows.
  Numbers columns_of(const Located& from, const RowRun& run) const {
    const StoredTensor& t = *from.tensors[run.tensor];
    const std::int64_t cols = from.rows.parameter.cols, width = t.shape.back();
    const std::int64_t first = run.in_tensor / width * cols * width + run.in_tensor % width;
    const std::size_t number = stored_bytes(*t.type), count = static_cast<std::size_t>(run.count);
    const std::size_t row_bytes = static_cast<std::size_t>(cols) * number;
    Numbers rows{*t.type, std::vector<std::byte>(count * row_bytes)};
    std::vector<std::byte> line(count * number);
    for (std::int64_t c = 0; c < cols; ++c) {
      files_.read(t, static_cast<std::uint64_t>(first + c * width) * number, line);
      std::byte* column = rows.bytes.data() + static_cast<std::size_t>(c) * number;
      for (std::size_t r = 0; r < count; ++r) std::memcpy(column + r * row_bytes, &line[r * number], number);
    }
    return rows;
  }

  /// From a file's numbers to the parameter's, in a type that holds them.
  static void convert(const huggingface::FileTensor& tensor, Numbers& numbers) {
    std::vector<double> values(numbers.bytes.size() / stored_bytes(numbers.type));
    load_values(numbers.type, numbers.bytes.data(), values);
    for (double& v : values) v += tensor.offset;
    numbers.type = numbers.type == DType::fp64 ? DType::fp64 : DType::fp32;
    numbers.bytes.resize(values.size() * stored_bytes(numbers.type));
    store_values(numbers.type, values, numbers.bytes.data());
  }

  static void place_rows(const Numbers& rows, const RowRun& run, std::int64_t cols, DType type, std::span<std::byte> to) {
    const auto width = static_cast<std::size_t>(cols);
    const std::size_t line = width * stored_bytes(rows.type), line_to = width * stored_bytes(type);
    for (std::int64_t i = 0; i < run.count; ++i) {
      const std::byte* source = rows.bytes.data() + static_cast<std::size_t>(i) * line;
      std::byte* place = to.data() + static_cast<std::size_t>(run.row + i * run.step) * line_to;
      convert_values(rows.type, source, type, {place, line_to});
    }
  }

  /// A tied model may have its word matrix twice. Throws ConfigError if the copy is another matrix.
  void require_tied(const StoredTensor& copy, const std::string& name) const {
    const Located* words = find(kWords);
    require(words != nullptr, "a model without words");
    const StoredTensor& first = *words->tensors.front();
    if (!equal(first, copy))
      refuse_copy({&first, &copy, words->rows.tensors.front().name, name}, ", and the plan ties them", "set model.tie_embeddings to false");
  }

  bool equal(const StoredTensor& first, const StoredTensor& copy) const {
    bool equal = first.bytes == copy.bytes && first.type_name == copy.type_name;
    std::vector<std::byte> a, b;
    for (std::uint64_t at = 0; equal && at < copy.bytes; at += a.size()) {
      a.resize(std::min<std::uint64_t>(kPartBytes, copy.bytes - at));
      b.resize(a.size());
      files_.read(first, at, a);
      files_.read(copy, at, b);
      equal = a == b;
    }
    return equal;
  }

  [[noreturn]] void refuse_copy(const TwinTensors& t, const std::string& why, const char* remedy) const {
    throw ConfigError(Problem{files_.path_of(*t.copy), t.copy_name, shape_text(t.copy->shape), "is not equal to " + t.first_name + why, remedy});
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

std::vector<huggingface::WholeParameter> whole_adapters(std::span<const RankState> ranks, const Plan& plan) {
  std::vector<huggingface::WholeParameter> out;
  for (const SavedTensor& t : kept_tensors(ranks, plan))
    if (t.buffer == "weights" && is_adapter_parameter(t.name)) out.push_back({t.name, t.rows, t.cols});
  return out;
}

std::unique_ptr<SavedState> open_pretrained(WeightFiles files, const WeightTable& table, std::vector<ParameterRows> parameters) {
  return std::make_unique<PretrainedState>(std::move(files), table, std::move(parameters));
}

}  // namespace tandem::exec

#include "exec/device/product_choices.hpp"

#include <cctype>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <utility>

#include "exec/device/product_shape.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/input.hpp"

namespace tandem::exec::device {
namespace {

constexpr const char* kNotes =
    "Products as tandem train --backend cuda timed them before its first step: of the algorithms that cuBLASLt's heuristic names the "
    "fastest, on operands of its own that stay in the cache where they fit. algorithm: cublasLtMatmulAlgo_t, of this library alone.";

std::string fact(const CostTable& table, const std::string& key) {
  const auto found = table.facts.find(key);
  return found == table.facts.end() ? "" : found->second;
}

void require_same(const std::string& path, const CostTable& table, const std::string& key, const std::string& here) {
  const std::string there = fact(table, key);
  if (there != here)
    throw ConfigError(Problem{path, "facts." + key, there, "algorithms hold for one card and one library; here is " + here,
                              "give --algorithms another file, which need not exist"});
}

std::string file_name(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += std::isalnum(static_cast<unsigned char>(c)) || c == '.' ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : '-';
  return out;
}

std::uint32_t bytes(std::int64_t alignment) { return static_cast<std::uint32_t>(alignment); }

// Products that are no layer's, e.g. those of a recurrence, whose matrices come in batches, are figures of the table: their seconds,
// and in words what they are.

constexpr const char* kOther = "product_of_no_layer";

std::string text_of(const Stored& m) {
  std::ostringstream out;
  out << m.rows << ' ' << m.cols << ' ' << m.ld << ' ' << m.stride << ' ' << m.transposed;
  return out.str();
}

/// types, batch, {rows, cols, ld, stride, transposed} of each matrix, what the kernel does beside, alignments, algorithm
std::string text_of(const ProductKey& key, const std::string& algorithm) {
  const GemmShape& s = key.shape;
  std::ostringstream out;
  out << name(s.type) << ' ' << name(s.result) << " batch " << s.batch;
  for (const auto& [role, m] : {std::pair{"first", &s.first}, {"second", &s.second}, {"out", &s.out}}) out << ' ' << role << ' ' << text_of(*m);
  out << " accumulate " << s.accumulate << " bias " << s.bias << " sums " << s.sums << " activation " << static_cast<int>(s.activation);
  out << " alignment " << key.alignment << ' ' << key.vector_alignment << " algorithm " << algorithm;
  return out.str();
}

/// Reads what text_of() wrote. Words of another kind make the stream fail.
class Words {
 public:
  explicit Words(const std::string& text) : in_(text) {}
  void expect(const std::string& word) {
    if (next() != word) in_.setstate(std::ios::failbit);
  }
  std::string next() {
    std::string word;
    in_ >> word;
    return word;
  }
  template <class T>
  T number() {
    T value{};
    in_ >> value;
    return value;
  }
  DType type() {
    const auto found = dtype_from_name(next());
    if (!found) in_.setstate(std::ios::failbit);
    return found.value_or(DType::fp32);
  }
  Stored stored(const std::string& role) {
    expect(role);
    Stored m{};
    in_ >> m.rows >> m.cols >> m.ld >> m.stride >> m.transposed;
    return m;
  }
  std::string rest() {
    std::string text;
    std::getline(in_ >> std::ws, text);
    return text;
  }
  bool good() const { return !in_.fail(); }

 private:
  std::istringstream in_;
};

/// nullopt if the text is none of text_of().
std::optional<std::pair<ProductKey, std::string>> key_from(const std::string& text) {
  Words words(text);
  ProductKey key;
  GemmShape& s = key.shape;
  s.type = words.type(), s.result = words.type();
  words.expect("batch"), s.batch = words.number<std::int64_t>();
  s.first = words.stored("first"), s.second = words.stored("second"), s.out = words.stored("out");
  words.expect("accumulate"), s.accumulate = words.number<bool>();
  words.expect("bias"), s.bias = words.number<bool>();
  words.expect("sums"), s.sums = words.number<bool>();
  words.expect("activation");
  const int activation = words.number<int>();
  if (activation < 0 || activation > static_cast<int>(ProductActivation::gelu_gradient)) return std::nullopt;
  s.activation = static_cast<ProductActivation>(activation);
  words.expect("alignment"), key.alignment = words.number<std::uint32_t>(), key.vector_alignment = words.number<std::uint32_t>();
  words.expect("algorithm");
  const std::string algorithm = words.rest();
  return words.good() ? std::optional(std::pair(key, algorithm)) : std::nullopt;
}

}  // namespace

ProductChoices::ProductChoices(ProductPlace place, std::string path) : place_(std::move(place)), path_(std::move(path)) {
  if (file_exists(path_)) read();
  permit_replacing(path_, path_);  // the file grows from run to run
}

void ProductChoices::read() {
  const CostTable table = load_cost_table(path_);
  require_same(path_, table, "card", place_.card);
  require_same(path_, table, "library", place_.library);
  for (const CostSample& s : table.samples) {
    const auto* op = std::get_if<MatMul>(&s.op);
    if (op == nullptr || !s.kernel || s.kernel->algorithm.empty()) continue;
    const ProductKey key{shape_of(*op, s.dtype, s.kernel->result), bytes(s.kernel->alignment), bytes(s.kernel->vector_alignment)};
    choices_[key] = {s.kernel->algorithm, s.seconds};
  }
  for (const Figure& f : table.figures) {
    if (f.name != kOther) continue;
    const auto known = key_from(f.how);
    if (!known)
      throw ConfigError(Problem{path_, "figures", f.how, "is no product that tandem train writes", "remove this figure from the file"});
    choices_[known->first] = {known->second, f.value};
  }
}

std::optional<ProductChoice> ProductChoices::find(const ProductKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = choices_.find(key);
  return found == choices_.end() ? std::nullopt : std::optional(found->second);
}

void ProductChoices::keep(const ProductKey& key, const ProductChoice& choice) {
  const std::lock_guard lock(mutex_);
  choices_[key] = choice;
  changed_ = true;
}

CostTable ProductChoices::table() const {
  CostTable t;
  t.device = place_.device;
  t.date = place_.date;
  t.host = place_.card;
  t.notes = kNotes;
  t.facts = {{"card", place_.card}, {"library", place_.library}, {"source", "own measurement, tandem train --backend cuda"}};
  for (const auto& [key, choice] : choices_)
    if (const auto op = matmul_of(key.shape))
      t.samples.push_back({*op, key.shape.type, choice.seconds, 0, Bytes(0),
                           ProductKernel{key.shape.result, key.alignment, key.vector_alignment, choice.algorithm}});
    else if (key.shape.scale == nullptr && !key.shape.fast_sum)  // an address holds in one process alone
      t.figures.push_back({kOther, choice.seconds, "s", text_of(key, choice.algorithm)});
  return t;
}

void ProductChoices::save() {
  const std::lock_guard lock(mutex_);
  if (!changed_) return;
  save_cost_table(table(), path_);
  changed_ = false;
}

std::string default_choices_path(const ProductPlace& place) {
  const auto env = [](const char* key) -> std::string {
    const char* value = std::getenv(key);
    return value ? value : "";
  };
  const std::string cache = env("XDG_CACHE_HOME"), folder = cache.empty() ? env("HOME") + "/.cache" : cache;
  return folder + "/tandem/algorithms/" + file_name(place.card) + "-" + file_name(place.library) + ".json";
}

}  // namespace tandem::exec::device

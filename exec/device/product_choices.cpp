#include "exec/device/product_choices.hpp"

#include <cctype>
#include <cstdlib>
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

#include "exec/data/batch_reader.hpp"

#include <algorithm>
#include <array>

#include "models/base/error.hpp"

namespace tandem::exec {
namespace {

constexpr std::array<std::string_view, 7> kNames{"tokens", "decoder_tokens", "targets",    "types",
                                                 "labels", "mtp_tokens",     "mtp_targets"};

bool of_modules(Input input) { return input == Input::mtp_tokens || input == Input::mtp_targets; }

/// True if both positions are in one document.
bool together(const Example& e, std::size_t a, std::size_t b) {
  return e.documents.empty() || e.documents[a] == e.documents[b];
}

const std::vector<std::int32_t>& part_of(const Example& e, Input input) {
  if (input == Input::tokens) return e.tokens;
  if (input == Input::decoder_tokens) return e.decoder_tokens;
  return input == Input::targets ? e.targets : e.types;
}

}  // namespace

std::optional<Input> input_of(std::string_view slot) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == slot) return static_cast<Input>(i);
  return std::nullopt;
}

std::vector<std::vector<InputSlot>> input_slots(const TaskGraph& graph) {
  std::vector<std::vector<InputSlot>> all;
  for (const auto& t : graph.templates) {
    auto& mine = all.emplace_back();
    for (std::size_t s = 0; s < t.slots.size(); ++s)
      if (const auto input = input_of(t.slots[s].name)) mine.push_back({s, *input});
  }
  return all;
}

BatchReader::BatchReader(const DataShape& shape, const TokenSource& source, std::int64_t context_rank)
    : shape_(shape), source_(source), context_rank_(context_rank), positions_(shape.context, shape.seq_length / shape.context) {}

std::int64_t BatchReader::positions(Input input) const {
  const bool decoder = shape_.kind == ExampleKind::prefix && (input == Input::decoder_tokens || input == Input::targets);
  return decoder ? shape_.decoder_seq_length : positions_.local_seq;
}

std::int64_t BatchReader::elements(Input input) const {
  const std::int64_t each = input == Input::labels ? 1 : positions(input);
  return shape_.micro_batch_size * each * (of_modules(input) ? shape_.mtp : 1);
}

Example BatchReader::example(std::int64_t sequence) const {
  if (shape_.kind == ExampleKind::prefix)
    return source_.prefix_example(sequence, {shape_.seq_length, shape_.decoder_seq_length});
  if (shape_.kind == ExampleKind::next_token) return source_.next_example(sequence, shape_.seq_length);
  const Masking masking{shape_.seq_length, shape_.masked_positions, shape_.mask_token, shape_.types, shape_.seed};
  Example e = source_.masked_example(sequence, masking);
  const auto size = static_cast<std::size_t>(masking.seq_length);
  require(e.tokens.size() == size && e.targets.size() == size && e.types.size() == size, "an example of another length");
  return e;
}

void BatchReader::fill_further(Input input, std::int64_t first, std::int32_t* out) const {
  const bool asked = input == Input::mtp_targets;
  const std::int64_t here = positions(input), module = shape_.micro_batch_size * here;
  for (std::int64_t s = 0; s < shape_.micro_batch_size; ++s) {
    const Example e = example(first + s);
    const auto& values = asked ? e.targets : e.tokens;
    for (std::int64_t k = 1; k <= shape_.mtp; ++k)
      for (std::int64_t i = 0; i < here; ++i) {
        const auto from = static_cast<std::size_t>(positions_.position(context_rank_, i)), at = from + static_cast<std::size_t>(k);
        const bool read = at < values.size() && together(e, from, at);
        out[(k - 1) * module + s * here + i] = read ? values[at] : asked ? -1 : 0;
      }
  }
}

void BatchReader::fill(Input input, std::int64_t first, std::int32_t* out) const {
  if (of_modules(input)) return fill_further(input, first, out);
  for (std::int64_t s = 0; s < shape_.micro_batch_size; ++s) {
    const Example e = example(first + s);
    if (input == Input::labels) {
      *out++ = context_rank_ == 0 ? e.label : -1;
      continue;
    }
    const auto& values = part_of(e, input);
    for (std::int64_t i = 0; i < positions(input); ++i)
      *out++ = values[static_cast<std::size_t>(positions_.position(context_rank_, i))];
  }
}

std::optional<std::int64_t> BatchReader::targets(std::int64_t first, std::int64_t count) const {
  if (shape_.kind != ExampleKind::next_token) return std::nullopt;
  std::int64_t all = 0;
  for (std::int64_t s = first; s < first + count; ++s) all += source_.targets(s, shape_.seq_length);
  return all;
}

void BatchReader::fill_documents(std::int64_t first, std::int64_t count, std::int32_t* out) const {
  const auto size = static_cast<std::size_t>(shape_.seq_length);
  for (std::int64_t s = first; s < first + count; ++s, out += size) {
    const Example e = example(s);
    require(e.documents.empty() || e.documents.size() == size, "documents of another number of positions");
    if (e.documents.empty()) std::fill_n(out, size, 0);
    else std::copy(e.documents.begin(), e.documents.end(), out);
  }
}

}  // namespace tandem::exec

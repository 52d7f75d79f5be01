#include "experiments/tandem/training/evaluated_data.hpp"

#include <cctype>
#include <string_view>
#include <utility>

#include "exec/data/ordered_windows.hpp"
#include "exec/data/read_once.hpp"
#include "exec/tokenizer/documents.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/input.hpp"
#include "models/base/text.hpp"
#include "models/plan/data_shape.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {
namespace {

/// Whether the file is a text itself: no ids of tokens, no objects.
bool is_text(const std::string& path) {
  return is_regular_file(path) && !path.ends_with(".bin") && !path.ends_with(".idx") && !exec::has_object_lines(path);
}

/// Bytes of a text, and its words: parts between single spaces, without spaces at both ends (as Megatron-LM's
/// tasks/zeroshot_gpt/datasets.py counts them).
class TextCount {
 public:
  explicit TextCount(const std::string& path) {
    InputFile file(path);
    for (std::string_view block = file.block(); !block.empty(); block = file.block())
      for (const char c : block) add(static_cast<unsigned char>(c));
  }
  std::int64_t bytes() const { return bytes_; }
  std::int64_t words() const { return begun_ ? spaces_ + 1 : 0; }

 private:
  void add(unsigned char c) {
    ++bytes_;
    pending_ += begun_ && c == ' ' ? 1 : 0;
    if (std::isspace(c) != 0) return;
    spaces_ += std::exchange(pending_, 0);
    begun_ = true;
  }

  std::int64_t bytes_ = 0, spaces_ = 0, pending_ = 0;  ///< pending: spaces that may stand at the end
  bool begun_ = false;
};

[[noreturn]] void refuse(const DataOptions& options, const std::string& option, std::int64_t value, const std::string& reason) {
  throw ConfigError(Problem{data_name(options), option, std::to_string(value), reason, "leave it out"});
}

void require_cut(const DataOptions& options, const EvaluationCut& cut, const DataShape& shape, bool answers) {
  const bool windows = shape.kind == ExampleKind::next_token && !answers;
  if (cut.stride > 0 && !windows) refuse(options, "--stride", cut.stride, "is for windows of a text, and each sequence stands for itself here");
  if (cut.words > 0 && answers) refuse(options, "--words", cut.words, "is for a whole text, and only answers are predicted here");
  if (cut.words > 0 && shape.kind != ExampleKind::next_token)
    refuse(options, "--words", cut.words, "is for models that predict every word, not BERT or T5");
  if (cut.stride > shape.seq_length)
    throw ConfigError(Problem{"", "--stride", std::to_string(cut.stride), "is more than training.seq_length " + std::to_string(shape.seq_length),
                              "give at most that many, or no --stride"});
}

/// The examples that training makes of a text, for BERT and T5.
std::unique_ptr<exec::TokenSource> examples(const DataOptions& options, const Plan& plan, Texts texts) {
  Data data;
  const std::int64_t each = plan.sequence_tokens(), tokens = texts.all().front().file->count();
  data.training = texts.part({});
  const std::int64_t left = tokens - data.training->sequences() * each;
  if (left > 1) log(data_name(options) + ": its last " + count_text(left) + " tokens fill no sequence and are left out");
  name_mask(options.mask_token, plan, data);
  return exec::read_once(std::move(data.training));
}

}  // namespace

EvaluatedData open_evaluated(const DataOptions& options, const Plan& plan, const EvaluationCut& cut) {
  const DataShape shape = data_shape(plan);
  const bool next = shape.kind == ExampleKind::next_token;
  const std::int64_t each = plan.sequence_tokens();
  const Texts texts = open_texts(options, {each, shape.seed, shape.separate, next, false});
  tell_unused_tokens(texts, options.tokenizer, shape.vocab_size());
  const auto& file = texts.all().front().file;
  const bool answers = texts.have_answers();
  require_cut(options, cut, shape, answers);
  EvaluatedData out;
  if (answers) out.source = exec::read_once(texts.cut(each, false).part({}));
  else if (!next) out.source = examples(options, plan, texts);
  else out.source = exec::open_ordered(file, {each, cut.stride > 0 ? cut.stride : each, shape.separate});
  const std::int64_t batch = shape.global_batch_size, sequences = out.source->sequences();
  out.text = {data_name(options), sequences, each, (sequences + batch - 1) / batch, batch, answers};
  if (next && options.mask_token >= 0) refuse(options, "--mask-token", options.mask_token, "only models of the bert family hide tokens");
  if (!next || answers) return out;
  if (cut.words > 0) out.text.words = cut.words;
  if (!is_text(file->path)) return out;
  const TextCount count(file->path);
  if (cut.words == 0) out.text.words = count.words();
  out.text.bytes = count.bytes();
  return out;
}

}  // namespace tandem::program

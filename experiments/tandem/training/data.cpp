#include "experiments/tandem/training/data.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "exec/data/blend.hpp"
#include "exec/data/document_ends.hpp"
#include "exec/data/named_mask.hpp"
#include "exec/data/separate_windows.hpp"
#include "exec/data/whole_documents.hpp"
#include "exec/tokenizer/chats/answered_text.hpp"
#include "exec/tokenizer/documents.hpp"
#include "exec/tokenizer/formats/read_tokenizer.hpp"
#include "exec/tokenizer/tokenized_text.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/text.hpp"
#include "models/plan/data_shape.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {
namespace {

/// What is missing in a .jsonl file whose documents no token ends.
constexpr const char* kNothingBetween = "its texts follow each other without a token between them";
constexpr const char* kNeverEnds = "its completions end without a token, so the model never learns to end one";

constexpr const char* kMask = "[MASK]";

/// An argument of --data.
struct Named {
  std::string path;
  std::optional<double> weight;
};

/// "0.3:PATH" or a path, which may have colons.
Named named(const std::string& argument) {
  const std::size_t colon = argument.find(':');
  if (colon == std::string::npos || file_exists(argument)) return {argument, std::nullopt};
  double weight = 0;
  const char* const end = argument.data() + colon;
  const auto [stop, error] = std::from_chars(argument.data(), end, weight);
  if (error != std::errc() || stop != end) return {argument, std::nullopt};
  if (!(weight > 0) || !std::isfinite(weight))
    throw ConfigError(Problem{argument, "--data", argument.substr(0, colon), "is no weight: a finite number above 0 is", "for example 0.3:PATH"});
  return {argument.substr(colon + 1), weight};
}

class TextReader {
 public:
  TextReader(const DataOptions& options, const SequenceOptions& sequences) : options_(options), sequences_(sequences) {
    if (options.tokenizer.empty()) return;
    tokenizer_ = exec::read_tokenizer(options.tokenizer);
    for (const std::string& note : tokenizer_->notes()) log(note);
  }

  /// The tokenizer's token that hides others, if it has BERT's.
  std::optional<std::int32_t> mask() const { return tokenizer_ ? tokenizer_->id_of(kMask) : std::nullopt; }

  /// Tokens of the tokenizer's vocabulary; 0 without a tokenizer.
  std::int64_t tokens() const { return tokenizer_ ? tokenizer_->vocab_size() : 0; }

  std::shared_ptr<const exec::TokenFile> read(const std::string& path) {
    const bool lines = exec::has_object_lines(path);
    if (options_.last_word) return read_last_words(path);
    if (tokenizer_ && lines && exec::kind_of_lines(path) != exec::LineKind::text) return read_answers(path);
    if (options_.loss_on == "completion")
      throw ConfigError(Problem{path, "--loss-on", options_.loss_on, "the text has no completions",
                                "give a .jsonl file whose lines have prompt and completion, or messages, and --tokenizer"});
    if (tokenizer_) return exec::read_tokenized(path, *tokenizer_, lines ? end_of_lines(path, kNothingBetween) : std::nullopt);
    if (lines)
      log(path + ": is read as bytes, with the JSON around its texts; --tokenizer reads the texts of its lines");
    return exec::read_token_file(path);
  }

 private:
  /// Documents that a sequence cannot hold lose their beginning.
  std::shared_ptr<const exec::TokenFile> read_last_words(const std::string& path) {
    if (!sequences_.next_tokens)
      throw ConfigError(Problem{path, "--last-word", "", "is for models that predict next tokens, not BERT or T5", "leave it out"});
    if (!exec::has_object_lines(path) || exec::kind_of_lines(path) != exec::LineKind::text)
      throw ConfigError(Problem{path, "--last-word", "", "is for a .jsonl file whose lines have text", "leave it out"});
    const exec::AnswerOptions how{options_.tokenizer, "", false, std::nullopt, true};
    const auto [file, cut] = exec::keep_ends(exec::read_answered(path, *tokenizer_, how), sequences_.tokens + 1);
    if (cut > 0)
      log(path + ": " + count_text(cut) + " of " + count_text(static_cast<std::int64_t>(file->documents.size())) +
          " documents are longer than training.seq_length and lose their beginning");
    return file;
  }

  std::shared_ptr<const exec::TokenFile> read_answers(const std::string& path) {
    if (!sequences_.next_tokens)
      throw ConfigError(Problem{path, "--data", "", "has completions, which models of next tokens are trained on, not BERT or T5", "give a text"});
    if (sequences_.modules)
      throw ConfigError(Problem{path, "--data", "", "has completions, and the targets of MTP modules are not counted apart (model.mtp)",
                                "set model.mtp.num_layers to 0, or give a text"});
    const bool strings = exec::kind_of_lines(path) == exec::LineKind::completion;
    const auto file = exec::read_answered(path, *tokenizer_, {options_.tokenizer, options_.chat_template, options_.loss_on == "all",
                                                              strings ? end_of_lines(path, kNeverEnds) : std::nullopt});
    const auto [cut, unanswered] = exec::unfit_documents(*file, sequences_.tokens);
    const auto all = static_cast<std::int64_t>(file->documents.size());
    const auto some = [&](std::int64_t n) { return path + ": " + count_text(n) + " of " + count_text(all) + (all == 1 ? " document" : " documents"); };
    if (cut > 0) log(some(cut) + (cut == 1 ? " is longer than training.seq_length and is cut" : " are longer than training.seq_length and are cut"));
    if (unanswered > 0)
      log(some(unanswered) + (unanswered == 1 ? " has no completion within training.seq_length and is left out"
                                              : " have no completion within training.seq_length and are left out"));
    return file;
  }

  /// The token that ends a document of a .jsonl file, if the tokenizer names one.
  std::optional<std::int32_t> end_of_lines(const std::string& path, const std::string& without) const {
    const auto token = exec::known_end_of_document(options_.tokenizer, *tokenizer_);
    if (!token) {
      const auto of_model = exec::known_end_id(options_.tokenizer, tokenizer_->vocab_size());
      if (!of_model) log(path + ": " + without + ", as no file beside the tokenizer names eos_token: add it to tokenizer_config.json");
      return of_model;
    }
    const auto id = tokenizer_->id_of(*token);
    if (!id) throw ConfigError(Problem{options_.tokenizer, "eos_token", *token, "is no token of the tokenizer's vocabulary", "name one that is"});
    return id;
  }

  const DataOptions& options_;
  const SequenceOptions& sequences_;
  std::unique_ptr<exec::Tokenizer> tokenizer_;
};

/// Files with answers have whole documents in a sequence; others are cut into windows.
std::unique_ptr<exec::TokenSource> open_source(std::shared_ptr<const exec::TokenFile> file, const SequenceOptions& how,
                                               const exec::TextPart& part) {
  if (file->answers.empty())
    return how.separate ? exec::open_separate(std::move(file), how.tokens, how.seed, part)
                        : exec::open_tokens(std::move(file), how.tokens, how.seed, part);
  return exec::open_documents(std::move(file), {how.tokens, how.seed, how.separate}, part);
}

std::string kind(const exec::TokenFile& file) { return file.holds_bytes() ? "a text of bytes" : "token ids"; }

/// Throws ConfigError if one of the files is a text of bytes and the other holds token ids: numbers that mean other things.
void require_same_tokens(const exec::TokenFile& first, const exec::TokenFile& other, const std::string& option) {
  if (first.holds_bytes() != other.holds_bytes())
    throw ConfigError(Problem{other.path, option, "", "holds " + kind(other) + ", and " + first.path + " " + kind(first),
                              "give a text in the tokens of --data"});
}

/// Without weights a text counts by its length.
double weight_of(const Named& text, const exec::TokenFile& file, bool weighted) {
  if (text.weight.has_value() == weighted) return weighted ? *text.weight : static_cast<double>(file.count());
  throw ConfigError(Problem{text.path, "--data", "", "has no weight, and other texts have one",
                            "give each text a weight, as in 0.3:PATH, or none"});
}

std::vector<Texts::Weighted> read_all(const std::vector<std::string>& arguments, TextReader& reader, bool separate) {
  std::vector<Named> texts;
  bool weighted = false;
  for (const std::string& argument : arguments) {
    texts.push_back(named(argument));
    weighted = weighted || texts.back().weight;
  }
  std::vector<Texts::Weighted> all;
  for (const Named& text : texts) {
    const auto file = reader.read(text.path);
    if (separate && file->documents.size() <= 1 && file->answers.empty())
      log(text.path + ": has no documents that training.documents could keep apart; a .jsonl file and Megatron-LM's .bin have");
    if (!all.empty()) require_same_tokens(*all.front().file, *file, "--data");
    all.push_back({file, weight_of(text, *file, weighted)});
  }
  return all;
}

/// Says how many positions are trained on, where it is not all of them.
void tell_targets(const exec::TokenSource& source, const std::string& name, std::int64_t length) {
  const std::int64_t sequences = source.sequences(), all = sequences * length;
  std::int64_t targets = 0;
  for (std::int64_t i = 0; i < sequences; ++i) targets += source.targets(i, length);
  if (targets == all) return;
  log(name + ": " + sequences_text(source, length) + ", of which " +
      number_text(100 * static_cast<double>(targets) / static_cast<double>(all), 1) + " % are followed by a target");
}

/// Refuses a template where no text holds what it is for.
void require_conversations(const DataOptions& options) {
  if (options.chat_template.empty()) return;
  std::vector<std::string> paths;
  for (const std::string& argument : options.data) paths.push_back(named(argument).path);
  if (!options.evaluation.empty()) paths.push_back(options.evaluation);
  const auto may_have = [](const std::string& path) { return !is_regular_file(path) || exec::has_conversations(path); };
  if (std::none_of(paths.begin(), paths.end(), may_have))
    throw ConfigError(Problem{paths.front(), "--chat-template", options.chat_template, "no line has messages, which alone a template writes",
                              "leave it out, or give a .jsonl file whose lines have messages"});
}

}  // namespace

std::string sequences_text(const exec::TokenSource& source, std::int64_t length) {
  const std::int64_t all = source.sequences();
  return count_text(all) + (all == 1 ? " sequence of " : " sequences of ") + count_text(length) + " tokens";
}

std::string data_name(const DataOptions& options) { return list_text(options.data); }

bool Texts::have_answers() const {
  return std::any_of(texts_.begin(), texts_.end(), [](const Weighted& text) { return !text.file->answers.empty(); });
}

std::unique_ptr<exec::TokenSource> Texts::part(const exec::TextPart& part) const {
  if (texts_.size() == 1) return open_source(texts_.front().file, sequences_, part);
  std::vector<exec::BlendPart> parts;
  for (const Weighted& text : texts_)
    parts.push_back({open_source(text.file, sequences_, part), text.weight});
  return exec::blend(std::move(parts));
}

Texts open_texts(const DataOptions& options, const SequenceOptions& sequences) {
  require_conversations(options);
  TextReader reader(options, sequences);
  return {read_all(options.data, reader, sequences.separate), sequences, reader.tokens()};
}

Data open_data(const DataOptions& options, const SequenceOptions& sequences, double held_out) {
  require_conversations(options);
  TextReader reader(options, sequences);
  Data data;
  data.mask = reader.mask();
  data.texts = Texts(read_all(options.data, reader, sequences.separate), sequences, reader.tokens());
  data.training = data.texts.part({0, 1 - held_out});
  if (sequences.separate || data.texts.have_answers()) tell_targets(*data.training, data_name(options), sequences.tokens);
  if (data.texts.all().size() == 1) data.bigram_entropy = exec::bigram_entropy(*data.texts.all().front().file);
  if (!options.evaluates) return data;
  if (options.evaluation.empty()) {
    data.evaluation = data.texts.part({1 - held_out, 1});
    return data;
  }
  const auto evaluated = reader.read(options.evaluation);
  require_same_tokens(*data.texts.all().front().file, *evaluated, "--eval-data");
  data.evaluation = open_source(evaluated, sequences, {});
  return data;
}

void tell_unused_tokens(const Texts& texts, const std::string& tokenizer, std::int64_t vocabulary) {
  const std::int64_t bytes = 256, tokens = texts.tokenizer_tokens();
  if (tokens > 0 && 10 * tokens < 9 * vocabulary)
    log(tokenizer + ": has " + count_text(tokens) + " tokens, and the model " + count_text(vocabulary) +
        " (model.vocab_size): the others never occur; is it another model's tokenizer?");
  if (vocabulary < 2 * bytes) return;
  for (const Texts::Weighted& text : texts.all()) {
    const std::string& path = text.file->path;
    if (!text.file->holds_bytes() || path.ends_with(".bin") || exec::has_object_lines(path)) continue;
    log(path + ": is read as bytes: " + count_text(bytes) + " of the model's " + count_text(vocabulary) +
        " tokens occur; --tokenizer reads texts as a tokenizer's tokens");
  }
}

void name_mask(std::int64_t mask_token, const Plan& plan, Data& data) {
  const bool of_tokenizer = mask_token < 0 && data.mask && data_shape(plan).kind == ExampleKind::masked;
  if (of_tokenizer) {
    mask_token = *data.mask;
    log(std::string("the tokenizer's ") + kMask + ", " + std::to_string(mask_token) + ", hides tokens; --mask-token names another");
  }
  if (mask_token < 0) return;
  const auto refuse = [&](const std::string& reason, const std::string& remedy) {
    throw ConfigError(Problem{plan.file, "--mask-token", std::to_string(mask_token), reason, remedy});
  };
  const DataShape shape = data_shape(plan);
  const std::int64_t words = shape.vocab_size();
  if (shape.kind != ExampleKind::masked) refuse("only models of the bert family are trained on hidden tokens", "leave it out");
  if (mask_token >= words) refuse("is beyond model.vocab_size " + std::to_string(words), "give a number below it");
  const exec::NamedMask mask{static_cast<std::int32_t>(mask_token), words};
  data.training = exec::with_mask(std::move(data.training), mask);
  if (data.evaluation) data.evaluation = exec::with_mask(std::move(data.evaluation), mask);
}

}  // namespace tandem::program

#include "experiments/tandem/training/data.hpp"

#include <charconv>
#include <cmath>

#include "exec/data/blend.hpp"
#include "exec/tokenizer/tokenized_text.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/text.hpp"

namespace tandem::program {
namespace {

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
  explicit TextReader(std::string tokenizer) : name_(std::move(tokenizer)) {
    if (name_.empty()) return;
    tokenizer_ = exec::read_tokenizer(name_);
    for (const std::string& note : tokenizer_->notes()) log(note);
  }

  std::shared_ptr<const exec::TokenFile> read(const std::string& path) {
    const bool lines = path.ends_with(".jsonl");
    if (tokenizer_) return exec::read_tokenized(path, *tokenizer_, lines ? end_of_lines(path) : std::nullopt);
    if (lines)
      log(path + ": is read as bytes, with the JSON around its texts; --tokenizer reads the field text of its lines");
    return exec::read_token_file(path);
  }

 private:
  /// The token that ends a document of a .jsonl file, if the tokenizer names one.
  std::optional<std::int32_t> end_of_lines(const std::string& path) const {
    const auto token = exec::known_end_of_document(name_);
    if (!token) {
      log(path + ": its texts follow each other without a token between them, as no file beside the tokenizer names eos_token");
      return std::nullopt;
    }
    const auto id = tokenizer_->id_of(*token);
    if (!id) throw ConfigError(Problem{name_, "eos_token", *token, "is no token of the tokenizer's vocabulary", "name one that is"});
    return id;
  }

  std::string name_;
  std::unique_ptr<exec::Tokenizer> tokenizer_;
};

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

std::vector<Texts::Weighted> read_all(const std::vector<std::string>& arguments, TextReader& reader) {
  std::vector<Named> texts;
  bool weighted = false;
  for (const std::string& argument : arguments) {
    texts.push_back(named(argument));
    weighted = weighted || texts.back().weight;
  }
  std::vector<Texts::Weighted> all;
  for (const Named& text : texts) {
    const auto file = reader.read(text.path);
    if (!all.empty()) require_same_tokens(*all.front().file, *file, "--data");
    all.push_back({file, weight_of(text, *file, weighted)});
  }
  return all;
}

}  // namespace

std::string data_name(const DataOptions& options) { return list_text(options.data); }

std::unique_ptr<exec::TokenSource> Texts::part(const exec::TextPart& part) const {
  if (texts_.size() == 1) return exec::open_tokens(texts_.front().file, sequences_.tokens, sequences_.seed, part);
  std::vector<exec::BlendPart> parts;
  for (const Weighted& text : texts_)
    parts.push_back({exec::open_tokens(text.file, sequences_.tokens, sequences_.seed, part), text.weight});
  return exec::blend(std::move(parts));
}

Data open_data(const DataOptions& options, const SequenceOptions& sequences, double held_out) {
  TextReader reader(options.tokenizer);
  Data data;
  data.texts = Texts(read_all(options.data, reader), sequences);
  data.training = data.texts.part({0, 1 - held_out});
  if (data.texts.all().size() == 1) data.bigram_entropy = exec::bigram_entropy(*data.texts.all().front().file);
  if (!options.evaluates) return data;
  if (options.evaluation.empty()) {
    data.evaluation = data.texts.part({1 - held_out, 1});
    return data;
  }
  const auto evaluated = reader.read(options.evaluation);
  require_same_tokens(*data.texts.all().front().file, *evaluated, "--eval-data");
  data.evaluation = exec::open_tokens(evaluated, sequences.tokens, sequences.seed);
  return data;
}

}  // namespace tandem::program

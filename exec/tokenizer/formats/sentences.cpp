#include "exec/tokenizer/formats/sentences.hpp"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "exec/tokenizer/formats/configuration.hpp"
#include "models/base/error.hpp"
#include "models/base/input.hpp"

namespace tandem::exec {
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{512} << 20;

/// Throws ConfigError about a model unless the library was successful. Its message begins with its own source: "a.cc(1) [check] text".
void require_good(const std::string& file, const sentencepiece::util::Status& status) {
  if (status.ok()) return;
  std::string told = status.message();
  if (const std::size_t end = told.rfind("] "); end != std::string::npos) told.erase(0, end + 2);
  throw ConfigError(Problem{file, "--tokenizer", "", "is no model that sentencepiece can read" + (told.empty() ? "" : ": " + told), "copy the file again, or give another"});
}

/// What goes before and behind a text; -1: nothing.
struct BoundaryTokens {
  int begin = -1, end = -1;
};

BoundaryTokens read_boundary_tokens(const std::string& folder, const sentencepiece::SentencePieceProcessor& processor) {
  const TokenizerConfiguration configuration(folder);
  const std::string kind = configuration.require_class({"sentencepiece", "LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer", "T5Tokenizer"});
  const bool t5 = kind == "T5Tokenizer" || (kind == "sentencepiece" && processor.bos_id() < 0);
  const bool begins = configuration.flag("add_bos_token").value_or(!t5), ends = configuration.flag("add_eos_token").value_or(t5);
  return {begins ? processor.bos_id() : -1, ends ? processor.eos_id() : -1};
}

/// Tokens that files beside the model add to its pieces, with their ids. sentencepiece would cut them.
std::map<std::string, std::int32_t, std::less<>> added_to(const std::string& folder,
                                                          const sentencepiece::SentencePieceProcessor& processor) {
  json pieces = json::object();
  for (int id = 0; id < processor.GetPieceSize(); ++id) pieces[processor.IdToPiece(id)] = id;
  std::map<std::string, std::int32_t, std::less<>> out;
  for (const json& token : TokenizerConfiguration(folder).added_tokens(pieces, {})) {
    const auto content = token["content"].get<std::string>();
    if (!pieces.contains(content)) out[content] = token["id"].get<std::int32_t>();
  }
  return out;
}

class Sentences final : public Tokenizer {
 public:
  Sentences(const TokenizerFiles& files, std::unique_ptr<sentencepiece::SentencePieceProcessor> processor)
      : file_(files.file), processor_(std::move(processor)), boundary_(read_boundary_tokens(files.folder, *processor_)),
        added_(added_to(files.folder, *processor_)) {}

  void encode(std::string_view text, bool special, std::vector<std::int32_t>& ids) override {
    require_encodable(text);
    for (const auto& [token, id] : added_)
      if (text.find(token) != std::string_view::npos)
        throw ConfigError(Problem{file_, token, std::to_string(id), "the text has this token, which files beside the model add and sentencepiece cuts",
                                  "give a tokenizer.json: transformers writes one (save_pretrained)"});
    require_good(file_, processor_->Encode(text, &pieces_));
    if (special && boundary_.begin >= 0) ids.push_back(boundary_.begin);
    ids.insert(ids.end(), pieces_.begin(), pieces_.end());
    if (special && boundary_.end >= 0) ids.push_back(boundary_.end);
  }

  std::optional<std::int32_t> id_of(std::string_view token) const override {
    if (const auto added = added_.find(token); added != added_.end()) return added->second;
    const int id = processor_->PieceToId(token);
    return id >= 0 && processor_->IdToPiece(id) == token ? std::optional(id) : std::nullopt;
  }
  std::int64_t vocab_size() const override {
    std::int64_t size = processor_->GetPieceSize();
    for (const auto& [token, id] : added_) size = std::max<std::int64_t>(size, id + 1);
    return size;
  }
  std::vector<std::string> notes() const override {
    const std::string begin = name(boundary_.begin), end = name(boundary_.end);
    if (begin.empty() && end.empty()) return {};
    return {file_ + ": as special tokens, " + (begin.empty() ? "" : begin + " begins") + (begin.empty() || end.empty() ? "" : " and ") + (end.empty() ? "" : end + " ends") +
            " each text; add_bos_token and add_eos_token in tokenizer_config.json beside it change that"};
  }
  std::string end() const override { return name(processor_->eos_id()); }

 private:
  std::string name(int id) const { return id < 0 ? "" : processor_->IdToPiece(id); }

  std::string file_;
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
  BoundaryTokens boundary_;
  std::map<std::string, std::int32_t, std::less<>> added_;
  std::vector<int> pieces_;
};

}  // namespace

std::unique_ptr<Tokenizer> read_sentences(const TokenizerFiles& files) {
  const std::string model = InputFile(files.file).whole(kMostBytes);
  auto processor = std::make_unique<sentencepiece::SentencePieceProcessor>();
  require_good(files.file, processor->LoadFromSerializedProto(model));
  return std::make_unique<Sentences>(files, std::move(processor));
}

}  // namespace tandem::exec

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "exec/data/token_writer.hpp"
#include "exec/tokenizer/documents.hpp"
#include "exec/tokenizer/formats/read_tokenizer.hpp"
#include "experiments/tandem/base/terminal.hpp"
#include "experiments/tandem/commands/commands.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "reports/prediction/text.hpp"

namespace tandem::program {
namespace {

struct Options {
  std::vector<std::string> texts;
  std::string tokenizer, out, eod;
  exec::DocumentOptions documents;
  bool append_eod = false, plain = false, json = false, keyed = false;
};

/// Refuses --key for a file without a JSON object a line, and --split-lines where every file has one.
void require_used(const Options& o) {
  const auto objects = [](const std::string& text) { return file_exists(text) && exec::has_object_lines(text); };
  if (o.documents.lines && std::all_of(o.texts.begin(), o.texts.end(), objects))
    throw ConfigError(Problem{o.texts.front(), "--split-lines", "", "is for texts; each line of this file is a document already", "leave it out"});
  for (const std::string& text : o.texts)
    if (o.keyed && file_exists(text) && !objects(text))
      throw ConfigError(Problem{text, "--key", o.documents.key, "is for a file with a JSON object a line", "give a .jsonl file, or leave --key out"});
}

/// The id that ends each document; nothing without --append-eod.
std::optional<std::int32_t> end_id(const Options& o, const exec::Tokenizer& tokenizer) {
  if (!o.append_eod) return std::nullopt;
  const std::string token = o.eod.empty() ? exec::end_of_document(o.tokenizer, tokenizer) : o.eod;
  const auto id = tokenizer.id_of(token);
  if (!id) throw ConfigError(Problem{o.tokenizer, "--eod", token, "is no token of its vocabulary", "name one: --eod TOKEN"});
  return id;
}

struct Result {
  std::int64_t documents, tokens, bytes, vocab_size;
  int width;
  std::optional<std::int32_t> end;
};

Result tokenize(const Options& o) {
  require_used(o);
  prepare_outputs({o.out + ".bin", o.out + ".idx"}, o.texts);
  const auto tokenizer = exec::read_tokenizer(o.tokenizer);
  for (const std::string& note : tokenizer->notes()) log(note);
  const auto end = end_id(o, *tokenizer);
  const bool appends = end && (o.plain || !exec::ends_each_text(*tokenizer, *end));
  exec::TokenWriter writer(o.out, tokenizer->vocab_size());
  std::int64_t bytes = 0;
  std::vector<std::int32_t> ids;
  for (const std::string& text : o.texts)
    exec::each_document(text, o.documents, [&](std::string_view document) {
      ids.clear();
      tokenizer->encode(document, !o.plain, ids);
      if (appends && !ids.empty()) ids.push_back(*end);
      writer.add_document(ids);
      bytes += static_cast<std::int64_t>(document.size());
    });
  writer.commit();
  return {writer.documents(), writer.tokens(), bytes, tokenizer->vocab_size(), writer.width(), end};
}

double bytes_per_token(const Result& r) {
  return r.tokens == 0 ? 0 : static_cast<double>(r.bytes) / static_cast<double>(r.tokens);
}

std::string to_text(const Options& o, const Result& r) {
  return o.out + ".bin, " + o.out + ".idx: " + count_text(r.documents) + (r.documents == 1 ? " document, " : " documents, ") + count_text(r.tokens) +
         " tokens of " + std::to_string(r.width) + " bytes\n  " + number_text(bytes_per_token(r), 2) + " bytes of text per token; vocabulary " +
         count_text(r.vocab_size) + (r.end ? "; each document ends with token " + std::to_string(*r.end) : "") + "\n";
}

std::string to_json(const Options& o, const Result& r) {
  const nlohmann::ordered_json out{{"bin", o.out + ".bin"},         {"idx", o.out + ".idx"},
                                   {"documents", r.documents},      {"tokens", r.tokens},
                                   {"bytes", r.bytes},              {"bytes_per_token", bytes_per_token(r)},
                                   {"vocab_size", r.vocab_size},    {"dtype", r.width == 2 ? "uint16" : "int32"},
                                   {"eod", r.end ? nlohmann::ordered_json(*r.end) : nlohmann::ordered_json()}};
  return out.dump(2) + "\n";
}

}  // namespace

void add_tokenize(CLI::App& app, ExitCode& exit) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("tokenize", "Turn texts into token ids, as Megatron-LM stores them");
  command->add_option("TEXT", o->texts, "text to read in UTF-8: one document, or with a JSON object a line (.jsonl, .json) a document a line")->required();
  command->add_option("--tokenizer", o->tokenizer, "tokenizer.json, or vocab.json beside merges.txt, vocab.txt, tekken.json, or a .model of sentencepiece or tiktoken; or a folder that has one of them")->type_name("FILE|DIR")->required();
  command->add_option("--out", o->out, "PREFIX of the files to write: PREFIX.bin and PREFIX.idx")->type_name("PREFIX")->required();
  CLI::Option* key = command->add_option("--key", o->documents.key, "field of these objects that holds the text [text]")->type_name("FIELD");
  command->add_flag("--split-lines", o->documents.lines, "each line of other files is a document, without its end");
  CLI::Option* append = command->add_flag("--append-eod", o->append_eod, "end each document that has tokens with the token for it, unless the tokenizer already does");
  command->add_option("--eod", o->eod, "that token [eos_token of the tokenizer_config.json beside the tokenizer, else the format's own]")->type_name("TOKEN")->needs(append);
  command->add_flag("--no-special-tokens", o->plain, "leave out the tokens around a text, such as <s>, [CLS] and [SEP]");
  command->add_flag("--json", o->json, "one JSON object on stdout");
  command->footer("The ids are those of the file's own library. What a tokenizer asks for and this version does not know is refused by name. "
                  "For Megatron-LM's --tokenizer-model or --vocab-file give that file; merges are sought beside it, gpt2-merges.txt beside "
                  "gpt2-vocab.json. Ids take 2 bytes if the vocabulary has fewer than 65,500, else 4. `train --data PREFIX` reads the files.");
  command->callback([o, key, &exit] {
    o->keyed = key->count() > 0;
    const Result result = tokenize(*o);
    o->json ? print_json(to_json(*o, result)) : print(to_text(*o, result));
    exit = ExitCode::ok;
  });
}

}  // namespace tandem::program

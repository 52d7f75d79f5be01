#include "exec/tokenizer/formats/tokenizer_files.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/files.hpp"
#include "models/base/input.hpp"
#include "models/base/text.hpp"

namespace tandem::exec {
namespace {

constexpr const char* kKnown = "tokenizer.json, vocab.json with merges.txt, vocab.txt, tekken.json, or a .model of sentencepiece or tiktoken";

[[noreturn]] void refuse(const std::string& path, const std::string& reason, const std::string& remedy) {
  throw ConfigError(Problem{path, "--tokenizer", "", reason, remedy});
}

std::string folder_of(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  return slash == std::string::npos ? "" : file.substr(0, slash + 1);
}

/// The names that end a vocabulary's file, and its merges' file.
struct Pair {
  std::string_view vocabulary, merges;
};
constexpr Pair kPairs[] = {{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}};

/// "gpt2-vocab.json" is beside "gpt2-merges.txt". Nothing if the file has neither name.
std::optional<TokenizerFiles> pair_of(const std::string& file) {
  for (const auto& [vocabulary, merges] : kPairs)
    for (const std::string_view end : {vocabulary, merges}) {
      if (!file.ends_with(end)) continue;
      const std::string begin = file.substr(0, file.size() - end.size());
      return TokenizerFiles{TokenizerFormat::merges, begin + std::string(vocabulary), begin + std::string(merges), folder_of(file)};
    }
  return std::nullopt;
}

void require_both(const TokenizerFiles& pair) {
  for (const auto& [there, missing] : {std::pair(pair.file, pair.merges), {pair.merges, pair.file}})
    if (!is_regular_file(missing) && file_exists(there))
      refuse(there, "is half of a tokenizer: " + missing + " is not there", "put both files into one folder");
}

/// A line of tiktoken: base64, a space, digits.
bool is_rank(std::string_view line) {
  const std::size_t space = line.find(' ');
  const auto all = [](std::string_view text, const auto& is) { return !text.empty() && std::all_of(text.begin(), text.end(), is); };
  return space != std::string_view::npos &&
         all(line.substr(0, space), [](unsigned char c) { return std::isalnum(c) != 0 || c == '+' || c == '/' || c == '='; }) &&
         all(line.substr(space + 1), [](unsigned char c) { return std::isdigit(c) != 0 || c == '\r'; });
}

/// sentencepiece's file begins with the field `pieces` of its message, number 1; tiktoken's with a rank.
TokenizerFormat format_of_model(const std::string& path) {
  InputFile file(path);
  const std::string head(file.head(512));
  if (head.starts_with('\n')) return TokenizerFormat::sentences;
  if (is_rank(std::string_view(head).substr(0, head.find('\n')))) return TokenizerFormat::ranks;
  if (head.empty()) refuse(path, "is empty", "copy it again");
  if (head.starts_with("version https://git-lfs")) refuse(path, "is a pointer of Git LFS, not the file itself", "fetch it: git lfs pull");
  refuse(path, "is neither a model of sentencepiece nor BPE ranks of tiktoken", "copy it again, or give another file");
}

TokenizerFiles in_file(const std::string& path) {
  if (auto pair = pair_of(path)) {
    require_both(*pair);
    return *pair;
  }
  if (path.ends_with(".model") || path.ends_with(".tiktoken")) return {format_of_model(path), path, "", folder_of(path)};
  if (path.ends_with(".txt")) return {TokenizerFormat::word_pieces, path, "", folder_of(path)};
  if (path.ends_with(".vocab")) refuse(path, "is sentencepiece's list for readers", "give the .model beside it");
  return {TokenizerFormat::json, path, "", folder_of(path)};
}

/// Files of a folder that are one tokenizer each.
std::vector<std::string> candidates(const std::string& folder) {
  std::vector<std::string> out;
  for (const std::string& name : folder_entries(folder).names) {
    const std::string path = folder + name;
    if (!is_regular_file(path)) continue;
    const auto pair = pair_of(path);
    const bool second = pair && path == pair->merges && is_regular_file(pair->file);
    if ((pair && !second) || name.ends_with(".model") || name.ends_with("vocab.txt") || name.ends_with(".tiktoken") || name == "tekken.json")
      out.push_back(path);
  }
  return out;
}

TokenizerFiles in_folder(const std::string& folder) {
  const std::string inside = folder.ends_with('/') ? folder : folder + "/";
  if (is_regular_file(inside + "tokenizer.json")) return in_file(inside + "tokenizer.json");
  const auto found = candidates(inside);
  if (found.empty()) refuse(folder, "has no tokenizer", std::string("known are ") + kKnown);
  if (found.size() > 1) refuse(folder, "has several tokenizers: " + list_text(found), "name one of these files");
  return in_file(found.front());
}

}  // namespace

TokenizerFiles find_tokenizer(const std::string& path) { return is_folder(path) ? in_folder(path) : in_file(path); }

}  // namespace tandem::exec

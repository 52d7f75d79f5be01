#include "exec/tokenizer/tokenized_text.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "exec/tokenizer/documents.hpp"
#include "models/base/error.hpp"
#include "models/base/files.hpp"

namespace tandem::exec {

namespace {

const DocumentOptions kTexts{"text", "give lines with text, with prompt and completion, or with messages (a list of role and content)"};

}  // namespace

std::shared_ptr<const TokenFile> read_tokenized(const std::string& path, Tokenizer& tokenizer, std::optional<std::int32_t> end) {
  const bool ids_already = path.ends_with(".bin") || path.ends_with(".idx") || (!file_exists(path) && file_exists(path + ".bin"));
  if (ids_already) throw ConfigError(Problem{path, "--tokenizer", "", "is for a text, and the data set holds token ids", "leave --tokenizer out"});
  std::vector<std::int32_t> ids;
  const bool ends = end && has_object_lines(path) && !ends_each_text(tokenizer, *end);
  TokenFile file;
  each_document(path, kTexts, [&](std::string_view text) {
    const std::size_t before = ids.size();
    tokenizer.encode(text, true, ids);
    if (ids.size() == before) return;
    if (ends) ids.push_back(*end);
    file.documents.push_back(static_cast<std::int64_t>(before));
  });
  file.path = path, file.type = TokenType::int32;
  file.bytes.resize(ids.size() * sizeof(std::int32_t));
  if (!ids.empty()) std::memcpy(file.bytes.data(), ids.data(), file.bytes.size());
  file.vocab_size = ids.empty() ? 0 : std::int64_t{*std::max_element(ids.begin(), ids.end())} + 1;
  return std::make_shared<const TokenFile>(std::move(file));
}

}  // namespace tandem::exec

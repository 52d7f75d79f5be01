#include "exec/data/document_ends.hpp"

#include <algorithm>

#include "models/base/error.hpp"

namespace tandem::exec {

DocumentEnds keep_ends(std::shared_ptr<const TokenFile> file, std::int64_t longest) {
  require(file->answers.size() == static_cast<std::size_t>(file->count()), "answers of every token");
  DocumentEnds kept;
  TokenFile ends;
  ends.path = file->path, ends.type = file->type, ends.vocab_size = file->vocab_size;
  for (std::size_t d = 0; d < file->documents.size(); ++d) {
    const std::int64_t end = d + 1 < file->documents.size() ? file->documents[d + 1] : file->count();
    const std::int64_t first = std::max(file->documents[d], end - longest);
    kept.cut += first > file->documents[d] ? 1 : 0;
    ends.documents.push_back(static_cast<std::int64_t>(ends.answers.size()));
    ends.bytes += file->stored(first, end);
    ends.answers.insert(ends.answers.end(), file->answers.begin() + first, file->answers.begin() + end);
  }
  kept.file = kept.cut == 0 ? std::move(file) : std::make_shared<const TokenFile>(std::move(ends));
  return kept;
}

}  // namespace tandem::exec

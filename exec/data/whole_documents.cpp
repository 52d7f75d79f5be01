#include "exec/data/whole_documents.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "exec/data/packing.hpp"
#include "exec/data/permutation.hpp"
#include "exec/data/text_range.hpp"
#include "models/base/error.hpp"
#include "models/base/fnv.hpp"

namespace tandem::exec {
namespace {

/// The tokens of a document that a sequence reads: `positions` inputs and one more as the last target.
struct Reading {
  std::int64_t first = 0, positions = 0, targets = 0;
  bool cut = false;
};

/// What sequences of `length` positions read of document `number`.
Reading reading(const TokenFile& file, std::size_t number, std::int64_t length) {
  const std::int64_t first = file.documents[number];
  const std::int64_t end = number + 1 < file.documents.size() ? file.documents[number + 1] : file.count();
  Reading r{first, std::clamp<std::int64_t>(end - first - 1, 0, length), 0, end - first - 1 > length};
  const auto answers = file.answers.begin() + first + 1;
  r.targets = std::count(answers, answers + r.positions, true);
  return r;
}

class WholeDocuments final : public TokenSource {
 public:
  WholeDocuments(std::shared_ptr<const TokenFile> file, const DocumentSequences& how, const TextPart& part)
      : file_(std::move(file)), how_(how) {
    require(how.length >= 1 && file_->answers.size() == static_cast<std::size_t>(file_->count()), "answers of every token");
    const auto range = range_of(static_cast<std::int64_t>(file_->documents.size()), part);
    const auto first = static_cast<std::size_t>(range.first), end = static_cast<std::size_t>(range.second);
    for (std::size_t d = first; d < end; ++d)
      if (const Reading r = reading(*file_, d, how.length); r.targets > 0) documents_.push_back(r);
    const auto token = [&](std::size_t d) { return d < file_->documents.size() ? file_->documents[d] : file_->count(); };
    first_ = token(first), end_ = token(end);
    if (documents_.empty()) refuse(part);
    place();
  }

  std::int64_t vocab_size() const override { return file_->vocab_size; }
  std::int64_t sequences() const override { return static_cast<std::int64_t>(sequences_.size()); }

  std::uint64_t fingerprint() const override {
    std::string text(file_->stored(first_, end_));
    for (std::int64_t i = first_; i < end_; ++i) text += file_->answers[static_cast<std::size_t>(i)] ? '1' : '0';
    return fnv1a(text);
  }

  void sequence(std::int64_t index, std::span<std::int32_t> tokens) const override {
    const Example e = next_example(index, how_.length);
    require(tokens.size() == e.tokens.size() + 1, "a sequence is seq_length + 1 tokens");
    std::copy(e.tokens.begin(), e.tokens.end(), tokens.begin());
    tokens.back() = std::max(e.targets.back(), 0);
  }

  Example next_example(std::int64_t index, std::int64_t seq_length) const override {
    require(seq_length == how_.length, "sequences of another length than their documents were distributed for");
    const auto size = static_cast<std::size_t>(how_.length);
    Example e{std::vector<std::int32_t>(size), std::vector<std::int32_t>(size, -1), std::vector<std::int32_t>(size)};
    if (how_.packed) e.documents.resize(size);
    std::int64_t at = 0;
    for (const std::size_t d : documents_at(index)) at = put(documents_[d], at, e);
    if (how_.packed) std::fill(e.documents.begin() + at, e.documents.end(), static_cast<std::int32_t>(at));
    return e;
  }

  std::int64_t targets(std::int64_t index, std::int64_t) const override {
    std::int64_t all = 0;
    for (const std::size_t d : documents_at(index)) all += documents_[d].targets;
    return all;
  }

 private:
  [[noreturn]] void refuse(const TextPart& part) const {
    throw ConfigError(Problem{file_->path, "data", std::to_string(file_->documents.size()) + " documents",
                              std::string(part.end - part.begin < 1 ? "the part that is read" : "the file") +
                                  " has no completion that begins within training.seq_length",
                              "give more documents, or lengthen training.seq_length"});
  }

  void place() {
    std::vector<std::int64_t> lengths;
    for (const Reading& r : documents_) lengths.push_back(r.positions);
    if (how_.packed) sequences_ = pack(lengths, how_.length);
    else for (std::size_t d = 0; d < documents_.size(); ++d) sequences_.push_back({d});
  }

  const std::vector<std::size_t>& documents_at(std::int64_t index) const {
    return sequences_[static_cast<std::size_t>(shuffled(index, sequences(), how_.seed))];
  }

  /// Writes a document's tokens from position `at` on; returns the position behind them.
  std::int64_t put(const Reading& r, std::int64_t at, Example& e) const {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(r.positions) + 1);
    file_->read(r.first, tokens);
    std::copy(tokens.begin(), tokens.end() - 1, e.tokens.begin() + at);
    for (std::int64_t i = 0; i < r.positions; ++i)
      if (file_->answers[static_cast<std::size_t>(r.first + i + 1)])
        e.targets[static_cast<std::size_t>(at + i)] = tokens[static_cast<std::size_t>(i) + 1];
    if (how_.packed) std::fill_n(e.documents.begin() + at, r.positions, static_cast<std::int32_t>(at));
    return at + r.positions;
  }

  std::shared_ptr<const TokenFile> file_;
  DocumentSequences how_;
  std::int64_t first_ = 0, end_ = 0;  ///< the part's tokens
  std::vector<Reading> documents_;
  std::vector<std::vector<std::size_t>> sequences_;  ///< indices in documents_
};

}  // namespace

UnfitDocuments unfit_documents(const TokenFile& file, std::int64_t length) {
  UnfitDocuments unfit;
  for (std::size_t d = 0; d < file.documents.size(); ++d) {
    const Reading r = reading(file, d, length);
    if (r.targets == 0) ++unfit.unanswered;
    else if (r.cut) ++unfit.cut;
  }
  return unfit;
}

std::unique_ptr<TokenSource> open_documents(std::shared_ptr<const TokenFile> file, const DocumentSequences& how,
                                            const TextPart& part) {
  return std::make_unique<WholeDocuments>(std::move(file), how, part);
}

}  // namespace tandem::exec

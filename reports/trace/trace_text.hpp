#pragma once
// The text of a trace file, plain or compressed by gzip, as a stream.

#include <memory>
#include <streambuf>
#include <string>

#include "models/base/input.hpp"

namespace tandem {

/// Reads a file block by block and decompresses it if it begins with gzip's magic number. A failing read throws ConfigError about
/// `path`: the file cannot be read, its compressed data is damaged or ends early.
class TraceText : public std::streambuf {
 public:
  TraceText(InputFile& file, std::string path);
  ~TraceText() override;

 protected:
  int_type underflow() override;

 private:
  class Inflater;

  InputFile& file_;
  std::string path_;
  std::unique_ptr<Inflater> inflater_;  ///< null for plain text
  std::string plain_;
};

}  // namespace tandem

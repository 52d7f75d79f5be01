#include "reports/trace/trace_text.hpp"

#include <zlib.h>

#include <string_view>
#include <utility>

#include "models/base/error.hpp"

namespace tandem {

namespace {

constexpr std::size_t kBlock = std::size_t{1} << 18;
constexpr int kGzip = 15 + 16;  ///< zlib's window bits, with a gzip header
constexpr std::string_view kMagic = "\x1f\x8b";

}  // namespace

/// gzip's members one after the other, as `gzip` itself reads them.
class TraceText::Inflater {
 public:
  Inflater(InputFile& file, const std::string& path) : file_(file), path_(path) {
    require(inflateInit2(&stream_, kGzip) == Z_OK, "zlib cannot be started");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  /// Fills `out` with the next text; empty at the end.
  void next(std::string& out) {
    out.resize(kBlock);
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(kBlock);
    while (stream_.avail_out > 0 && more()) step();
    out.resize(kBlock - stream_.avail_out);
  }

 private:
  bool more() {
    if (stream_.avail_in > 0) return true;
    block_ = file_.block();
    stream_.next_in = reinterpret_cast<Bytef*>(block_.data());
    stream_.avail_in = static_cast<uInt>(block_.size());
    if (stream_.avail_in == 0 && !ended_) refuse("its compressed data ends early", "copy the file again, or wait until it is written");
    return stream_.avail_in > 0;
  }

  void step() {
    if (ended_) inflateReset(&stream_);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    ended_ = result == Z_STREAM_END;
    if (result != Z_OK && !ended_)
      refuse(std::string("its compressed data is damaged (zlib: ") + (stream_.msg ? stream_.msg : "no message") + ")", "copy the file again");
  }

  [[noreturn]] void refuse(const std::string& reason, const std::string& remedy) const {
    throw ConfigError(Problem{path_, "", "", reason, remedy});
  }

  InputFile& file_;
  const std::string& path_;
  z_stream stream_{};
  std::string block_;
  bool ended_ = false;
};

TraceText::TraceText(InputFile& file, std::string path) : file_(file), path_(std::move(path)) {
  if (file_.head(kMagic.size()) == kMagic) inflater_ = std::make_unique<Inflater>(file_, path_);
}

TraceText::~TraceText() = default;

TraceText::int_type TraceText::underflow() {
  if (inflater_) inflater_->next(plain_);
  else plain_ = file_.block();
  setg(plain_.data(), plain_.data(), plain_.data() + plain_.size());
  return plain_.empty() ? traits_type::eof() : traits_type::to_int_type(plain_.front());
}

}  // namespace tandem

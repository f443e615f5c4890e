#include "sim/render/output_stream.hpp"

#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <string_view>

#include "sim/base/check.hpp"

namespace trainyard {
namespace {

// zlib writes both kinds of file; 'T' writes plain bytes. Level 4 takes half the time of the
// default level for a tenth more bytes on traces. zlib writes no time stamp into the header, so
// equal contents give equal files.
constexpr const char* kCompressed = "wb4";
constexpr const char* kPlain = "wbT";
constexpr unsigned kZlibBuffer = 1 << 17;

gzFile handle(void* stream) { return static_cast<gzFile>(stream); }

}  // namespace

OutputStream::OutputStream(std::filesystem::path file) : name_(std::move(file)), file_(name_) {
  const int descriptor = ::dup(file_.descriptor());  // gzclose closes the descriptor that it got
  stream_ = gzdopen(descriptor, name_.extension() == ".gz" ? kCompressed : kPlain);
  TY_CHECK(stream_ != nullptr, descriptor);
  gzbuffer(handle(stream_), kZlibBuffer);
}

OutputStream::~OutputStream() {
  if (stream_ != nullptr) gzclose(handle(stream_));
}

void OutputStream::write(std::string_view text) {
  buffer_.append(text.data(), text.data() + text.size());
  if (buffer_.size() >= kBufferBytes) flush();
}

void OutputStream::flush() {
  const auto size = static_cast<unsigned>(buffer_.size());
  if (size != 0 && gzwrite(handle(stream_), buffer_.data(), size) != static_cast<int>(size)) {
    file_.fail(errno);
  }
  buffer_.clear();
}

void OutputStream::close() {
  flush();
  if (gzclose(handle(std::exchange(stream_, nullptr))) != Z_OK) file_.fail(errno);
  file_.put_in_place();
}

}  // namespace trainyard

#include "sim/report/output_stream.hpp"

#include <zlib.h>

#include <string_view>
#include <system_error>

#include "sim/base/error.hpp"

namespace trainyard {
namespace {

// zlib writes both kinds: 'T' passes bytes through. Level 4 takes half the time of the default
// level for a tenth more bytes on traces. zlib puts no time stamp in the header, so equal contents
// give equal files.
constexpr const char* kCompressed = "wb4";
constexpr const char* kPlain = "wbT";
constexpr unsigned kZlibBuffer = 1 << 17;

gzFile handle(void* stream) { return static_cast<gzFile>(stream); }

}  // namespace

OutputStream::OutputStream(std::filesystem::path file) : file_(std::move(file)), temporary_(file_) {
  temporary_ += ".tmp";
  std::error_code ignored;  // a folder that cannot be made shows in the failure to open
  if (file_.has_parent_path()) std::filesystem::create_directories(file_.parent_path(), ignored);
  stream_ = gzopen(temporary_.c_str(), file_.extension() == ".gz" ? kCompressed : kPlain);
  if (stream_ == nullptr) fail("cannot be written");
  gzbuffer(handle(stream_), kZlibBuffer);
}

OutputStream::~OutputStream() {
  if (stream_ == nullptr) return;
  gzclose(handle(stream_));
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

void OutputStream::write(std::string_view text) {
  buffer_.append(text.data(), text.data() + text.size());
  if (buffer_.size() >= kBufferBytes) flush();
}

void OutputStream::flush() {
  const auto size = static_cast<unsigned>(buffer_.size());
  if (size != 0 && gzwrite(handle(stream_), buffer_.data(), size) != static_cast<int>(size)) {
    fail("could not be written to its end");
  }
  buffer_.clear();
}

void OutputStream::close() {
  flush();
  if (gzclose(handle(std::exchange(stream_, nullptr))) != Z_OK)
    fail("could not be written to its end");
  std::error_code error;
  std::filesystem::rename(temporary_, file_, error);
  if (error) fail("could not be put in place: " + error.message());
}

void OutputStream::fail(std::string problem) {
  throw InputError(Problem{.file = file_.string(),
                           .pointer = "",
                           .problem = std::move(problem),
                           .hint = "check the folder, its permissions and the free space"});
}

}  // namespace trainyard

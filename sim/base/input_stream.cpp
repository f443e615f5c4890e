#include "sim/base/input_stream.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <streambuf>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"

namespace trainyard {

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18U;

// Opens a file that can be read. A folder opens, too, but reading from it fails.
int opened(const std::filesystem::path& file) {
  refuse_confined(file);
  if (std::filesystem::is_directory(file))
    throw InputError(Problem{file.string(), "", "is a folder", "name a file in it"});
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) return descriptor;
  const bool absent = errno == ENOENT || errno == ENOTDIR;
  throw InputError(Problem{
      file.string(), "",
      absent ? "no such file" : fmt::format("cannot be read: {}", std::strerror(errno)), ""});
}

}  // namespace

// zlib's gzread also reads files that are not compressed.
class InputStream::Buffer final : public std::streambuf {
 public:
  explicit Buffer(std::filesystem::path file) : file_(std::move(file)), bytes_(kPiece) {
    const int descriptor = opened(file_);
    gzip_ = ::gzdopen(descriptor, "rb");
    if (gzip_ == nullptr) {
      ::close(descriptor);
      throw InputError(Problem{file_.string(), "", "cannot be read: out of memory", ""});
    }
    ::gzbuffer(gzip_, static_cast<unsigned>(kPiece));
  }
  ~Buffer() override { ::gzclose(gzip_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

 private:
  int_type underflow() override {
    const int count = ::gzread(gzip_, bytes_.data(), static_cast<unsigned>(bytes_.size()));
    int error = Z_OK;
    const char* text = ::gzerror(gzip_, &error);
    if (count < 0 || (error != Z_OK && error != Z_STREAM_END)) refuse(error, text);
    if (count == 0) return traits_type::eof();
    setg(bytes_.data(), bytes_.data(), bytes_.data() + count);
    return traits_type::to_int_type(*gptr());
  }

  [[noreturn]] void refuse(int error, const char* text) const {
    if (error == Z_ERRNO) {
      throw InputError(Problem{file_.string(), "",
                               fmt::format("cannot be read to its end: {}", std::strerror(errno)),
                               ""});
    }
    throw InputError(Problem{file_.string(), "", fmt::format("is not a whole gzip file: {}", text),
                             "copy or compress it again"});
  }

  std::filesystem::path file_;
  std::vector<char> bytes_;
  gzFile gzip_ = nullptr;
};

// An exception of the buffer must reach the reader, which a stream prevents by default.
InputStream::InputStream(const std::filesystem::path& file)
    : buffer_(std::make_unique<Buffer>(file)), stream_(buffer_.get()) {
  stream_.exceptions(std::ios::badbit);
  note_read(file);
}
InputStream::~InputStream() = default;

std::istream& InputStream::stream() { return stream_; }

}  // namespace trainyard

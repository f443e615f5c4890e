#include "sim/base/files.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include "sim/base/check.hpp"
#include "sim/base/error.hpp"
#include "sim/base/new_file.hpp"

namespace trainyard {

namespace fs = std::filesystem;

namespace {

constexpr int kGzipWindow =
    15 + 16;  // the largest window, in a gzip wrapper (zlib.h, deflateInit2)
constexpr std::size_t kChunk = std::size_t{1} << 16;
// Limits of one file: on disk, and of a source that does not tell its size (gzip, /dev/zero).
constexpr std::size_t kMostBytes = std::size_t{2} << 30;
constexpr std::size_t kMostUntold = std::size_t{1} << 30;

bool is_gzip_name(const fs::path& file) { return file.extension() == ".gz"; }

[[noreturn]] void fail(const fs::path& file, std::string problem, std::string hint = "") {
  throw InputError(Problem{file.string(), "", std::move(problem), std::move(hint)});
}

// zlib counts in 32 bits, so large inputs are handed over piece by piece.
void feed(z_stream& stream, std::string_view& rest) {
  const std::size_t piece = std::min<std::size_t>(rest.size(), std::numeric_limits<uInt>::max());
  // zlib's interface lacks a const; it does not write to its input.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest.data()));
  stream.avail_in = static_cast<uInt>(piece);
  rest.remove_prefix(piece);
}

[[noreturn]] void refuse_size(const fs::path& file, std::size_t most) {
  fail(file, fmt::format("holds more than {} GiB", most >> 30U), "give a smaller file");
}

// Lets the stream work until it has no more output for the input that it was given, or has given
// more than `most` bytes.
template <class Step>
int drain(z_stream& stream, std::string& output, std::size_t most, Step step) {
  char buffer[kChunk];
  int result = Z_OK;
  do {
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = kChunk;
    result = step(stream);
    output.append(buffer, kChunk - stream.avail_out);
  } while (result == Z_OK && stream.avail_out == 0 && output.size() <= most);
  return result;
}

std::string compress(std::string_view contents) {
  z_stream stream{};  // no header is set, so the one written has time stamp 0
  const int ready =
      deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY);
  TY_CHECK(ready == Z_OK, ready);
  std::string output;
  do {
    feed(stream, contents);
    const int flush = contents.empty() ? Z_FINISH : Z_NO_FLUSH;
    drain(stream, output, std::string::npos, [flush](z_stream& s) { return deflate(&s, flush); });
  } while (!contents.empty());
  deflateEnd(&stream);
  return output;
}

// A .gz file may hold several members, one after the other; together they are one content.
std::string decompress(const fs::path& file, std::string_view contents) {
  z_stream stream{};
  TY_CHECK(inflateInit2(&stream, kGzipWindow) == Z_OK);
  std::string output;
  int result = Z_OK;
  while (result == Z_OK || (result == Z_STREAM_END && stream.avail_in + contents.size() > 0)) {
    if (result == Z_STREAM_END) inflateReset(&stream);
    if (stream.avail_in == 0) {
      if (contents.empty()) break;
      feed(stream, contents);
    }
    result =
        drain(stream, output, kMostUntold, [](z_stream& s) { return inflate(&s, Z_NO_FLUSH); });
    if (result == Z_BUF_ERROR) result = Z_OK;  // it only wants more input
    if (output.size() > kMostUntold) break;
  }
  inflateEnd(&stream);
  if (output.size() > kMostUntold) refuse_size(file, kMostUntold);
  if (result != Z_STREAM_END) fail(file, "is not a whole gzip file", "compress it again");
  return output;
}

}  // namespace

std::string read_file(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    fail(file, fmt::format("cannot be read: {}", error.message()));
  if (!fs::exists(status)) fail(file, "no such file");
  if (fs::is_directory(status)) fail(file, "is a folder", "name a file in it");
  std::ifstream in(file, std::ios::binary);
  if (!in) fail(file, fmt::format("cannot be read: {}", std::strerror(errno)));
  const bool told = fs::is_regular_file(status);
  const std::size_t most = told ? kMostBytes : kMostUntold;
  std::string contents;
  if (const auto size = fs::file_size(file, error); told && !error)
    contents.reserve(std::min(size, most));
  char buffer[kChunk];
  while (in.read(buffer, kChunk) || in.gcount() > 0) {
    contents.append(buffer, static_cast<std::size_t>(in.gcount()));
    if (contents.size() > most) refuse_size(file, most);
  }
  if (in.bad()) fail(file, "cannot be read to its end");
  return is_gzip_name(file) ? decompress(file, contents) : contents;
}

void write_file(const fs::path& file, std::string_view contents) {
  NewFile made(file);
  made.write(is_gzip_name(file) ? std::string_view(compress(contents)) : contents);
  made.put_in_place();
}

}  // namespace trainyard

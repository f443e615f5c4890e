// A file that is written piece by piece, for outputs too large to hold in memory. Memory is
// bounded. The stream compresses when the name ends in ".gz". The file appears at its path only
// after close(), so that an interrupted run leaves no partial file (NewFile, sim/base/files.hpp).
//
//    OutputStream out("trace.json.gz");
//    out.print("{},\n", 3);
//    out.close();               // without this call the file is discarded
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "sim/base/files.hpp"

namespace trainyard {

class OutputStream {
 public:
  // Creates missing folders. Throws InputError when the file cannot be written.
  explicit OutputStream(std::filesystem::path file);
  ~OutputStream();
  OutputStream(const OutputStream&) = delete;
  OutputStream& operator=(const OutputStream&) = delete;
  OutputStream(OutputStream&&) = delete;
  OutputStream& operator=(OutputStream&&) = delete;

  template <class... Values>
  void print(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(buffer_), format, std::forward<Values>(values)...);
    if (buffer_.size() >= kBufferBytes) flush();
  }
  void write(std::string_view text);
  void close();

 private:
  static constexpr std::size_t kBufferBytes = 1 << 16;
  void flush();

  std::filesystem::path name_;
  NewFile file_;
  void* stream_ = nullptr;  // zlib's handle; void, so that this header does not include zlib
  fmt::memory_buffer buffer_;
};

}  // namespace trainyard

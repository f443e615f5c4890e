// A file as a stream that is read in pieces, for files too large to hold in memory twice. A file
// that begins as a gzip file is decompressed while it is read, whatever its name.
//
//    InputStream file("trace.json.gz");
//    nlohmann::ordered_json::sax_parse(file.stream(), &handler);
#pragma once

#include <filesystem>
#include <istream>
#include <memory>

namespace trainyard {

class InputStream {
 public:
  // Throws InputError if the file cannot be read.
  explicit InputStream(const std::filesystem::path& file);
  ~InputStream();
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;

  // Reading from it throws InputError where the file cannot be read on, or where its gzip data are
  // damaged or end too early.
  [[nodiscard]] std::istream& stream();

 private:
  class Buffer;
  std::unique_ptr<Buffer> buffer_;
  std::istream stream_;
};

}  // namespace trainyard

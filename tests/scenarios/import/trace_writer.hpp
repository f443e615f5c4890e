// Writes traces with known kernels in the form of the PyTorch profiler, and databases in the form
// of Nsight Systems' export.
//
//    TraceWriter trace;
//    trace.operation("aten::mm", 10, 20, "[[8, 4], [4, 2]]", 1);   // from 10 us, 20 us long, id 1
//    trace.kernel("gemm", 7, 100, 50, R"("External id": 1)");      // stream 7
//    write_file("trace.json", trace.text());
#pragma once

#include <fmt/format.h>
#include <sqlite3.h>

#include <filesystem>
#include <stdexcept>
#include <string>

#include "sim/base/files.hpp"

namespace trainyard::test {

class TraceWriter {
 public:
  void step(int number, double start_us, double length_us) {
    event("user_annotation", fmt::format("ProfilerStep#{}", number), 400, 1, start_us, length_us,
          "");
  }
  // `more` are further arguments.
  void operation(const std::string& name, double start_us, double length_us,
                 const std::string& dims, int id, const std::string& more = "", int thread = 1) {
    std::string arguments = fmt::format(R"("External id": {})", id);
    if (!dims.empty()) arguments += fmt::format(R"(, "Input Dims": {})", dims);
    if (!more.empty()) arguments += ", " + more;
    event("cpu_op", name, 400, thread, start_us, length_us, arguments);
  }
  void kernel(const std::string& name, int stream, double start_us, double length_us,
              const std::string& more = "") {
    event("kernel", name, 0, stream, start_us, length_us,
          fmt::format(R"("device": 0, "stream": {}{}{})", stream, more.empty() ? "" : ", ", more));
  }
  void event(const std::string& category, const std::string& name, int process, int thread,
             double start_us, double length_us, const std::string& arguments) {
    raw(fmt::format(R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": {}, "tid": {}, )"
                    R"("ts": {:.3f}, "dur": {:.3f}, "args": {{{}}}}})",
                    category, name, process, thread, start_us, length_us, arguments));
  }
  void raw(const std::string& event) { events_ += (events_.empty() ? "\n" : ",\n") + event; }
  [[nodiscard]] std::string text(const std::string& head = "") const {
    return R"({"schemaVersion": 1, )" + head + R"("traceEvents": [)" + events_ + "\n]}\n";
  }

 private:
  std::string events_;
};

// Makes a database of a file of SQL statements.
inline std::filesystem::path database_of(const std::string& sql,
                                         const std::filesystem::path& file) {
  std::filesystem::remove(file);
  sqlite3* database = nullptr;
  const bool done =
      sqlite3_open(file.c_str(), &database) == SQLITE_OK &&
      sqlite3_exec(database, ("PRAGMA synchronous = OFF; BEGIN; " + sql + " COMMIT;").c_str(),
                   nullptr, nullptr, nullptr) == SQLITE_OK;
  const std::string problem = done ? "" : sqlite3_errmsg(database);
  sqlite3_close(database);
  if (!done) throw std::runtime_error(problem);
  return file;
}

}  // namespace trainyard::test

#include "scenarios/import/nsys.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "scenarios/import/trace_builder.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/base/letters.hpp"
#include "sim/base/utf8.hpp"

namespace trainyard {

namespace {

constexpr const char* kExport =
    "export it again: nsys export --type sqlite --force-overwrite true report.nsys-rep";
constexpr std::string_view kMagic{"SQLite format 3\0", 16};

// A database that is read only. Hostile files do no harm: no view, trigger or function of theirs is
// run, because only names that are tables are read.
class Database {
 public:
  explicit Database(std::string file) : file_(std::move(file)) {
    sqlite3* opened = nullptr;
    const int result = sqlite3_open_v2(file_.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
    database_.reset(opened);
    if (result != SQLITE_OK) refuse_damaged();
    note_read(file_);
    sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_exec(opened, "PRAGMA cell_size_check = ON", nullptr, nullptr, nullptr);
  }

  [[noreturn]] void refuse(const std::string& problem, const std::string& hint = kExport) const {
    throw InputError(Problem{file_, "", problem, hint});
  }
  [[noreturn]] void refuse_damaged() const {
    refuse(fmt::format("cannot be read as an SQLite database: {}",
                       as_utf8(sqlite3_errmsg(database_.get()))));
  }

  // The columns of a table; none if it is absent, or a view or a virtual table.
  [[nodiscard]] std::set<std::string> columns(const std::string& table) const {
    std::set<std::string> names;
    bool plain = false;
    rows("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = '" + table + "'",
         [&](const auto& row) { plain = !row.text(0).starts_with("CREATE VIRTUAL"); });
    if (plain)
      rows("SELECT name FROM pragma_table_info('" + table + "')",
           [&](const auto& row) { names.insert(std::string(row.text(0))); });
    return names;
  }

  class Row {
   public:
    explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
    [[nodiscard]] std::int64_t integer(int column) const {
      return sqlite3_column_int64(statement_, column);
    }
    [[nodiscard]] std::string_view text(int column) const {
      const auto* bytes = sqlite3_column_text(statement_, column);
      if (bytes == nullptr) return {};
      return {reinterpret_cast<const char*>(bytes),
              static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
    }

   private:
    sqlite3_stmt* statement_;
  };

  // Calls take(row) for each row of the query. Throws InputError where the file is damaged.
  template <class Take>
  void rows(const std::string& query, const Take& take) const {
    sqlite3_stmt* prepared = nullptr;
    const int ready = sqlite3_prepare_v2(database_.get(), query.c_str(), -1, &prepared, nullptr);
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(prepared,
                                                                          sqlite3_finalize);
    if (ready != SQLITE_OK) refuse_damaged();
    int result = SQLITE_OK;
    while ((result = sqlite3_step(prepared)) == SQLITE_ROW) take(Row(prepared));
    if (result != SQLITE_DONE) refuse_damaged();
  }

  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> database_{nullptr, sqlite3_close};
};

// A GPU of a process. Ranks of one node are processes, and usually see each other's devices.
struct DeviceKey {
  std::int64_t process = 0;
  std::int64_t device = 0;
  auto operator<=>(const DeviceKey&) const = default;
};

// Serialised ids of threads begin with that of their process (documentation of the exporter).
constexpr std::uint64_t kProcessPart = 0xFFFFFFFFFF000000;
std::int64_t process_of(std::int64_t global_thread) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(global_thread) & kProcessPart);
}

// "aten::mm, seq = 12, op_id = 34, sizes = [[8, 4], [4, 2]], input_op_ids = [...]".
struct RangeText {
  std::string name = {};
  std::string dims = {};
  std::int64_t sequence = -1;
};

RangeText parsed_range(std::string_view text) {
  RangeText range;
  const std::size_t end = std::min({text.find(", seq = "), text.find(", op_id = "),
                                    text.find(", sizes = "), text.find(", input_op_ids = ")});
  range.name = std::string(text.substr(0, end));
  constexpr std::string_view sequence = ", seq = ";
  if (const auto at = text.find(sequence); at != std::string_view::npos) {
    const std::string digits(text.substr(at + sequence.size(), 20));
    range.sequence = std::strtoll(digits.c_str(), nullptr, 10);
  }
  constexpr std::string_view sizes = ", sizes = ";
  if (const auto at = text.find(sizes); at != std::string_view::npos) {
    const std::string_view rest = text.substr(at + sizes.size());
    range.dims = std::string(rest.substr(0, rest.find(", input_op_ids")));
  }
  return range;
}

// "step 7", "Iteration_12", "iter:3": a word for a step, and its number.
bool marks_step(std::string_view text, const std::string& prefix) {
  if (!prefix.empty()) return text.starts_with(prefix);
  if (text.starts_with("ProfilerStep#")) return true;
  const std::string small = lower_case(text.substr(0, 32));
  for (const std::string_view word : {"iteration", "iter", "train_step", "step"}) {
    if (!small.starts_with(word)) continue;
    const std::string_view rest = std::string_view(small).substr(word.size());
    // The number must be all that follows: "step_scheduler" is no step.
    const std::size_t digit = rest.find_first_not_of(" _#:-");
    return digit != std::string_view::npos &&
           rest.find_first_not_of("0123456789", digit) == std::string_view::npos;
  }
  return false;
}

// The elements of a tensor, from its list of dimensions; 0 for anything else, or too many.
std::int64_t elements_of(const nlohmann::ordered_json& dims) {
  if (!dims.is_array() || dims.empty()) return 0;
  constexpr double most = 1e15;
  double product = 1.0;
  for (const auto& dim : dims) product *= dim.is_number() ? std::abs(dim.get<double>()) : 0.0;
  return product < most ? static_cast<std::int64_t>(product) : 0;
}

// Each GPU of each process has a TraceBuilder. Kernels come first, because they make the builders:
// copies, launches and ranges of a process without kernels are left out. Launches and ranges state
// a thread but no GPU, so all GPUs of their process get them; a kernel finds its own launch by its
// correlation id.
class NsysReader {
 public:
  NsysReader(const std::filesystem::path& file, const NsysOptions& options)
      : data_(file.string()), options_(options) {}

  std::vector<GpuTrace> read() {
    require_tables();
    read_kernels();
    if (devices_.empty())
      data_.refuse("has no kernel in CUPTI_ACTIVITY_KIND_KERNEL",
                   "record CUDA: nsys profile --trace=cuda,nvtx ...");
    read_copies("CUPTI_ACTIVITY_KIND_MEMCPY");
    read_copies("CUPTI_ACTIVITY_KIND_MEMSET");
    read_launches();
    read_ranges();
    read_gpus();
    return finished();
  }

 private:
  using Columns = std::set<std::string>;

  // SQL for a column that only some releases export.
  static std::string if_there(const Columns& columns, const std::string& column) {
    return columns.contains(column) ? "t." + column : "0";
  }

  void require_columns(const std::string& table, const std::vector<std::string>& needed,
                       const std::string& hint) const {
    const Columns columns = data_.columns(table);
    if (columns.empty()) data_.refuse("has no table " + table, hint);
    for (const std::string& column : needed)
      if (!columns.contains(column))
        data_.refuse(fmt::format("has no column {} in {}", column, table),
                     "export it with nsys 2021.5 or later: nsys export --type sqlite "
                     "report.nsys-rep");
  }

  void require_tables() const {
    if (data_.columns("StringIds").empty() && data_.columns("CUPTI_ACTIVITY_KIND_KERNEL").empty()) {
      data_.refuse(
          "is an SQLite database of another program: it has neither StringIds nor "
          "CUPTI_ACTIVITY_KIND_KERNEL",
          "give an export of Nsight Systems: nsys export --type sqlite report.nsys-rep");
    }
    require_columns("StringIds", {"id", "value"}, kExport);
    require_columns(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        {"start", "end", "deviceId", "streamId", "correlationId", "demangledName"},
        "record CUDA and export: nsys profile --trace=cuda,nvtx ..., then nsys export --type "
        "sqlite report.nsys-rep");
  }

  TraceBuilder& builder(const DeviceKey& key) { return devices_[key]; }

  // The time of a row. Throws InputError where it ends before it begins.
  [[nodiscard]] std::int64_t duration(const std::string& table, std::int64_t start,
                                      std::int64_t end) const {
    if (start >= 0 && end >= start) return end - start;
    data_.refuse(fmt::format("{} has a row from {} to {} ns", table, start, end));
  }

  // Correlation ids are unique within a process.
  void read_kernels() {
    const std::string table = "CUPTI_ACTIVITY_KIND_KERNEL";
    const Columns columns = data_.columns(table);
    data_.rows("SELECT t.start, t.end, t.deviceId, t.streamId, t.correlationId, " +
                   if_there(columns, "globalPid") + ", s.value FROM " + table +
                   " t LEFT JOIN StringIds s ON s.id = t.demangledName",
               [&](const auto& row) {
                 TraceBuilder& build = builder({row.integer(5), row.integer(2)});
                 const std::string name = as_utf8(row.text(6));
                 build.add(KernelEvent{
                     .kernel = {.name = build.name(name),
                                .kind = kind_of_kernel(name),
                                .stream = static_cast<std::uint32_t>(row.integer(3)),
                                .start_ns = row.integer(0),
                                .duration_ns = duration(table, row.integer(0), row.integer(1))},
                     .correlation = row.integer(4)});
               });
  }

  // Copies of processes without kernels are left out.
  void read_copies(const std::string& table) {
    const Columns columns = data_.columns(table);
    if (!columns.contains("start") || !columns.contains("end") || !columns.contains("deviceId"))
      return;
    // The names of copyKind, by its number in CUPTI; other kinds are named after the table.
    constexpr std::array<std::string_view, 11> kinds{
        "", "Memcpy HtoD", "Memcpy DtoH", "",           "", "", "",
        "", "Memcpy DtoD", "Memcpy HtoH", "Memcpy PtoP"};
    data_.rows("SELECT t.start, t.end, t.deviceId, " + if_there(columns, "streamId") + ", " +
                   if_there(columns, "correlationId") + ", " + if_there(columns, "globalPid") +
                   ", " + if_there(columns, "bytes") + ", " + if_there(columns, "copyKind") +
                   " FROM " + table + " t",
               [&](const auto& row) {
                 const auto device = devices_.find({row.integer(5), row.integer(2)});
                 if (device == devices_.end()) return;
                 const auto kind = static_cast<std::size_t>(row.integer(7));
                 const bool named = kind < kinds.size() && !kinds[kind].empty();
                 const std::string_view memory =
                     table.ends_with("MEMSET") ? "Memset" : std::string_view("Memcpy");
                 device->second.add(KernelEvent{
                     .kernel = {.name = device->second.name(named ? kinds[kind] : memory),
                                .kind = OperationKind::Copy,
                                .stream = static_cast<std::uint32_t>(row.integer(3)),
                                .start_ns = row.integer(0),
                                .duration_ns = duration(table, row.integer(0), row.integer(1)),
                                .bytes = row.integer(6)},
                     .correlation = row.integer(4)});
               });
  }

  // Calls take(builder) for all GPUs of a process. Without globalPid in the export, the process of
  // a GPU is 0, and the GPU gets the rows of all processes.
  template <class Take>
  void of_process(std::int64_t process, const Take& take) {
    for (auto& [key, build] : devices_)
      if (key.process == process || key.process == 0) take(build);
  }

  void read_launches() {
    const Columns columns = data_.columns("CUPTI_ACTIVITY_KIND_RUNTIME");
    if (!columns.contains("correlationId") || !columns.contains("globalTid")) {
      notes_.emplace_back(
          "the export has no CUPTI_ACTIVITY_KIND_RUNTIME, so no kernel is linked to a NVTX range");
      return;
    }
    data_.rows("SELECT start, globalTid, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME",
               [&](const auto& row) {
                 of_process(process_of(row.integer(1)), [&](TraceBuilder& build) {
                   build.launch(row.integer(2), static_cast<std::uint64_t>(row.integer(1)),
                                row.integer(0));
                 });
               });
  }

  void read_ranges() {
    const Columns columns = data_.columns("NVTX_EVENTS");
    if (!columns.contains("start") || !columns.contains("end") || !columns.contains("globalTid")) {
      notes_.emplace_back("the export has no NVTX_EVENTS: no shapes and no steps are known");
      return;
    }
    // The text of a range is in its row, or in StringIds under an id; so is the payload. Not every
    // export has all of these columns.
    const bool ids = columns.contains("textId");
    const std::string text = ids ? "COALESCE(t.text, s.value)" : "t.text";
    const bool payload_ids = columns.contains("jsonTextId");
    const std::string payload = columns.contains("jsonText")
                                    ? (payload_ids ? "COALESCE(t.jsonText, j.value)" : "t.jsonText")
                                    : (payload_ids ? "j.value" : "NULL");
    data_.rows("SELECT t.start, t.end, t.globalTid, " + text + ", " + payload +
                   " FROM NVTX_EVENTS t" +
                   (ids ? " LEFT JOIN StringIds s ON s.id = t.textId" : "") +
                   (payload_ids ? " LEFT JOIN StringIds j ON j.id = t.jsonTextId" : "") +
                   " WHERE t.end IS NOT NULL AND t.end >= t.start",
               [&](const auto& row) { take_range(row); });
  }

  void take_range(const Database::Row& row) {
    const std::string text = as_utf8(row.text(3));
    const std::int64_t start = row.integer(0);
    const std::int64_t end = row.integer(1);
    if (text.empty()) return;
    const bool step = marks_step(text, options_.step_range);
    const RangeText range = parsed_range(text);
    const auto call = call_of(range, as_utf8(row.text(4)));
    of_process(process_of(row.integer(2)), [&](TraceBuilder& build) {
      if (step) {
        build.step({start, end});
        return;
      }
      OperationEvent added{.name = build.name(range.name),
                           .shape = build.shape(range.dims, "", ""),
                           .lane = static_cast<std::uint64_t>(row.integer(2)),
                           .start_ns = start,
                           .end_ns = end,
                           .sequence = range.sequence};
      if (call) added.call = build.call(*call);
      build.add(added);
    });
  }

  // NCCL's own ranges ("ncclAllReduce") state bytes in their payload, those of PyTorch
  // ("nccl:all_reduce") the sizes of the buffers. NCCL counts the message of one rank.
  static std::optional<TracedCall> call_of(const RangeText& range, const std::string& payload) {
    if (!range.name.starts_with("nccl")) return std::nullopt;
    const auto op = collective_in_name(range.name);
    if (!op) return std::nullopt;
    TracedCall call{.name = range.name, .op = *op, .group = "NCCL"};
    const auto dims = try_parse_json(range.dims).value_or(nullptr);
    if (dims.is_array() && !dims.empty()) {
      call.in_elements = elements_of(dims.front());
      call.bytes_of_one_rank = *op == CollectiveOp::AllGather;
    }
    const auto json = try_parse_json(payload).value_or(nullptr);
    if (!json.is_object()) return call;
    for (const char* key : {"Message size [bytes]", "Bytes"}) {
      const auto found = json.find(key);
      if (found != json.end() && found->is_number_unsigned()) {
        call.bytes = found->get<std::int64_t>();
        call.bytes_of_one_rank = true;
      }
    }
    for (const char* key : {"NCCL communicator ID", "Communicator ID", "comm"}) {
      const auto found = json.find(key);
      if (found != json.end()) call.group = found->dump();
    }
    return call;
  }

  void read_gpus() {
    const Columns columns = data_.columns("TARGET_INFO_GPU");
    if (!columns.contains("id") || !columns.contains("name")) return;
    data_.rows("SELECT t.id, t.name, " + if_there(columns, "smCount") + " FROM TARGET_INFO_GPU t",
               [&](const auto& row) {
                 for (auto& [key, build] : devices_) {
                   if (key.device != row.integer(0)) continue;
                   build.trace().gpu = as_utf8(row.text(1));
                   build.trace().sms = row.integer(2);
                 }
               });
  }

  std::vector<GpuTrace> finished() {
    std::vector<GpuTrace> traces;
    for (auto& [key, build] : devices_) {
      GpuTrace trace = build.finish();
      trace.file = data_.file();
      if (devices_.size() > 1) trace.file += fmt::format(" (GPU {})", key.device);
      trace.software = "Nsight Systems";
      trace.assumptions = notes_;
      traces.push_back(std::move(trace));
    }
    return traces;
  }

  Database data_;
  NsysOptions options_;
  std::map<DeviceKey, TraceBuilder> devices_;
  std::vector<std::string> notes_;
};

}  // namespace

bool is_sqlite(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return false;  // a pipe is read only once
  std::ifstream in(file, std::ios::binary);
  std::array<char, kMagic.size()> begin{};
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return in && std::string_view(begin.data(), begin.size()) == kMagic;
}

std::vector<GpuTrace> read_nsys(const std::filesystem::path& file, const NsysOptions& options) {
  const auto refuse = [&](const std::string& problem) {
    throw InputError(Problem{file.string(), "", problem,
                             "give the export: nsys export --type sqlite report.nsys-rep"});
  };
  if (!std::filesystem::exists(file))
    throw InputError(Problem{file.string(), "", "no such file", ""});
  if (!is_sqlite(file)) {
    const bool report = file.extension() == ".nsys-rep" || file.extension() == ".qdrep";
    refuse(report ? "is a report of Nsight Systems, not its export" : "is no SQLite database");
  }
  return NsysReader(file, options).read();
}

}  // namespace trainyard

#include "sim/nccl/fit/samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "sim/base/csv.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/base/median.hpp"
#include "sim/base/words.hpp"
#include "sim/nccl/node_view.hpp"

namespace trainyard::nccl::fit {

namespace {

using Json = nlohmann::ordered_json;

// A measured machine. Rates are in GB/s of one direction.
struct Platform {
  std::uint32_t sm = 0;
  double nvlink = 0.0;  // GB/s from a GPU to all its peers
  std::uint32_t nvlinks = 1;
  double pcie = 0.0;
  std::uint32_t gpus = 8;
  std::uint32_t used = 8;  // GPUs of a node that take part
  CpuVendor host = CpuVendor::Intel;
  bool mesh = false;
  Settings settings = {};  // release and environment variables of NCCL
  double nic = 0.0;
  std::uint32_t nics = 0;  // of the GPUs that take part
  std::string fabric;
  std::optional<double> rendezvous_bytes = {};
  std::optional<double> inject_bytes = {};
  double weight = 1.0;
  std::string site;
};

std::optional<double> optional_number(const Json& object, const char* key) {
  if (!object.contains(key)) return {};
  return object.at(key).get<double>();
}

// `document` is measured_platforms.json.
Platform platform_of(const Json& entry, const Json& document) {
  const Json& gpu = document.at("gpus").at(entry.at("gpu").get<std::string>());
  const auto name = entry.value("fabric", std::string());
  const Json fabric = document.at("fabrics").value(name, Json::object());
  const auto host = entry.value("host", std::string("intel"));
  const auto gpus = entry.at("gpus").get<std::uint32_t>();
  const auto used = entry.value("used", gpus);
  Settings settings{.version = entry.value("nccl", std::string()),
                    .algo = entry.value("algo", std::string()),
                    .proto = entry.value("proto", std::string())};
  if (entry.contains("min_channels"))
    settings.min_channels = entry.at("min_channels").get<std::int64_t>();
  return {.sm = gpu.at("sm").get<std::uint32_t>(),
          .nvlink = gpu.at("nvlink").get<double>(),
          .nvlinks = gpu.at("nvlinks").get<std::uint32_t>(),
          .pcie = gpu.at("pcie").get<double>(),
          .gpus = gpus,
          .used = used,
          .host = value_of(kCpuVendors, host).value_or(CpuVendor::Intel),
          .mesh = entry.value("mesh", false),
          .settings = std::move(settings),
          .nic = entry.value("nic", 0.0),
          .nics = entry.value("nics", 0U) * used / gpus,
          .fabric = name,
          .rendezvous_bytes = optional_number(fabric, "rendezvous_bytes"),
          .inject_bytes = optional_number(fabric, "inject_bytes"),
          .weight = entry.value("weight", 1.0),
          .site = entry.value("site", std::string())};
}

// The view of one node. In a full mesh, the wires of a GPU are divided among its peers.
NodeView view_of(const Platform& platform, std::uint32_t gpus, bool with_nics) {
  const double peers = platform.mesh ? platform.gpus - 1.0 : 1.0;
  NodeView view =
      switched_node({.gpus = gpus,
                     .sm = platform.sm,
                     .nvlink = platform.nvlink / peers,
                     .nvlinks = std::max(1U, static_cast<std::uint32_t>(platform.nvlinks / peers)),
                     .pcie = platform.pcie});
  view.cpu = platform.host;
  if (platform.mesh) view.scale_up = NodeView::ScaleUp::FullMesh;
  // The NICs are spread evenly over the PCIe switches of the GPUs and over two CPUs. Boards with a
  // full mesh have no such switches: GPUs and NICs are on ports of the CPU.
  if (platform.mesh)
    for (NodeGpu& gpu : view.gpus) gpu.socket = 0;
  for (std::uint32_t i = 0; with_nics && i < platform.nics; ++i)
    view.nics.push_back({.rate = platform.nic,
                         .pcie_switch = platform.mesh ? gpus + i : i * gpus / platform.nics,
                         .socket = platform.mesh ? 0 : 2 * i / platform.nics});
  return view;
}

// Collects samples. Rows of one machine with the same ranks, nodes and release share a
// communicator, so that its graphs are searched once.
class Reader {
 public:
  void add(const std::string& source, const Platform& platform, const MeasuredPoint& row) {
    const auto op = op_of(row.op);
    if (!op || row.bytes <= 0.0 || row.time_us <= 0.0) return;
    const Communicator& communicator = communicator_of(source, platform, row);
    Sample sample{.source = source,
                  .site = platform.site.empty() ? source : platform.site,
                  .op = *op,
                  .bytes = row.bytes,
                  .time_us = row.time_us,
                  .communicator = &communicator,
                  .choice = {},
                  .fabric = communicator.nodes > 1 ? platform.fabric : "",
                  .nic_rate = platform.nic * platform.nics,
                  .nics = platform.nics,
                  .rendezvous_bytes = platform.rendezvous_bytes,
                  .inject_bytes = platform.inject_bytes,
                  .fitted = row.fitted,
                  .weight = platform.weight};
    // NCCL does not tune all_to_all and send_recv, so these have no choice.
    if (*op != CollectiveOp::AllToAll && *op != CollectiveOp::SendRecv)
      sample.choice = choose(communicator, {.op = *op, .bytes = row.bytes});
    made_.rows.push_back(std::move(sample));
  }
  Samples take() { return std::move(made_); }

 private:
  // Finds or makes the communicator of a row. NVLS adds floats only, so it is off for a sum of
  // integers. The number of nodes follows from the ranks where the row does not state it.
  const Communicator& communicator_of(const std::string& source, const Platform& platform,
                                      const MeasuredPoint& row) {
    const bool adds = row.op == "all_reduce" || row.op == "reduce_scatter";
    const bool nvls = row.floats || !adds;
    const std::uint32_t nodes =
        row.nodes > 0 ? row.nodes : (row.ranks + platform.used - 1) / platform.used;
    const std::uint32_t local =
        nodes == 1 ? row.ranks : std::min(platform.used, std::max(row.ranks / nodes, 1U));
    const auto key = std::make_tuple(source, row.ranks, nodes, row.version, nvls);
    if (const auto found = known_.find(key); found != known_.end()) return *found->second;
    // A deque does not move its elements, so the pointers of the samples stay valid.
    Settings settings = platform.settings;
    settings.version = row.version;
    Options options = options_of(settings);
    options.nvls = nvls;
    made_.communicators.push_back(make_communicator(
        {.node = view_of(platform, local, nodes > 1), .ranks = row.ranks, .nodes = nodes},
        options));
    return *known_.emplace(key, &made_.communicators.back()).first->second;
  }

  Samples made_;
  std::map<std::tuple<std::string, std::uint32_t, std::uint32_t, std::string, bool>,
           const Communicator*>
      known_;
};

// The value of the column of GPU counts.
std::uint32_t ranks_of(const CsvTable& table, std::size_t row) {
  return static_cast<std::uint32_t>(table.integer(row, "gpus"));
}

// The points of a table. Repeated points are replaced by their median.
std::vector<MeasuredPoint> points_of_table(const std::filesystem::path& file) {
  std::map<std::tuple<std::string, std::string, std::uint32_t, std::string, double>,
           std::vector<double>>
      repeated;
  const CsvTable table(file);
  for (std::size_t row = 0; row < table.rows(); ++row)
    repeated[{table.text(row, "op"), table.text(row, "dtype"), ranks_of(table, row),
              table.text(row, "nccl_version"), table.number(row, "size_bytes")}]
        .push_back(table.number(row, "time_us"));
  std::vector<MeasuredPoint> points;
  for (const auto& [key, times] : repeated) {
    const auto& [op, type, gpus, version, bytes] = key;
    points.push_back({.op = op,
                      .ranks = gpus,
                      .version = version,
                      .bytes = bytes,
                      .time_us = median(times),
                      .floats = type != "int8"});
  }
  return points;
}

void read_table(const std::filesystem::path& file, const Platform& platform, Reader& reader) {
  for (const MeasuredPoint& point : points_of_table(file))
    reader.add(file.stem().string(), platform, point);
}

// This table contains all_reduce only. Sizes up to kFloorBytes are left out (see the header).
void read_unfitted(const std::filesystem::path& file, const Platform& platform, Reader& reader) {
  constexpr double kFloorBytes = 4.0 * 1048576.0;
  const CsvTable table(file);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const double bytes = table.number(row, "size_bytes");
    if (bytes <= kFloorBytes) continue;
    reader.add(file.stem().string(), platform,
               {.op = "all_reduce",
                .ranks = ranks_of(table, row),
                .version = platform.settings.version,
                .bytes = bytes,
                .time_us = table.number(row, "time_us"),
                .fitted = false});
  }
}

bool is_in_place(const Json& row) { return row.contains("in_place") && row.at("in_place") == true; }

// The time of a row. Logs that were read off a plot have the bus bandwidth only, in GB/s, as
// nccl-tests defines it. Zero if the row has neither.
double time_of(const Json& row, CollectiveOp op, const MeasuredPoint& point) {
  const auto number = [&](const char* key) {
    return row.contains(key) && row.at(key).is_number() ? row.at(key).get<double>() : 0.0;
  };
  if (row.at("time_us").is_number()) return row.at("time_us").get<double>();
  const double bus = number("busbw_GBps");
  if (bus <= 0.0) return 0.0;
  return bus_bandwidth_factor(op, point.ranks) * point.bytes / (1000.0 * bus);
}

// The points of a log: its out-of-placed rows if there are any, otherwise all rows.
std::vector<MeasuredPoint> points_of_log(const std::filesystem::path& file) {
  JsonFile log = JsonFile::read(file);
  const Json& document = log.document();
  const bool both = std::any_of(document.at("rows").begin(), document.at("rows").end(),
                                [](const Json& row) { return !is_in_place(row); });
  std::vector<MeasuredPoint> points;
  for (const Json& row : document.at("rows")) {
    if (both && is_in_place(row)) continue;
    const Json& ranks = row.contains("n_ranks") ? row.at("n_ranks") : document.at("n_ranks");
    const auto op = op_of(row.at("op").get<std::string>());
    if (!ranks.is_number() || !row.at("size_bytes").is_number() || !op) continue;
    MeasuredPoint point{.op = row.at("op").get<std::string>(),
                        .ranks = ranks.get<std::uint32_t>(),
                        .version = {},
                        .bytes = row.at("size_bytes").get<double>()};
    // With NVLink between the nodes, they are one node for NCCL.
    if (row.contains("mnnvl") && row.at("mnnvl") == true) point.nodes = 1;
    point.time_us = time_of(row, *op, point);
    if (point.time_us > 0.0) points.push_back(std::move(point));
  }
  return points;
}

void read_log(const std::filesystem::path& file, const Platform& platform, Reader& reader) {
  for (MeasuredPoint& point : points_of_log(file)) {
    point.version = platform.settings.version;
    reader.add(file.stem().string(), platform, point);
  }
}

// For each part of measured_platforms.json: the reader of its files, and their folder below
// "collectives".
struct Kind {
  const char* part;
  const char* folder;
  const char* extension;
  void (*read)(const std::filesystem::path&, const Platform&, Reader&);
};
constexpr std::array kKinds{Kind{"tables", "", ".csv", read_table},
                            Kind{"unfitted_tables", "", ".csv", read_unfitted},
                            Kind{"logs", "logs", ".json", read_log}};

JsonFile platforms() { return JsonFile::read(data_file("sim/nccl/data", "measured_platforms")); }

const Kind* kind_of(const Json& document, const std::filesystem::path& file) {
  for (const Kind& kind : kKinds)
    if (file.extension() == kind.extension && document.at(kind.part).contains(file.stem().string()))
      return &kind;
  return nullptr;
}

// Reads the user's description of a platform. The permitted words are those of the data file.
Platform described_platform(JsonFile& file, const Json& document) {
  JsonObject root = file.root();
  const auto names = [&document](const char* part) {
    std::vector<std::string> all;
    for (const auto& [name, entry] : document.at(part).items())
      if (name != "source") all.push_back(name);
    return all;
  };
  const Json entry{{"gpu", root.choice("gpu", names("gpus"))},
                   {"gpus", root.integer("gpus", {.least = 1, .most = 1024})},
                   {"nccl", root.text("nccl", Options{}.version)},
                   {"host", root.choice("host", {"intel", "amd", "arm"}, "intel")},
                   {"mesh", root.boolean("mesh", false)},
                   {"nic", root.number("nic", {.fallback = 0.0, .least = 0.0})},
                   {"nics", root.integer("nics", {.fallback = 0, .least = 0, .most = 1024})},
                   {"fabric", root.text("fabric", "")}};
  root.ignore("source");
  root.ignore("description");
  file.finish();
  return platform_of(entry, document);
}

}  // namespace

std::optional<CollectiveOp> op_of(const std::string& name) {
  static const std::map<std::string, CollectiveOp> kNames{
      {"all_reduce", CollectiveOp::AllReduce},
      {"all_gather", CollectiveOp::AllGather},
      {"reduce_scatter", CollectiveOp::ReduceScatter},
      {"alltoall", CollectiveOp::AllToAll},
      {"all_to_all", CollectiveOp::AllToAll},
      {"sendrecv", CollectiveOp::SendRecv},
      {"send_recv", CollectiveOp::SendRecv},
      {"broadcast", CollectiveOp::Broadcast},
      {"reduce", CollectiveOp::Reduce}};
  const auto found = kNames.find(name);
  if (found == kNames.end()) return {};
  return found->second;
}

std::vector<MeasuredPoint> read_points(const std::filesystem::path& file) {
  try {
    return file.extension() == ".csv" ? points_of_table(file) : points_of_log(file);
  } catch (const Json::exception&) {
    throw InputError(Problem{file.string(), "/rows", "is not as measured collectives are written",
                             "each row has op, n_ranks (or the file has it), size_bytes, time_us"});
  }
}

Samples samples_on(JsonFile& platform, const std::string& source,
                   const std::vector<MeasuredPoint>& points) {
  JsonFile known = platforms();
  const Platform described = described_platform(platform, known.document());
  Reader reader;
  for (MeasuredPoint point : points) {
    if (point.ranks < 2) continue;  // a single GPU does not communicate
    if (point.version.empty()) point.version = described.settings.version;
    if ((point.nodes > 1 || point.ranks > described.used) && described.nics == 0)
      throw InputError(Problem{platform.name(), "/nics",
                               fmt::format("is 0, and {} ranks are on several nodes", point.ranks),
                               "give nic (GB/s of one), nics (of a node) and fabric"});
    reader.add(source, described, point);
  }
  return reader.take();
}

Samples read_samples(const std::filesystem::path& collectives) {
  JsonFile file = platforms();
  const Json& document = file.document();
  Reader reader;
  for (const Kind& kind : kKinds)
    for (const auto& [name, entry] : document.at(kind.part).items())
      kind.read(collectives / kind.folder / (name + kind.extension), platform_of(entry, document),
                reader);
  return reader.take();
}

bool is_measured_platform(const std::filesystem::path& file) {
  return kind_of(platforms().document(), file) != nullptr;
}

Samples read_samples_of(const std::filesystem::path& file) {
  JsonFile known = platforms();
  const Json& document = known.document();
  const Kind& kind = *kind_of(document, file);
  Reader reader;
  kind.read(file, platform_of(document.at(kind.part).at(file.stem().string()), document), reader);
  return reader.take();
}

}  // namespace trainyard::nccl::fit

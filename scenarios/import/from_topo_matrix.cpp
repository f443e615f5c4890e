#include "scenarios/import/from_topo_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/pending/disjoint_sets.hpp>
#include <charconv>
#include <map>
#include <ranges>
#include <sstream>
#include <unordered_map>

#include "sim/base/error.hpp"
#include "sim/base/units.hpp"

namespace trainyard {

namespace {

// One row of the matrix.
struct Row {
  std::string name;
  std::vector<std::string> relations;  // to every device of the header
  std::string numa;  // NUMA node, the last of the affinities; empty where there is none
  std::size_t line = 0;
};

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> found;
  for (std::string word; stream >> word;) found.push_back(word);
  return found;
}

bool is_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
}

// Returns whether the word names a device: GPU0, NIC0, mlx5_0 or mlx5.
bool is_device(std::string_view word) {
  if (word.starts_with("GPU") || word.starts_with("NIC")) return is_number(word.substr(3));
  if (!word.starts_with("mlx")) return false;
  word.remove_prefix(3);
  const std::size_t line = word.find('_');
  return is_number(word.substr(0, line)) &&
         (line == std::string_view::npos || is_number(word.substr(line + 1)));
}

// Removes the colour codes of a terminal: ESC, [, numbers and an m.
std::string without_colours(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "\x1b[") == 0) {
      const std::size_t end = text.find_first_not_of("0123456789;", i + 2);
      if (end != std::string::npos && text[end] == 'm') {
        i = end;
        continue;
      }
    }
    plain += text[i];
  }
  return plain;
}

constexpr std::uint32_t kNvLinksMost = 1000;
constexpr std::size_t kDevicesMost = 2048;

// Returns the number of links in "NV18"; 0 where the word does not have this form.
std::uint32_t nvlinks_of(std::string_view relation) {
  if (!relation.starts_with("NV")) return 0;
  std::uint32_t links = 0;
  const char* end = relation.data() + relation.size();
  const auto read = std::from_chars(relation.data() + 2, end, links);
  return read.ec == std::errc() && read.ptr == end && links <= kNvLinksMost ? links : 0;
}

bool is_gpu(const std::string& name) { return name.starts_with("GPU"); }

// Reads the output of `nvidia-smi topo -m`: a header of devices, and one row for each of them.
// Other lines, such as the legend, are skipped.
class Matrix {
 public:
  Matrix(const std::string& text, const MatrixSource& source) : source_(source) {
    std::istringstream stream(without_colours(text));
    std::size_t number = 0;
    for (std::string line; std::getline(stream, line);) read_line(words(line), ++number);
    if (header_.empty())
      refuse(1, "there is no header that names GPU0", "give the output of nvidia-smi topo -m");
    for (const std::string& name : header_)
      if (!seen_[name])
        refuse(header_line_, fmt::format("{} has no row of its own", name),
               "give the whole output of nvidia-smi topo -m");
  }

  const std::vector<Row>& rows() const { return rows_; }
  [[noreturn]] void refuse(std::size_t line, std::string problem, std::string hint) const {
    throw InputError(
        Problem{source_.file, fmt::format("line {}", line), std::move(problem), std::move(hint)});
  }

 private:
  // The devices end where the affinities begin: "CPU Affinity", "NUMA Affinity", "GPU NUMA ID". Old
  // releases name NICs by any driver's name (mlx5_bond_0, irdma1); without affinities only usual
  // names count.
  void read_header(const std::vector<std::string>& line) {
    const auto end = std::ranges::find_if(line, [](const std::string& word) {
      return word == "CPU" || word == "NUMA" || word == "GPU";
    });
    for (auto word = line.begin(); word != end; ++word) {
      if (end == line.end() && !is_device(*word)) break;
      header_.push_back(*word);
      seen_.emplace(*word, false);
    }
  }

  void read_line(const std::vector<std::string>& line, std::size_t number) {
    if (line.empty()) return;
    if (header_.empty()) {
      if (line.front() != "GPU0") return;
      header_line_ = number;
      read_header(line);
      if (header_.size() > kDevicesMost)
        refuse(number, fmt::format("there are {} GPUs and NICs", header_.size()),
               fmt::format("a node has at most {}", kDevicesMost));
      return;
    }
    const auto seen = seen_.find(line.front());
    if (seen == seen_.end() || seen->second) return;
    seen->second = true;
    Row row{.name = line.front(), .relations = {}, .numa = {}, .line = number};
    for (std::size_t i = 0; i < header_.size(); ++i) {
      if (i + 1 >= line.size())
        refuse(number,
               fmt::format("{} has {} columns, the header {}", row.name, line.size() - 1,
                           header_.size()),
               "give the whole output of nvidia-smi topo -m");
      row.relations.push_back(line[i + 1]);
      check(row, i);
    }
    // After the name and the devices come the CPU affinity and the NUMA node.
    if (line.size() > header_.size() + 2 && line[header_.size() + 2] != "N/A")
      row.numa = line[header_.size() + 2];
    rows_.push_back(std::move(row));
  }

  // Refuses a relation that the import does not understand, instead of leaving out a link.
  void check(const Row& row, std::size_t column) const {
    constexpr std::array<std::string_view, 6> kKnown = {"X", "PIX", "PXB", "PHB", "NODE", "SYS"};
    const std::string& relation = row.relations[column];
    if (std::ranges::find(kKnown, relation) != kKnown.end() || nvlinks_of(relation) > 0) return;
    refuse(row.line, fmt::format("{} to {} is \"{}\"", row.name, header_[column], relation),
           "known are X, NV#, PIX, PXB, PHB, NODE and SYS (MIG instances are not GPUs here)");
  }

  MatrixSource source_;
  std::vector<std::string> header_;
  std::unordered_map<std::string, bool> seen_;  // by name: whether its row has been read
  std::size_t header_line_ = 0;
  std::vector<Row> rows_;
};

using RowSets = boost::disjoint_sets_with_storage<>;

// Returns the connected components of the relations in `joining`.
RowSets sets_of(const std::vector<Row>& rows, const std::vector<std::string>& joining) {
  RowSets sets(rows.size());
  for (std::size_t a = 0; a < rows.size(); ++a)
    for (std::size_t b = 0; b < rows.size(); ++b)
      if (std::ranges::find(joining, rows[a].relations[b]) != joining.end()) sets.union_set(a, b);
  return sets;
}

// Returns for each row the first row of its set.
std::vector<std::size_t> firsts(RowSets sets, std::size_t rows) {
  const auto all = std::views::iota(std::size_t{0}, rows);
  sets.compress_sets(all.begin(), all.end());
  sets.normalize_sets(all.begin(), all.end());
  return sets.parents();
}

// Builds the node: NVLinks first, then PCIe switches, CPUs and sockets from the relations.
class Builder {
 public:
  Builder(const Matrix& matrix, const MatrixSource& source)
      : rows_(matrix.rows()), like_(node_with_gpu(source.gpu, source.file)), nic_(source.nic) {
    node_.gpu = like_.gpu;
    node_.file = source.file;
  }

  ImportedNode build() {
    for (const Row& row : rows_) {
      const bool gpu = is_gpu(row.name);
      const std::size_t number = gpu ? gpus_++ : node_.ports.size();
      node_.parts.push_back({.kind = gpu ? DeviceKind::Gpu : DeviceKind::Nic,
                             .name = fmt::format("{} {}", gpu ? "gpu" : "nic", number)});
      if (!gpu)
        node_.ports.push_back(usable_nic_rate(nic_.value_or(like_.nic_nominal), like_).value());
    }
    join_nvlinks();
    join_host();
    list_assumptions();
    return std::move(node_);
  }

 private:
  void list_assumptions() {
    std::vector<std::string>& all = node_.assumed;
    all.push_back(fmt::format(
        "the file has no rates: those of {} hold (NVLink {} a link, PCIe {}, between CPUs {})",
        like_.name, to_text(nvlink_rate()), to_text(like_.pcie), to_text(like_.socket)));
    if (!node_.ports.empty()) {
      all.push_back(
          fmt::format("all {} NICs join the fabric at {}{}, {} of it usable", node_.ports.size(),
                      nic_rate_text(nic_.value_or(like_.nic_nominal)),
                      nic_ ? "" : fmt::format(" as in {} (--nic names another rate)", like_.name),
                      to_text(BytesPerSecond{node_.ports.front()})));
    }
    if (joined_gpus_ && gpus_ < like_.gpus) {
      all.push_back(fmt::format(
          "NVLink joins the {} GPUs of this file only; a {} has {} in one NVLink domain{}", gpus_,
          like_.name, like_.gpus,
          gpus_per_server(like_) < like_.gpus
              ? fmt::format(": for the whole of it use \"node\": \"{}\"", like_.name)
              : ""));
    }
  }

  static std::uint32_t gpus_per_server(const NodeSpec& node) {
    return node.gpus_per_cpu * node.cpus_per_host;
  }

  [[nodiscard]] BytesPerSecond nvlink_rate() const {
    return like_.nvlink / std::max(like_.nvlinks, 1U);
  }

  std::size_t add(DeviceKind kind, std::string name) {
    node_.parts.push_back({.kind = kind, .name = std::move(name)});
    return node_.parts.size() - 1;
  }

  void join_nvlinks() {
    // The matrix has no rates, so they are those of the node type with the same GPU.
    const BytesPerSecond each = nvlink_rate();
    std::optional<std::size_t> hub;
    for (std::size_t a = 0; a < rows_.size(); ++a) {
      std::uint32_t all = 0;
      std::uint32_t most = 0;
      std::vector<std::uint32_t> to(rows_.size(), 0);
      for (std::size_t b = 0; b < rows_.size(); ++b) {
        to[b] = nvlinks_of(rows_[a].relations[b]);
        all += to[b];
        most = std::max(most, to[b]);
      }
      joined_gpus_ = joined_gpus_ || all > 0;
      // A row with more links than a GPU has: the GPU is connected to an NVSwitch, over which all
      // its links reach every peer. NV18 to 7 peers add up to 126, and an H100 has 18.
      const bool switched = all > std::max(like_.nvlinks, 1U);
      if (switched && !hub) hub = add(DeviceKind::NvSwitch, "nvswitch 0");
      if (switched) wire(a, *hub, LinkKind::NvLink, each * most, most);
      for (std::size_t b = a + 1; b < to.size() && !switched; ++b)
        if (to[b] > 0) wire(a, b, LinkKind::NvLink, each * to[b], to[b]);
    }
  }

  // Adds a PCIe switch for devices that share one, and a CPU for devices whose path crosses no
  // socket.
  void join_host() {
    const std::vector<std::size_t> switch_of = firsts(sets_of(rows_, {"PIX", "PXB"}), rows_.size());
    RowSets cpu_set = sets_of(rows_, {"PIX", "PXB", "PHB", "NODE"});
    std::map<std::string, std::size_t> first_gpu;  // by NUMA node
    // The matrix shows NVLink instead of the PCIe path between GPUs, so GPUs of one NUMA node get
    // the same CPU.
    for (std::size_t row = 0; row < rows_.size(); ++row)
      if (!rows_[row].numa.empty() && is_gpu(rows_[row].name))
        cpu_set.union_set(first_gpu.try_emplace(rows_[row].numa, row).first->second, row);
    const std::vector<std::size_t> cpu_of = firsts(std::move(cpu_set), rows_.size());
    std::map<std::size_t, std::size_t> sharers;  // number of rows, by switch
    for (std::size_t row = 0; row < rows_.size(); ++row) ++sharers[switch_of[row]];
    std::map<std::size_t, std::size_t> cpus;
    std::map<std::size_t, std::size_t> switches;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const auto [cpu, new_cpu] = cpus.try_emplace(cpu_of[row]);
      if (new_cpu) cpu->second = add(DeviceKind::Cpu, fmt::format("cpu {}", cpus.size() - 1));
      std::size_t above = cpu->second;
      if (sharers[switch_of[row]] > 1) {
        const auto [hub, new_hub] = switches.try_emplace(switch_of[row]);
        if (new_hub) {
          hub->second =
              add(DeviceKind::PcieSwitch, fmt::format("pcie switch {}", switches.size() - 1));
          wire(hub->second, above, LinkKind::Pcie, like_.pcie);
        }
        above = hub->second;
      }
      // A superchip's GPU is joined to its CPU chip to chip, beside PCIe switches for its NICs.
      const bool superchip =
          is_gpu(rows_[row].name) && above == cpu->second && like_.chip_to_chip.value() > 0.0;
      if (superchip)
        wire(row, above, LinkKind::ChipToChip, like_.chip_to_chip);
      else
        wire(row, above, LinkKind::Pcie, like_.pcie);
    }
    for (auto a = cpus.begin(); a != cpus.end(); ++a)
      for (auto b = std::next(a); b != cpus.end(); ++b)
        wire(a->second, b->second, LinkKind::Socket, like_.socket);
  }

  void wire(std::size_t from, std::size_t to, LinkKind kind, BytesPerSecond rate,
            std::uint32_t cables = 1) {
    node_.wires.push_back(
        {.from = from, .to = to, .kind = kind, .capacity = rate, .cables = cables});
  }

  const std::vector<Row>& rows_;
  NodeSpec like_;
  std::optional<BytesPerSecond> nic_;
  ImportedNode node_;
  std::size_t gpus_ = 0;
  bool joined_gpus_ = false;  // by NVLink
};

}  // namespace

ImportedNode from_topo_matrix(const std::string& text, const MatrixSource& source) {
  const Matrix matrix(text, source);
  return Builder(matrix, source).build();
}

}  // namespace trainyard

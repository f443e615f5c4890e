#include "topologies/from_topo_matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <regex>
#include <sstream>

#include "sim/base/error.hpp"

namespace trainyard {

namespace {

struct Row {
  std::string name;
  std::vector<std::string> relations;  // to every device of the header
  std::string numa;                    // what stands last among the affinities, if anything
  std::size_t line = 0;
};

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> found;
  for (std::string word; stream >> word;) found.push_back(word);
  return found;
}

bool is_device(const std::string& word) {
  static const std::regex pattern("(GPU|NIC|mlx[0-9]_|mlx)[0-9]+|mlx[0-9]+_[0-9]+");
  return std::regex_match(word, pattern);
}

bool is_gpu(const std::string& name) { return name.starts_with("GPU"); }

class Matrix {
 public:
  Matrix(const std::string& text, const MatrixSource& source) : source_(source) {
    static const std::regex colours("\x1b\\[[0-9;]*m");
    std::istringstream stream(std::regex_replace(text, colours, ""));
    std::size_t number = 0;
    for (std::string line; std::getline(stream, line);) read_line(words(line), ++number);
    if (header_.empty())
      refuse(1, "there is no header that names GPU0", "give the output of nvidia-smi topo -m");
    for (const std::string& name : header_)
      if (std::ranges::none_of(rows_, [&](const Row& row) { return row.name == name; }))
        refuse(header_line_, fmt::format("{} has no row of its own", name),
               "give the whole output of nvidia-smi topo -m");
  }

  const std::vector<Row>& rows() const { return rows_; }
  [[noreturn]] void refuse(std::size_t line, std::string problem, std::string hint) const {
    throw InputError(
        Problem{source_.file, fmt::format("line {}", line), std::move(problem), std::move(hint)});
  }

 private:
  void read_line(const std::vector<std::string>& line, std::size_t number) {
    if (line.empty()) return;
    if (header_.empty()) {
      if (line.front() != "GPU0") return;
      header_line_ = number;
      for (const std::string& word : line) {
        if (!is_device(word)) break;
        header_.push_back(word);
      }
      return;
    }
    if (std::ranges::find(header_, line.front()) == header_.end()) return;
    if (std::ranges::any_of(rows_, [&](const Row& row) { return row.name == line.front(); }))
      return;
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
    if (line.size() > header_.size() + 2) row.numa = line[header_.size() + 2];
    rows_.push_back(std::move(row));
  }

  void check(const Row& row, std::size_t column) const {
    static const std::regex known("X|NV[0-9]+|PIX|PXB|PHB|NODE|SYS");
    if (std::regex_match(row.relations[column], known)) return;
    refuse(row.line,
           fmt::format("{} to {} is \"{}\"", row.name, header_[column], row.relations[column]),
           "known are X, NV#, PIX, PXB, PHB, NODE and SYS (MIG instances are not GPUs here)");
  }

  MatrixSource source_;
  std::vector<std::string> header_;
  std::size_t header_line_ = 0;
  std::vector<Row> rows_;
};

// Numbers the sets of rows that some relations join; rows in order.
std::vector<std::size_t> sets_of(const std::vector<Row>& rows,
                                 const std::vector<std::string>& joining) {
  std::vector<std::size_t> set(rows.size());
  std::iota(set.begin(), set.end(), std::size_t{0});
  for (std::size_t a = 0; a < rows.size(); ++a) {
    for (std::size_t b = 0; b < rows.size(); ++b) {
      if (std::ranges::find(joining, rows[a].relations[b]) == joining.end()) continue;
      const std::size_t old = std::max(set[a], set[b]);
      const std::size_t least = std::min(set[a], set[b]);
      std::ranges::replace(set, old, least);
    }
  }
  return set;
}

class Builder {
 public:
  Builder(const Matrix& matrix, const MatrixSource& source)
      : rows_(matrix.rows()), like_(node_with_gpu(source.gpu, source.file)) {
    node_.gpu = source.gpu;
    node_.file = source.file;
  }

  ImportedNode build() {
    for (const Row& row : rows_) {
      const bool gpu = is_gpu(row.name);
      const std::size_t number = gpu ? gpus_++ : node_.ports.size();
      node_.parts.push_back({.kind = gpu ? DeviceKind::Gpu : DeviceKind::Nic,
                             .name = fmt::format("{} {}", gpu ? "gpu" : "nic", number)});
      if (!gpu) node_.ports.push_back(like_.nic.value());
    }
    join_nvlinks();
    join_host();
    return std::move(node_);
  }

 private:
  std::size_t add(DeviceKind kind, std::string name) {
    node_.parts.push_back({.kind = kind, .name = std::move(name)});
    return node_.parts.size() - 1;
  }

  void join_nvlinks() {
    const BytesPerSecond each = like_.nvlink / std::max(like_.nvlinks, 1U);
    std::optional<std::size_t> hub;
    for (std::size_t a = 0; a < rows_.size(); ++a) {
      std::uint32_t all = 0;
      std::uint32_t most = 0;
      std::vector<std::uint32_t> to(rows_.size(), 0);
      for (std::size_t b = 0; b < rows_.size(); ++b) {
        if (!rows_[a].relations[b].starts_with("NV")) continue;
        to[b] = static_cast<std::uint32_t>(std::stoul(rows_[a].relations[b].substr(2)));
        all += to[b];
        most = std::max(most, to[b]);
      }
      const bool switched = all > std::max(like_.nvlinks, 1U);  // more than a GPU has
      if (switched && !hub) hub = add(DeviceKind::NvSwitch, "nvswitch 0");
      if (switched) wire(a, *hub, LinkKind::NvLink, each * most, most);
      for (std::size_t b = a + 1; b < to.size() && !switched; ++b)
        if (to[b] > 0) wire(a, b, LinkKind::NvLink, each * to[b], to[b]);
    }
  }

  // A switch for what shares one, a CPU for what does not cross sockets.
  void join_host() {
    const std::vector<std::size_t> switch_set = sets_of(rows_, {"PIX", "PXB"});
    std::vector<std::size_t> cpu_set = sets_of(rows_, {"PIX", "PXB", "PHB", "NODE"});
    for (std::size_t a = 0; a < rows_.size(); ++a)  // NVLink hides how GPUs are joined otherwise
      for (std::size_t b = 0; b < a; ++b)
        if (!rows_[a].numa.empty() && rows_[a].numa == rows_[b].numa && is_gpu(rows_[a].name) &&
            is_gpu(rows_[b].name))
          std::ranges::replace(cpu_set, std::max(cpu_set[a], cpu_set[b]),
                               std::min(cpu_set[a], cpu_set[b]));
    std::map<std::size_t, std::size_t> cpus;
    std::map<std::size_t, std::size_t> switches;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      const auto [cpu, new_cpu] = cpus.try_emplace(cpu_set[row]);
      if (new_cpu) cpu->second = add(DeviceKind::Cpu, fmt::format("cpu {}", cpus.size() - 1));
      std::size_t above = cpu->second;
      if (std::ranges::count(switch_set, switch_set[row]) > 1) {
        const auto [hub, new_hub] = switches.try_emplace(switch_set[row]);
        if (new_hub) {
          hub->second =
              add(DeviceKind::PcieSwitch, fmt::format("pcie switch {}", switches.size() - 1));
          wire(hub->second, above, LinkKind::Pcie, like_.pcie);
        }
        above = hub->second;
      }
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
  ImportedNode node_;
  std::size_t gpus_ = 0;
};

}  // namespace

ImportedNode from_topo_matrix(const std::string& text, const MatrixSource& source) {
  const Matrix matrix(text, source);
  return Builder(matrix, source).build();
}

}  // namespace trainyard

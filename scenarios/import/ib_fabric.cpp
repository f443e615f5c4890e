#include "scenarios/import/ib_fabric.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "sim/base/error.hpp"

namespace trainyard {

namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr std::uint32_t kPortsMost = 4096;  // of one device
constexpr double kBitsOfGiga = 1e9 / 8.0;   // bytes

[[noreturn]] void refuse_line(const std::string& file, std::size_t line, std::string problem,
                              std::string hint) {
  throw InputError(
      Problem{file, fmt::format("line {}", line), std::move(problem), std::move(hint)});
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Returns the number at the beginning of the text and removes it; nothing where there is none.
template <class Number>
std::optional<Number> take_number(std::string_view& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// Removes blanks from the beginning of the text, and then `mark`, if it is there. With an empty
// mark it removes blanks only.
bool take(std::string_view& text, std::string_view mark) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  if (!text.starts_with(mark)) return false;
  text.remove_prefix(mark.size());
  return true;
}

// Removes "[7]" or "[ 7]" from the beginning of the text.
std::optional<std::uint32_t> take_port(std::string_view& text) {
  std::string_view rest = text;
  if (!take(rest, "[")) return {};
  const auto port = take_number<std::uint32_t>(rest);
  if (!port || *port > kPortsMost || !take(rest, "]")) return {};
  text = rest;
  return port;
}

// Returns the text between the first and the last quote: a name may itself hold quotes. Removes all
// of it.
std::optional<std::string_view> take_quoted(std::string_view& text, bool to_last) {
  const std::size_t begin = text.find('"');
  if (begin == std::string_view::npos) return {};
  const std::size_t end = to_last ? text.rfind('"') : text.find('"', begin + 1);
  if (end == std::string_view::npos || end == begin) return {};
  const std::string_view inner = text.substr(begin + 1, end - begin - 1);
  text.remove_prefix(end + 1);
  return inner;
}

// The data rate of a lane in Gb/s, by its name and by the signalling rate that iblinkinfo prints.
struct LaneRate {
  std::string_view name;
  double signalled;
  double data;
};
constexpr std::array<LaneRate, 9> kLaneRates = {{{"SDR", 2.5, 2.0},
                                                 {"DDR", 5.0, 4.0},
                                                 {"QDR", 10.0, 8.0},
                                                 {"FDR10", 10.3125, 10.0},
                                                 {"FDR", 14.0625, 14.0625 * 64.0 / 66.0},
                                                 {"EDR", 25.78125, 25.0},
                                                 {"HDR", 53.125, 50.0},
                                                 {"NDR", 106.25, 100.0},
                                                 {"XDR", 212.5, 200.0}}};

// Collects devices and cables. Both tools list a cable once at each of its ends, so the ends are
// put in order, and the second listing of a cable adds nothing. A port leads to one peer only.
class Collector {
 public:
  explicit Collector(const std::string& file) { fabric_.file = file; }

  std::size_t device(const std::string& key, bool is_switch, std::string_view name) {
    const auto [found, is_new] = numbers_.try_emplace(key, fabric_.devices.size());
    if (is_new)
      fabric_.devices.push_back({.is_switch = is_switch, .name = {}, .key = key, .ports = 1});
    IbDevice& device = fabric_.devices[found->second];
    device.is_switch = device.is_switch || is_switch;
    if (device.name.empty()) device.name = name;
    return found->second;
  }

  void cable(IbCable::End a, IbCable::End b, BytesPerSecond rate, std::size_t line) {
    if (a > b) std::swap(a, b);
    const bool first_a = note_end(a, b, line);
    const bool first_b = note_end(b, a, line);
    if (!first_a || !first_b) return;
    fabric_.cables.push_back({.a = a, .b = b, .rate = rate, .line = line});
  }

  void ports_of(std::size_t device, std::uint32_t ports) {
    fabric_.devices[device].ports = std::max(fabric_.devices[device].ports, ports);
  }
  IbDevice& at(std::size_t device) { return fabric_.devices[device]; }

  [[nodiscard]] const IbFabric& fabric() const { return fabric_; }

  IbFabric finish(std::string tool) {
    fabric_.tool = std::move(tool);
    for (const IbCable& cable : fabric_.cables) {
      ports_of(cable.a.device, cable.a.port);
      ports_of(cable.b.device, cable.b.port);
    }
    return std::move(fabric_);
  }

 private:
  // Returns whether the end is new. Refuses a second peer at the same port.
  bool note_end(IbCable::End end, IbCable::End peer, std::size_t line) {
    const auto [found, is_new] = peers_.try_emplace(end, std::pair(peer, line));
    if (is_new || found->second.first == peer) return is_new;
    const auto name = [&](IbCable::End one) {
      return fmt::format("port {} of \"{}\"", one.port, fabric_.devices[one.device].name);
    };
    refuse_line(fabric_.file, line,
                fmt::format("{} has a cable to {}, and to {} in line {}", name(end), name(peer),
                            name(found->second.first), found->second.second),
                "give the output of one run of the tool");
  }

  struct HashEnd {
    std::size_t operator()(IbCable::End end) const {
      return end.device * std::size_t{kPortsMost} + end.port;
    }
  };
  IbFabric fabric_;
  std::unordered_map<std::string, std::size_t> numbers_;  // of devices, by key
  std::unordered_map<IbCable::End, std::pair<IbCable::End, std::size_t>, HashEnd> peers_;
};

// Calls `read(line, number)` for each line.
template <class Read>
void for_each_line(std::string_view text, Read&& read) {
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    read(text.substr(begin, end - begin), ++number);
    begin = end + 1;
  }
}

// The topology file of ibnetdiscover (infiniband-diags, manual page ibnetdiscover, "Topology file
// format"):
//
//    Switch  65 "S-b83fd203001a2b40"     # "MF0;leaf01:MQM9700/U1" enhanced port 0 lid 2 lmc 0
//    [1]     "H-946dae03003c1a10"[1](946dae03003c1a10)     # "dgx01 mlx5_0" lid 10 4xNDR
//    Ca      1 "H-946dae03003c1a10"      # "dgx01 mlx5_0"
//    [1](946dae03003c1a10)  "S-b83fd203001a2b40"[1]  # lid 10 lmc 0 "MF0;leaf01..." lid 2 4xNDR
class NetDiscover {
 public:
  NetDiscover(std::string_view text, const std::string& file) : file_(file), all_(file) {
    for_each_line(text, [&](std::string_view line, std::size_t number) { read(line, number); });
  }

  // Returns whether the text has a section of a device.
  [[nodiscard]] bool found() const { return own_.has_value(); }

  IbFabric finish() {
    for (const auto& [switch_number, line] : wanted_)
      if (!sections_.contains(switch_number))
        refuse_line(file_, line,
                    fmt::format("a cable leads to the switch {}, which has no section",
                                all_.at(switch_number).key),
                    "give the whole output of ibnetdiscover; this one is cut");
    return all_.finish("ibnetdiscover");
  }

 private:
  void read(std::string_view line, std::size_t number) {
    const std::string_view text = trimmed(line);
    if (text.starts_with('[')) {
      // Before the first section this is a line of another program.
      if (own_) read_port(text, number);
    } else if (text.starts_with("Switch") || text.starts_with("Ca") || text.starts_with("Rt")) {
      read_section(text, number);
    }
  }

  // "Switch 65 "S-..." # "name" ..." Other lines may begin with these words, too.
  void read_section(std::string_view text, std::size_t number) {
    std::string_view rest = text.substr(text.find_first_of(kBlanks) == std::string_view::npos
                                            ? text.size()
                                            : text.find_first_of(kBlanks));
    take(rest, "");
    const auto ports = take_number<std::uint32_t>(rest);
    const auto key = take_quoted(rest, false);
    if (!ports || !key || !is_key(*key)) return;
    if (*ports > kPortsMost)
      refuse_line(file_, number, fmt::format("a device has {} ports", *ports),
                  fmt::format("at most {} are read", kPortsMost));
    own_ = all_.device(std::string(*key), key->starts_with('S'), name_of(rest));
    sections_.try_emplace(*own_, number);
    all_.ports_of(*own_, *ports);
  }

  static bool is_key(std::string_view key) {
    return key.size() > 2 && key[1] == '-' &&
           std::string_view("SHR").find(key[0]) != std::string_view::npos;
  }

  // The name is quoted in the comment.
  static std::string_view name_of(std::string_view rest) {
    std::string_view comment = rest.substr(std::min(rest.find('#'), rest.size()));
    return take_quoted(comment, true).value_or("");
  }

  void read_port(std::string_view text, std::size_t number) {
    std::string_view rest = text;
    const auto port = take_port(rest);
    const auto key = take_quoted(rest, false);
    if (!port || !key || !is_key(*key)) return broken(text, number);
    const auto peer_port = take_port(rest);
    const std::size_t comment = rest.find('#');
    if (!peer_port || comment == std::string_view::npos) return broken(text, number);
    rest = rest.substr(comment);
    const bool is_switch = key->starts_with('S');
    const std::size_t peer =
        all_.device(std::string(*key), is_switch, take_quoted(rest, true).value_or(""));
    if (is_switch) wanted_.try_emplace(peer, number);
    all_.cable({.device = own_.value_or(0), .port = *port}, {.device = peer, .port = *peer_port},
               ib_rate(speed_word(rest), file_, number), number);
  }

  // The word like "4xNDR" after the name; further words may follow (-f, chassis).
  static std::string_view speed_word(std::string_view rest) {
    while (!trimmed(rest).empty()) {
      rest = trimmed(rest);
      const std::string_view word = rest.substr(0, rest.find_first_of(kBlanks));
      if (word.find('x') != std::string_view::npos || word.find("??") != std::string_view::npos)
        return word;
      rest.remove_prefix(word.size());
    }
    return {};
  }

  [[noreturn]] void broken(std::string_view text, std::size_t number) const {
    refuse_line(file_, number,
                fmt::format("\"{}\" is no port of ibnetdiscover", text.substr(0, 60)),
                R"(a port is [1] "H-GUID"[1](GUID) # "name" lid 4 4xHDR; give the whole output)");
  }

  const std::string& file_;
  Collector all_;
  std::optional<std::size_t> own_;               // device of the current section
  std::map<std::size_t, std::size_t> sections_;  // line, by device
  std::map<std::size_t, std::size_t> wanted_;    // switches that cables lead to, with a line
};

// The output of iblinkinfo (infiniband-diags). A LID is a switch, or a port of an HCA:
//
//    Switch: 0xb83fd203001a2b40 MF0;leaf01:MQM9700/U1:
//        2    1[  ] ==( 4X     106.25 Gbps Active/  LinkUp)==>   10    1[  ] "dgx01 mlx5_0" ( )
//        2   33[  ] ==(               Down/ Polling)==>             [  ] "" ( )
//    CA: dgx01 mlx5_0:
//      0x946dae03003c1a10     10    1[  ] ==( 4X ...)==>       2    1[  ] "MF0;leaf01..." ( )
//
// With -l each line begins with the GUID and the quoted name of the port's own device instead.
// Nothing then marks switches. The ports are therefore collected first, and become cables when all
// lines are known.
class LinkInfo {
 public:
  LinkInfo(std::string_view text, const std::string& file) : file_(file), all_(file) {
    for_each_line(text, [&](std::string_view line, std::size_t number) { read(line, number); });
    for (const Line& line : lines_) add(line);
  }

  [[nodiscard]] bool found() const { return !lines_.empty(); }

  // A port of an HCA has a LID of its own, so several cables at one LID are a switch.
  IbFabric finish() {
    std::vector<std::size_t> ends(all_.fabric().devices.size(), 0);
    for (const IbCable& cable : all_.fabric().cables)
      for (const std::size_t device : {cable.a.device, cable.b.device})
        if (++ends[device] > 1 && !all_.at(device).is_switch)
          refuse_line(file_, cable.line,
                      fmt::format("a second cable leads to \"{}\" ({}), which is not listed as a "
                                  "switch",
                                  all_.at(device).name, all_.at(device).key),
                      "give the whole output of iblinkinfo; this one is cut");
    return all_.finish("iblinkinfo");
  }

 private:
  struct Place {
    std::uint32_t lid = 0;
    std::uint32_t port = 0;
    std::string_view name = {};
  };
  struct Line {
    Place own;
    Place peer;
    BytesPerSecond rate;
    std::size_t number;
  };

  void read(std::string_view line, std::size_t number) {
    const std::size_t arrow = line.find("==(");
    const std::size_t head = line.find("==>");
    if (arrow != std::string_view::npos && head != std::string_view::npos && arrow < head)
      return read_port(line.substr(0, arrow), line.substr(arrow + 3, head - arrow - 3),
                       line.substr(head + 3), number);
    const std::string_view text = trimmed(line);
    if (text.starts_with("Switch:") || text.starts_with("CA:") || text.starts_with("Router:")) {
      has_headers_ = true;
      in_switch_ = text.starts_with("Switch:");
      name_ = header_name(text);
    }
  }

  // "Switch: 0xGUID name:" or "CA: name:".
  static std::string_view header_name(std::string_view text) {
    std::string_view rest = trimmed(text.substr(text.find(':') + 1));
    if (rest.starts_with("0x"))
      rest = trimmed(rest.substr(std::min(rest.find_first_of(kBlanks), rest.size())));
    if (rest.ends_with(':')) rest.remove_suffix(1);
    return trimmed(rest);
  }

  void read_port(std::string_view own_text, std::string_view link, std::string_view peer_text,
                 std::size_t number) {
    const std::optional<Place> own = own_place(own_text);
    if (!own) return broken(number);
    // Down ports show that a device is a switch, and how many ports it has.
    std::uint32_t& most = most_ports_[own->lid];
    most = std::max(most, own->port);
    ++lines_of_[own->lid];
    if (in_switch_) switches_.insert(own->lid);
    if (link.find("LinkUp") == std::string_view::npos) return;
    std::string_view rest = peer_text;
    take(rest, "");
    if (rest.starts_with("0x")) {  // -l
      rest = rest.substr(std::min(rest.find_first_of(kBlanks), rest.size()));
      take(rest, "");
    }
    const auto lid = take_number<std::uint32_t>(rest);
    if (!lid && rest.find("Port not available") != std::string_view::npos) return;
    take(rest, "");
    const auto port = take_number<std::uint32_t>(rest);
    const auto name = take_quoted(rest, true);
    if (!lid || !port || !name || *port > kPortsMost) return broken(number);
    if (own->lid == 0 || *lid == 0)
      refuse_line(file_, number, "a port has LID 0: no subnet manager has configured the fabric",
                  "run the tool on a fabric with a subnet manager, or give ibnetdiscover's output");
    lines_.push_back({.own = *own,
                      .peer = {.lid = *lid, .port = *port, .name = *name},
                      .rate = rate_of(link, number),
                      .number = number});
  }

  // The part before the arrow, read from its end: LID, port and an external port in brackets.
  std::optional<Place> own_place(std::string_view text) {
    std::string_view rest = trimmed(text);
    Place place{.lid = 0, .port = 0, .name = name_};
    if (rest.starts_with("0x")) {
      rest = rest.substr(std::min(rest.find_first_of(kBlanks), rest.size()));
      if (std::string_view after = rest; take(after, "\"")) {  // -l
        const std::size_t end = rest.rfind('"');
        const std::size_t begin = rest.find('"');
        if (end == begin) return {};
        place.name = trimmed(rest.substr(begin + 1, end - begin - 1));
        rest = rest.substr(end + 1);
      }
    }
    take(rest, "");
    const auto lid = take_number<std::uint32_t>(rest);
    take(rest, "");
    const auto port = take_number<std::uint32_t>(rest);
    if (!lid || !port || *port > kPortsMost || !take(rest, "[")) return {};
    place.lid = *lid;
    place.port = *port;
    return place;
  }

  // " 4X      106.25 Gbps Active/  LinkUp", with "(FDR10)" after Gbps where it is that.
  BytesPerSecond rate_of(std::string_view link, std::size_t number) const {
    std::string_view rest = link;
    take(rest, "");
    const auto width = take_number<std::uint32_t>(rest);
    if (!width || !take(rest, "X")) return {};
    take(rest, "");
    const auto signalled = take_number<double>(rest);
    if (!signalled || !take(rest, "Gbps")) return {};
    const bool fdr10 = rest.find("FDR10") != std::string_view::npos;
    for (const LaneRate& lane : kLaneRates)
      if (fdr10 ? lane.name == "FDR10" : std::abs(lane.signalled - *signalled) < 1e-3)
        return BytesPerSecond{*width * lane.data * kBitsOfGiga};
    refuse_line(file_, number, fmt::format("{} Gbps is no speed of an InfiniBand lane", *signalled),
                "known are 2.5, 5, 10, 14.0625, 25.78125, 53.125, 106.25 and 212.5 Gbps");
  }

  // With -l nothing says which device is a switch. All ports of a switch have its LID, those that
  // are down included.
  bool is_switch(std::uint32_t lid) const {
    if (switches_.contains(lid)) return true;
    const auto lines = lines_of_.find(lid);
    return !has_headers_ && lines != lines_of_.end() && lines->second > 1;
  }

  std::size_t device(const Place& place) {
    const bool a_switch = is_switch(place.lid);
    const std::size_t number = all_.device(fmt::format("lid {}", place.lid), a_switch, place.name);
    if (const auto most = most_ports_.find(place.lid); a_switch && most != most_ports_.end())
      all_.ports_of(number, most->second);
    return number;
  }

  void add(const Line& line) {
    const std::size_t own = device(line.own);
    const std::size_t peer = device(line.peer);
    all_.cable({.device = own, .port = line.own.port}, {.device = peer, .port = line.peer.port},
               line.rate, line.number);
  }

  [[noreturn]] void broken(std::size_t number) const {
    refuse_line(file_, number, "is no port of iblinkinfo",
                "a port is LID PORT[] ==( 4X 53.125 Gbps Active/ LinkUp)==> LID PORT[] \"name\"; "
                "give the whole output");
  }

  const std::string& file_;
  Collector all_;
  bool has_headers_ = false;                           // without -l
  bool in_switch_ = false;                             // the current section
  std::string_view name_;                              // its name
  std::set<std::uint32_t> switches_;                   // LIDs
  std::map<std::uint32_t, std::size_t> lines_of_;      // number, by LID
  std::map<std::uint32_t, std::uint32_t> most_ports_;  // highest port, by LID
  std::vector<Line> lines_;
};

}  // namespace

BytesPerSecond ib_rate(std::string_view text, const std::string& file, std::size_t line) {
  if (text.find("??") != std::string_view::npos) return {};
  std::string_view rest = text;
  const auto width = take_number<std::uint32_t>(rest);
  if (width && (*width == 1 || *width == 2 || *width == 4 || *width == 8 || *width == 12) &&
      rest.starts_with('x')) {
    rest.remove_prefix(1);
    for (const LaneRate& lane : kLaneRates)
      if (lane.name == rest) return BytesPerSecond{*width * lane.data * kBitsOfGiga};
  }
  refuse_line(file, line, fmt::format("\"{}\" is no width and speed of a link", text.substr(0, 40)),
              "they are written as 4xHDR; known are SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR");
}

IbFabric read_ib_fabric(std::string_view text, const std::string& file) {
  if (text.find('\0') == std::string_view::npos) {
    if (NetDiscover reader(text, file); reader.found()) return reader.finish();
    if (LinkInfo reader(text, file); reader.found()) return reader.finish();
  }
  throw InputError(Problem{file, "", "is the output of neither ibnetdiscover nor iblinkinfo",
                           "give what one of them prints (iblinkinfo with or without -l)"});
}

}  // namespace trainyard

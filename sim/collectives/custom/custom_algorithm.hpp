// Collective algorithms from files: a list of sends, which is checked for correctness before it is
// used.
//
// algorithm_format.md describes the file formats: an ordered list of sends (.json), or an algorithm
// of MSCCL's runtime (.xml). The name of such an algorithm is the path of its file.
//
//    const CollectiveAlgorithm* mine = find_algorithm(CollectiveOp::AllReduce, "mine.json");
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/collectives/collective.hpp"

namespace trainyard {

// Messages for a fixed number of ranks and for any size and placement. Their bytes are not set;
// their steps do not decrease.
struct SendPlan {
  std::string name;     // the path of the file
  std::string summary;  // one line for lists of algorithms
  CollectiveOp op = CollectiveOp::AllReduce;
  std::uint32_t ranks = 0;
  std::uint32_t pieces = 0;
  std::vector<Message> messages = {};
};

// True if the name is the path of a file: it ends in .json or .xml.
[[nodiscard]] bool names_algorithm_file(std::string_view name);

// Reads and checks the file on the first call; later changes of the file have no effect. Throws
// InputError, with the send, the piece and the missing data, if the file does not implement the
// operation that it declares.
[[nodiscard]] const CollectiveAlgorithm& algorithm_of_file(const std::string& path);

// The plan of a file that ends in .json, checked symbolically (symbolic_check.hpp). Throws
// InputError.
[[nodiscard]] SendPlan read_send_list(const std::filesystem::path& file);
[[nodiscard]] SendPlan parse_send_list(const std::string& name, std::string_view text);

// The plan of a file that ends in .xml, executed buffer by buffer (msccl_xml.cpp). Throws
// InputError.
[[nodiscard]] SendPlan read_msccl_xml(const std::filesystem::path& file);
[[nodiscard]] SendPlan parse_msccl_xml(const std::string& name, const std::string& text);

// Assigns channels to messages that run concurrently: each message gets the lowest channel on which
// neither its sender sends nor its receiver receives another one.
//
//    FreeChannels free;
//    message.channel = free.take(message.from, message.to);
class FreeChannels {
 public:
  [[nodiscard]] std::uint32_t take(std::uint32_t from, std::uint32_t to) {
    const std::set<std::uint32_t>& sends = sends_[from];
    const std::set<std::uint32_t>& receives = receives_[to];
    std::uint32_t channel = 0;
    while (sends.contains(channel) || receives.contains(channel)) ++channel;
    mark(from, to, channel);
    return channel;
  }
  // Marks a channel that was chosen elsewhere as taken.
  void mark(std::uint32_t from, std::uint32_t to, std::uint32_t channel) {
    sends_[from].insert(channel);
    receives_[to].insert(channel);
  }

 private:
  std::map<std::uint32_t, std::set<std::uint32_t>> sends_;
  std::map<std::uint32_t, std::set<std::uint32_t>> receives_;
};

}  // namespace trainyard

// An algorithm that nobody programmed: a list of sends from a file, proved right before it is used.
//
// The forms of the files are in algorithm_format.md: an ordered list of sends (.json), or an
// algorithm of MSCCL's runtime (.xml). The name of such an algorithm is the path of its file.
//
//   const CollectiveAlgorithm* mine = find_algorithm(CollectiveOp::AllReduce, "mine.json");
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

// Messages for one number of ranks and for any size and place. Their bytes are not set; steps do
// not decrease.
struct SendPlan {
  std::string name;     // the path
  std::string summary;  // one line for lists
  CollectiveOp op = CollectiveOp::AllReduce;
  std::uint32_t ranks = 0;
  std::uint32_t pieces = 0;
  std::vector<Message> messages = {};
};

// Does the name lead to a file, by its ending in .json or .xml?
[[nodiscard]] bool names_algorithm_file(std::string_view name);

// Reads and checks the file, once: a file that changes later is not read again. Throws InputError,
// naming the send, the piece and what is missing, for one that does not do what it says.
[[nodiscard]] const CollectiveAlgorithm& algorithm_of_file(const std::string& path);

// The plan of a file that ends in .json, checked symbolically. Throws InputError.
[[nodiscard]] SendPlan read_send_list(const std::filesystem::path& file);
[[nodiscard]] SendPlan parse_send_list(const std::string& name, std::string_view text);

// The plan of a file that ends in .xml, played buffer by buffer. Throws InputError.
[[nodiscard]] SendPlan read_msccl_xml(const std::filesystem::path& file);
[[nodiscard]] SendPlan parse_msccl_xml(const std::string& name, const std::string& text);

// Channels for messages that run side by side: each gets the lowest one on which neither its sender
// nor its receiver has another.
//
//   FreeChannels free;
//   message.channel = free.take(message.from, message.to);
class FreeChannels {
 public:
  [[nodiscard]] std::uint32_t take(std::uint32_t from, std::uint32_t to) {
    std::set<std::uint32_t>& sends = sends_[from];
    std::set<std::uint32_t>& receives = receives_[to];
    std::uint32_t channel = 0;
    while (sends.contains(channel) || receives.contains(channel)) ++channel;
    sends.insert(channel);
    receives.insert(channel);
    return channel;
  }

 private:
  std::map<std::uint32_t, std::set<std::uint32_t>> sends_;
  std::map<std::uint32_t, std::set<std::uint32_t>> receives_;
};

}  // namespace trainyard

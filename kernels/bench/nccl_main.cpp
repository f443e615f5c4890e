// trainyard-profile-nccl: measures NCCL's collectives on all GPUs of this node.
//
//    trainyard-profile-nccl -o nccl.json                       every operation, 8 B to 8 GiB
//    trainyard-profile-nccl -o nccl.json --algorithms ring,tree,nvls --protocols ll,ll128,simple
//    mpirun -np 2 -npernode 1 trainyard-profile-nccl -o nccl.json --id-file /shared/nccl.id
//
// One process drives all GPUs of its node. Under mpirun or srun there is one process per node; the
// processes find each other through --id-file on a shared file system. A separate process measures
// each forced algorithm and protocol, because NCCL reads these settings once. Exit codes: 0
// measured; 1 no GPU, or a wrong result; 2 usage.
#include <fmt/format.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "kernels/bench/collective_rows.hpp"
#include "kernels/bench/device.hpp"
#include "kernels/bench/front.hpp"
#include "kernels/bench/measured_profile.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"

namespace trainyard::bench {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int warm_ups = 5;
constexpr int repeats = 5;
constexpr int large_iterations = 5;
constexpr int small_iterations = 20;
constexpr std::int64_t large_bytes = std::int64_t{64} << 20;
constexpr std::int64_t verified_block =
    4096;  // bytes from each rank to each when results are checked

using bench::check;  // for CUDA's codes
void check(ncclResult_t code, std::string_view doing) {
  if (code != ncclSuccess)
    throw RunError(
        fmt::format("{}: {} ({})", doing, ncclGetErrorString(code), ncclGetLastError(nullptr)));
}

// Index of this process among the nodes, from the environment of the launcher.
struct Place {
  int node = 0;
  int nodes = 1;
};
Place place_among_nodes() {
  constexpr std::array<std::array<const char*, 2>, 3> names = {
      {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
       {"PMI_RANK", "PMI_SIZE"},
       {"SLURM_PROCID", "SLURM_NTASKS"}}};
  for (const auto& [rank, size] : names) {
    const char* number = std::getenv(rank);
    const char* count = std::getenv(size);
    if (number != nullptr && count != nullptr) return {std::atoi(number), std::atoi(count)};
  }
  return {};
}

// The first node writes the id, and the others wait for it.
ncclUniqueId shared_id(const CollectiveOptions& options, const Place& place,
                       const std::string& suffix) {
  ncclUniqueId id{};
  if (place.node == 0) check(ncclGetUniqueId(&id), "making an id");
  if (place.nodes == 1) return id;
  if (options.id_file.empty())
    throw RunError("several nodes need --id-file on a file system they share");
  const std::string file = options.id_file + suffix;
  if (place.node == 0) {
    write_file(file, std::string(id.internal, sizeof id.internal));
    return id;
  }
  constexpr int seconds_most = 120;
  for (int waited = 0; !fs::exists(file); ++waited) {
    if (waited == seconds_most * 10) throw RunError("no id came in two minutes: " + file);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const std::string bytes = read_file(file);
  std::copy_n(bytes.begin(), std::min(bytes.size(), sizeof id.internal), id.internal);
  return id;
}

struct Destroy {
  void operator()(ncclComm_t made) const { (void)ncclCommDestroy(made); }
};

// One GPU of this node with its communicator and buffers.
struct Rank {
  int device = 0;
  int number = 0;  // among all nodes
  std::unique_ptr<std::remove_pointer_t<ncclComm_t>, Destroy> communicator;
  Stream stream;
  Event start, end;
  DeviceMemory send, receive;
};

class Node {
 public:
  Node(const CollectiveOptions& options, const std::string& suffix) : place_(place_among_nodes()) {
    check(cudaGetDeviceCount(&devices_), "counting GPUs");
    const ncclUniqueId id = shared_id(options, place_, suffix);
    const std::int64_t bytes =
        std::max(read_bytes("--max", options.most), verified_block * ranks());
    std::vector<ncclComm_t> made(static_cast<std::size_t>(devices_));
    check(ncclGroupStart(), "joining the ranks");
    for (int device = 0; device < devices_; ++device) {
      check(cudaSetDevice(device), "choosing a GPU");
      check(ncclCommInitRank(&made[static_cast<std::size_t>(device)], ranks(), id,
                             place_.node * devices_ + device),
            "joining the ranks");
    }
    check(ncclGroupEnd(), "joining the ranks");
    for (int device = 0; device < devices_; ++device) {
      check(cudaSetDevice(device), "choosing a GPU");
      ranks_.push_back({.device = device,
                        .number = place_.node * devices_ + device,
                        .communicator = {made[static_cast<std::size_t>(device)], {}},
                        .stream = make_stream(),
                        .start = make_event(),
                        .end = make_event(),
                        .send = DeviceMemory(bytes),
                        .receive = DeviceMemory(bytes)});
    }
  }

  [[nodiscard]] int ranks() const { return devices_ * place_.nodes; }
  [[nodiscard]] const Place& place() const { return place_; }

  // Microseconds of one operation of that size: the slowest rank of this node, operations back to
  // back, and the median of some repeats.
  [[nodiscard]] double time_us(CollectiveOp op, std::int64_t bytes) const {
    const int iterations = bytes > large_bytes ? large_iterations : small_iterations;
    for (int i = 0; i < warm_ups; ++i) queue(op, bytes, ncclFloat32);
    wait();
    std::vector<double> times;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      // Events on the stream of each rank enclose all iterations.
      for_each([](const Rank& r) { record(r.start, r); });
      for (int i = 0; i < iterations; ++i) queue(op, bytes, ncclFloat32);
      for_each([](const Rank& r) { record(r.end, r); });
      wait();
      double slowest = 0.0;
      for (const Rank& r : ranks_) {
        float milliseconds = 0.0F;
        check(cudaEventElapsedTime(&milliseconds, r.start.get(), r.end.get()), "reading a time");
        slowest = std::max(slowest, static_cast<double>(milliseconds) * 1e3);
      }
      times.push_back(slowest / iterations);
    }
    return spread_of(std::move(times)).median;
  }

  // Every rank sends bytes with the value number + 1, so the values that must arrive are known.
  void verify(CollectiveOp op) const {
    const std::int64_t bytes = verified_block * ranks();
    for_each([&](const Rank& r) {
      check(cudaMemset(r.send.get(), r.number + 1, static_cast<std::size_t>(bytes)), "filling");
      check(cudaMemset(r.receive.get(), 0, static_cast<std::size_t>(bytes)), "filling");
    });
    queue(op, bytes, ncclUint8);
    wait();
    for (const Rank& r : ranks_)
      for (int other = 0; other < ranks(); ++other) {
        const int expected = expected_byte(op, r.number, other);
        if (expected < 0) continue;
        // A reduce_scatter leaves one block per rank, at the beginning of the buffer.
        const std::int64_t at =
            op == CollectiveOp::ReduceScatter ? 0 : other * verified_block + verified_block / 2;
        unsigned char got = 0;
        check(cudaMemcpy(&got, r.receive.at(at), 1, cudaMemcpyDeviceToHost), "reading a result");
        if (got != expected)
          throw RunError(fmt::format("{}: rank {} holds {} in block {}, not {}",
                                     word_for(kCollectiveOperations, op), r.number, got, other,
                                     expected));
      }
  }

 private:
  // The expected value in block `other` of a rank; -1 if this rank receives nothing there.
  [[nodiscard]] int expected_byte(CollectiveOp op, int rank, int other) const {
    const int n = ranks();
    switch (op) {
      case CollectiveOp::AllReduce:
      case CollectiveOp::ReduceScatter:
        return n * (n + 1) / 2 % 256;
      case CollectiveOp::AllGather:
      case CollectiveOp::AllToAll:
        return other + 1;
      case CollectiveOp::Broadcast:
        return 1;
      case CollectiveOp::Reduce:
        return rank == 0 ? n * (n + 1) / 2 % 256 : -1;
      default:
        return (rank + n - 1) % n + 1;  // send_recv: from the rank before
    }
  }

  static void record(const Event& event, const Rank& r) {
    check(cudaEventRecord(event.get(), r.stream.get()), "recording an event");
  }
  template <class Work>
  void for_each(const Work& work) const {
    for (const Rank& r : ranks_) {
      check(cudaSetDevice(r.device), "choosing a GPU");
      work(r);
    }
  }
  void wait() const {
    for_each([](const Rank& r) { check(cudaStreamSynchronize(r.stream.get()), "waiting"); });
  }

  // A point-to-point pair with each of the ranks at distance `first` to `last`.
  void exchange(const Rank& r, std::size_t count, ncclDataType_t type, int first, int last) const {
    const auto size = static_cast<std::int64_t>(count * (type == ncclFloat32 ? 4 : 1));
    for (int away = first; away <= last; ++away) {
      const int to = (r.number + away) % ranks();
      const int from = (r.number + ranks() - away) % ranks();
      // all_to_all has one block per peer; send_recv uses the whole buffer.
      const bool blocks = last > first || first == 0;
      check(ncclSend(r.send.at(blocks ? to * size : 0), count, type, to, r.communicator.get(),
                     r.stream.get()),
            "sending");
      check(ncclRecv(r.receive.at(blocks ? from * size : 0), count, type, from,
                     r.communicator.get(), r.stream.get()),
            "receiving");
    }
  }

  void call(CollectiveOp op, const Rank& r, std::size_t count, ncclDataType_t type) const {
    const ncclComm_t c = r.communicator.get();
    const cudaStream_t s = r.stream.get();
    const std::size_t block = count / static_cast<std::size_t>(ranks());
    const void* from = r.send.get();
    void* into = r.receive.get();
    const std::string_view doing = word_for(kCollectiveOperations, op);
    switch (op) {
      case CollectiveOp::AllReduce:
        return check(ncclAllReduce(from, into, count, type, ncclSum, c, s), doing);
      case CollectiveOp::AllGather:
        return check(ncclAllGather(from, into, block, type, c, s), doing);
      case CollectiveOp::ReduceScatter:
        return check(ncclReduceScatter(from, into, block, type, ncclSum, c, s), doing);
      case CollectiveOp::Broadcast:
        return check(ncclBroadcast(from, into, count, type, 0, c, s), doing);
      case CollectiveOp::Reduce:
        return check(ncclReduce(from, into, count, type, ncclSum, 0, c, s), doing);
      case CollectiveOp::AllToAll:
        return exchange(r, block, type, 0, ranks() - 1);
      default:
        return exchange(r, count, type, 1, 1);
    }
  }

  void queue(CollectiveOp op, std::int64_t bytes, ncclDataType_t type) const {
    const auto count = static_cast<std::size_t>(bytes / (type == ncclFloat32 ? 4 : 1));
    check(ncclGroupStart(), "queueing");
    for (const Rank& r : ranks_) call(op, r, count, type);
    check(ncclGroupEnd(), "queueing");
  }

  Place place_;
  int devices_ = 0;
  std::vector<Rank> ranks_;
};

std::string nccl_version() {
  int version = 0;
  check(ncclGetVersion(&version), "asking for the version");
  return fmt::format("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

std::vector<CollectiveRun> measure_all(const CollectiveOptions& options, const std::string& forced,
                                       const std::string& suffix, const std::string& gpu) {
  const Node node(options, suffix);
  std::vector<CollectiveRun> runs;
  const auto sizes = size_steps(read_bytes("--min", options.least),
                                read_bytes("--max", options.most), options.factor);
  for (const auto& [op, word] : kCollectiveOperations) {
    if (std::ranges::find(options.operations, word) == options.operations.end()) continue;
    node.verify(op);
    CollectiveRun run{.op = op,
                      .gpu = gpu,
                      .ranks = node.ranks(),
                      .nodes = node.place().nodes,
                      .nccl_version = nccl_version(),
                      .forced = forced,
                      .rows = {}};
    for (const std::int64_t bytes : sizes) {
      // The block of each rank must be a whole number of floats.
      if (bytes < 4 * node.ranks()) continue;
      if (isatty(STDERR_FILENO) == 1) fmt::print(stderr, "\r\033[K{} {} {} B", forced, word, bytes);
      run.rows.push_back({.bytes = bytes, .time_us = node.time_us(op, bytes), .in_place = false});
    }
    if (node.place().node == 0) runs.push_back(std::move(run));
  }
  if (isatty(STDERR_FILENO) == 1) fmt::print(stderr, "\r\033[K");
  return runs;
}

// NCCL reads the forced settings once per process, so each combination runs in a separate one. Its
// file has no runs when NCCL does not offer the combination here.
void measure_part(const CollectiveOptions& options, const std::string& algorithm,
                  const std::string& protocol, const std::string& file) {
  const auto upper = [](std::string word) {
    for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return word;
  };
  std::string forced;
  if (!algorithm.empty()) {
    ::setenv("NCCL_ALGO", upper(algorithm).c_str(), 1);
    forced += "algorithm " + algorithm;
  }
  if (!protocol.empty()) {
    ::setenv("NCCL_PROTO", upper(protocol).c_str(), 1);
    forced += (forced.empty() ? "protocol " : ", protocol ") + protocol;
  }
  select_device();
  const Json origin = provenance({"trainyard-profile-nccl"});
  const auto runs = measure_all(options, forced, "." + algorithm + "." + protocol, origin["gpu"]);
  if (!runs.empty()) write_file(file, collective_json(runs, origin).dump(1) + "\n");
}

// The parent process never initialises CUDA, so that each forked child can.
int run_parts(const CollectiveOptions& options) {
  const std::vector<std::string> any = {""};
  Json all;
  int failures = 0;
  for (const std::string& algorithm : options.algorithms.empty() ? any : options.algorithms)
    for (const std::string& protocol : options.protocols.empty() ? any : options.protocols) {
      const std::string file = fmt::format("{}.{}{}.part", options.out, algorithm, protocol);
      const pid_t child = ::fork();
      if (child < 0) throw RunError("a process for the measurement cannot be started");
      if (child == 0) {
        try {
          measure_part(options, algorithm, protocol, file);
          std::_Exit(0);
        } catch (const std::exception& error) {
          fmt::print(stderr, "trainyard-profile-nccl: {}{}\n",
                     algorithm.empty() && protocol.empty()
                         ? ""
                         : fmt::format("{} {}: ", algorithm, protocol),
                     error.what());
          std::_Exit(1);
        }
      }
      int status = 0;
      ::waitpid(child, &status, 0);
      if (status != 0) ++failures;
      if (!fs::exists(file)) continue;
      Json part = parse_unchecked_json(read_file(file));
      fs::remove(file);
      if (all.is_null())
        all = std::move(part);
      else
        all["runs"].insert(all["runs"].end(), part["runs"].begin(), part["runs"].end());
    }
  if (!all.is_null()) {
    write_file(options.out, all.dump(1) + "\n");
    fmt::print("{}: {} runs\n", options.out, all["runs"].size());
    if (all.contains("missing")) fmt::print("missing: {}\n", all["missing"].get<std::string>());
  }
  return failures > 0 ? 1 : 0;
}

}  // namespace

}  // namespace trainyard::bench

int main(int count, char** values) {
  namespace bench = trainyard::bench;
  try {
    const auto line = bench::read_collective_options(count, values);
    return line.exit_code ? *line.exit_code : bench::run_parts(line.options);
  } catch (const trainyard::InputError& error) {
    fmt::print(stderr, "trainyard-profile-nccl: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "trainyard-profile-nccl: {}\n", error.what());
    return 1;
  }
}

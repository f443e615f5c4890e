// Records which data files a computation reads that were not shipped with Trainyard, so that its
// result can name them.
//
//    const DataUse use;                                  // records until it is destroyed
//    (void)data_file("topologies/data", "my_node");      // notes the file
//    use.files().front().file;                           // ".../topologies/data/my_node.json"
//
// A recorder covers the thread that made it and the threads that run_concurrently() starts from it.
// Caches (Memo, read_once) remember which files a value was made of, and note them again whenever
// they return it. Therefore the files depend on the computation alone, not on what the process did
// before.
#pragma once

#include <compare>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace trainyard {

// A data file of the user.
struct OwnDataFile {
  std::string kind;       // "node", "GPU profile", "model", ...
  std::string name;       // by which a scenario finds it: "my_node"
  std::string file;       // path, as the lookup found it
  bool replaces = false;  // a file of that name was shipped, too
  auto operator<=>(const OwnDataFile&) const = default;
};

class DataUse {
 public:
  // Begins to record on this thread. Where a recorder exists there, it gets the same files.
  DataUse();
  ~DataUse();
  DataUse(const DataUse&) = delete;
  DataUse& operator=(const DataUse&) = delete;

  // Returns the files noted so far, each once, sorted. Thread-safe.
  [[nodiscard]] std::vector<OwnDataFile> files() const;

  // Notes a file that this thread reads; without a recorder it does nothing.
  static void note(const OwnDataFile& file);
  static void note(const std::vector<OwnDataFile>& files);

  // The recorder of this thread, or nullptr.
  [[nodiscard]] static DataUse* current();

  // Makes `recorder`, which may be nullptr, the recorder of this thread while the object lives.
  // REQUIRES: the recorder lives longer.
  class OnThisThread {
   public:
    explicit OnThisThread(DataUse* recorder);
    ~OnThisThread();
    OnThisThread(const OnThisThread&) = delete;
    OnThisThread& operator=(const OnThisThread&) = delete;

   private:
    DataUse* before_;
  };

 private:
  void add(const OwnDataFile& file);

  mutable std::mutex mutex_;
  std::set<OwnDataFile> files_;
  DataUse* outer_;
  OnThisThread on_this_thread_;
};

}  // namespace trainyard

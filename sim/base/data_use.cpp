#include "sim/base/data_use.hpp"

namespace trainyard {

namespace {

// The recorder of each thread. It is state of the thread rather than an argument, because every
// function that reads a data file would have to pass it on.
DataUse*& recorder_of_thread() {
  thread_local DataUse* recorder = nullptr;
  return recorder;
}

}  // namespace

DataUse::OnThisThread::OnThisThread(DataUse* recorder) : before_(recorder_of_thread()) {
  recorder_of_thread() = recorder;
}

DataUse::OnThisThread::~OnThisThread() { recorder_of_thread() = before_; }

DataUse::DataUse() : outer_(current()), on_this_thread_(this) {}

DataUse::~DataUse() = default;

std::vector<OwnDataFile> DataUse::files() const {
  const std::scoped_lock lock(mutex_);
  return {files_.begin(), files_.end()};
}

void DataUse::add(const OwnDataFile& file) {
  if (outer_ != nullptr) outer_->add(file);
  const std::scoped_lock lock(mutex_);
  files_.insert(file);
}

void DataUse::note(const OwnDataFile& file) {
  if (DataUse* const recorder = current()) recorder->add(file);
}

void DataUse::note(const std::vector<OwnDataFile>& files) {
  for (const OwnDataFile& file : files) note(file);
}

DataUse* DataUse::current() { return recorder_of_thread(); }

}  // namespace trainyard

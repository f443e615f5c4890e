#include "sim/base/module.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <system_error>

#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"

namespace trainyard {

namespace fs = std::filesystem;

namespace {

constexpr const char* kHint = "build or install trainyard again, all of it";

}  // namespace

fs::path module_file(const Module& module) {
  const fs::path first = code_file().parent_path();
  // From the folder of this code to the root: <prefix>/bin, or a folder in the folder of the build.
  for (fs::path folder = first; !folder.empty(); folder = folder.parent_path()) {
    for (const fs::path& place : {folder / module.file, folder / module.folder / module.file}) {
      std::error_code error;
      if (fs::is_regular_file(place, error)) return place;
    }
    if (folder == folder.root_path()) break;
  }
  throw InputError(Problem{first.parent_path() / module.folder / module.file, "",
                           fmt::format("the module that holds {} is not there", module.holds),
                           kHint});
}

void* load_module(const Module& module) {
  const fs::path file = module_file(module);
  // Functions are looked up when they are first called: a library has thousands that no run calls,
  // and finding all of SimGrid's took 4 ms of every run. The module is never unloaded, since state
  // such as SimGrid's belongs to the process.
  void* const handle = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();
    throw InputError(
        Problem{file, "", fmt::format("{} cannot be loaded: {}", module.holds, reason), kHint});
  }
  void* const entry = ::dlsym(handle, module.entry);
  if (entry == nullptr)
    throw InputError(Problem{file, "", "belongs to another build of trainyard", kHint});
  return entry;
}

}  // namespace trainyard

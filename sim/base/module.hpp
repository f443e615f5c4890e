// Shared objects of Trainyard that are loaded when a command needs them: each holds the code that
// calls one large library, which every other command would otherwise load at its start.
//
//    constexpr Module kModule{.file = "trainyard-http.so", .folder = "lib/trainyard",
//                             .entry = "trainyard_http_1f0c", .holds = "the HTTP server"};
//    const auto make = reinterpret_cast<Make>(load_module(kModule));
//
// The module is found next to the program or the library that contains this code, in the library
// folder that is installed with it, or in the folder of the build that contains it. The name of its
// entry contains a hash of the header that both sides include (ty_module() in CMakeLists.txt), so
// that a module of another build is refused.
#pragma once

#include <filesystem>
#include <string_view>

namespace trainyard {

struct Module {
  std::string_view file;    // its name, "trainyard-simgrid.so"
  std::string_view folder;  // from the prefix of an installation, "lib/trainyard"
  const char* entry;        // the function that it exports
  std::string_view holds;   // for messages: "SimGrid"
};

// Returns the path of the module. Throws InputError when it is in none of the folders.
[[nodiscard]] std::filesystem::path module_file(const Module& module);

// Loads the module, which is never unloaded, and returns its entry. Throws InputError when there is
// no module, it cannot be loaded, or it belongs to another build.
[[nodiscard]] void* load_module(const Module& module);

}  // namespace trainyard

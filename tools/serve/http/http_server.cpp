#include "tools/serve/http/http_server.hpp"

#include "sim/base/module.hpp"

namespace trainyard::serve {

std::unique_ptr<HttpServer> make_http_server(HttpOptions options) {
  using Make = HttpServer* (*)(HttpOptions&&);
  static const Make make = reinterpret_cast<Make>(load_module({.file = TRAINYARD_MODULE_FILE,
                                                               .folder = TRAINYARD_MODULE_FOLDER,
                                                               .entry = TRAINYARD_MODULE_ENTRY,
                                                               .holds = "the HTTP server"}));
  return std::unique_ptr<HttpServer>(make(std::move(options)));
}

}  // namespace trainyard::serve

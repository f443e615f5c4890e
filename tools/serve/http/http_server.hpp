// An HTTP server: what `trainyard serve` needs of cpp-httplib, which is linked into a module of its
// own (httplib_server.cpp). cpp-httplib brings OpenSSL, and no other command should load that.
//
//    const auto server = make_http_server({.most_body = 1 << 20});
//    server->on(HttpMethod::Get, "/hello/(.+)",
//               [](const HttpRequest& request, HttpResponse& response) {
//                 response.body = "hello " + request.match(1);
//               });
//    if (server->bind("127.0.0.1", 8420)) server->listen();
//
// Handlers run on threads of the server, several at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trainyard::serve {

enum class HttpMethod : std::uint8_t { Get, Post, Delete };

class HttpRequest {
 public:
  virtual ~HttpRequest() = default;
  [[nodiscard]] virtual std::string path() const = 0;
  // The address of this machine at which the request has arrived: "10.0.0.7", "fe80::1".
  [[nodiscard]] virtual std::string local_address() const = 0;
  [[nodiscard]] virtual const std::string& body() const = 0;
  // A header, a parameter of the query, and a group of the pattern that matched the path. What is
  // absent is empty.
  [[nodiscard]] virtual std::string header(const char* name) const = 0;
  [[nodiscard]] virtual std::string parameter(const char* name) const = 0;
  [[nodiscard]] virtual std::string match(std::size_t group) const = 0;
};

struct HttpResponse {
  int status = 200;
  std::string type = {};  // of the content
  std::string body = {};
};

// Exceptions must not leave a handler.
using HttpHandler = std::function<void(const HttpRequest&, HttpResponse&)>;

struct HttpOptions {
  std::size_t most_body = 0;                                      // of a request, in bytes
  std::size_t most_connections = 1;                               // at the same time
  std::vector<std::pair<std::string, std::string>> headers = {};  // of every response
  // Answers a request before any handler sees it, if it returns true.
  std::function<bool(const HttpRequest&, HttpResponse&)> refuses = {};
};

class HttpServer {
 public:
  virtual ~HttpServer() = default;
  // Handles requests of this method whose whole path matches a regular expression; the first one
  // that matches is taken. Other requests are answered with 404.
  virtual void on(HttpMethod method, const std::string& pattern, HttpHandler handler) = 0;
  // Returns false when the address cannot be used. A server that could not be bound cannot be bound
  // to another address.
  [[nodiscard]] virtual bool bind(const std::string& host, int port) = 0;
  // Answers requests until stop() is called, which any thread may do.
  virtual void listen() = 0;
  virtual void stop() = 0;
};

// Loads the module at the first call. Throws InputError when there is none (sim/base/module.hpp).
[[nodiscard]] std::unique_ptr<HttpServer> make_http_server(HttpOptions options);

}  // namespace trainyard::serve

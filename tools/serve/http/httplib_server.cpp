// The module trainyard-http: the only translation unit that is linked to cpp-httplib.
#include <httplib.h>

#include <chrono>

#include "tools/serve/http/http_server.hpp"

namespace trainyard::serve {

namespace {

class HttplibRequest final : public HttpRequest {
 public:
  explicit HttplibRequest(const httplib::Request& request) : request_(request) {}

  [[nodiscard]] std::string path() const override { return request_.path; }
  [[nodiscard]] std::string local_address() const override { return request_.local_addr; }
  [[nodiscard]] const std::string& body() const override { return request_.body; }
  [[nodiscard]] std::string header(const char* name) const override {
    return request_.get_header_value(name);
  }
  [[nodiscard]] std::string parameter(const char* name) const override {
    return request_.get_param_value(name);
  }
  [[nodiscard]] std::string match(std::size_t group) const override {
    return request_.matches[group].str();
  }

 private:
  const httplib::Request& request_;
};

void write(const HttpResponse& from, httplib::Response& to) {
  to.status = from.status;
  to.set_content(from.body, from.type.c_str());
}

class HttplibServer final : public HttpServer {
 public:
  explicit HttplibServer(HttpOptions options);

  void on(HttpMethod method, const std::string& pattern, HttpHandler handler) override;
  [[nodiscard]] bool bind(const std::string& host, int port) override {
    return server_.bind_to_port(host, port);
  }
  void listen() override { server_.listen_after_bind(); }
  void stop() override { server_.stop(); }

 private:
  HttpOptions options_;
  httplib::Server server_;
};

HttplibServer::HttplibServer(HttpOptions options) : options_(std::move(options)) {
  server_.new_task_queue = [this] { return new httplib::ThreadPool(options_.most_connections); };
  server_.set_payload_max_length(options_.most_body);
  // Without SO_REUSEPORT, with which a second server would take half of the requests of the first.
  server_.set_socket_options([](socket_t socket) {
    const int yes = 1;
    (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server_.set_read_timeout(std::chrono::seconds(10));
  server_.set_tcp_nodelay(true);  // else the body waits 40 ms for the other side's acknowledgement
  // An idle connection occupies a thread, so it is closed soon.
  server_.set_keep_alive_timeout(2);
  server_.set_keep_alive_max_count(1000);
  server_.set_default_headers({options_.headers.begin(), options_.headers.end()});
  server_.set_pre_routing_handler(
      [this](const httplib::Request& request, httplib::Response& response) {
        HttpResponse refusal;
        if (!options_.refuses || !options_.refuses(HttplibRequest(request), refusal))
          return httplib::Server::HandlerResponse::Unhandled;
        write(refusal, response);
        return httplib::Server::HandlerResponse::Handled;
      });
}

void HttplibServer::on(HttpMethod method, const std::string& pattern, HttpHandler handler) {
  const auto handle = [handler = std::move(handler)](const httplib::Request& request,
                                                     httplib::Response& response) {
    HttpResponse answer;
    handler(HttplibRequest(request), answer);
    write(answer, response);
  };
  switch (method) {
    case HttpMethod::Get:
      server_.Get(pattern, handle);
      return;
    case HttpMethod::Post:
      server_.Post(pattern, handle);
      return;
    case HttpMethod::Delete:
      server_.Delete(pattern, handle);
      return;
  }
}

}  // namespace

}  // namespace trainyard::serve

extern "C" [[gnu::visibility("default")]] trainyard::serve::HttpServer* TRAINYARD_MODULE_ENTRY(
    trainyard::serve::HttpOptions&& options) {
  return new trainyard::serve::HttplibServer(std::move(options));
}

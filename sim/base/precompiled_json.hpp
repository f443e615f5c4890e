// nlohmann's JSON for the precompiled headers, without its literal ""_json.
//
// g++ 12 instantiates at the end of every file what inline functions of its headers call. This
// literal parses, so every file compiled the parser (an empty file took 1.9 s, and 1.1 s without),
// and none of ours uses the literal. The macro turns its definition into a template, which nothing
// instantiates.
// (Releases since 3.11.3 write ""_json as one token, which the macro leaves alone.)
#pragma once

#define _json(text, length)                 \
  _json(const char*, std::size_t) = delete; \
  template <class>                          \
  nlohmann::json never_called(text, length)
#include <nlohmann/json.hpp>
#undef _json

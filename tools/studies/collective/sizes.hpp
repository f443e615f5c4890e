// The sizes of a study, in the words of nccl-tests' -b, -e and -f.
//
//   parse_sizes("8B:8GiB");       // 8, 16, 32 ... 8 589 934 592: 31 sizes
//   parse_sizes("1M:1G:4");       // as nccl-tests counts: K, M, G and T are powers of 1024
//   parse_sizes("48MiB");         // one size
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainyard {

// FROM[:TO[:FACTOR]], ascending; the last is the largest that is not above TO. The factor is 2
// where none is given. Throws InputError, naming what cannot be read.
[[nodiscard]] std::vector<std::int64_t> parse_sizes(std::string_view text);

// The one size that an option names: parse_size("64MiB", "--group"). Throws InputError, naming the
// option.
[[nodiscard]] std::int64_t parse_size(std::string_view text, const std::string& option);

// "8B", "128KiB", "1GiB": the largest binary unit that divides it.
[[nodiscard]] std::string size_text(std::int64_t bytes);

}  // namespace trainyard

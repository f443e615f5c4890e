// Reads measured steps: a trace of PyTorch's profiler or of Nsight Systems, or a list of times.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "scenarios/import/kineto.hpp"
#include "sim/base/error.hpp"
#include "sim/base/input_stream.hpp"
#include "sim/base/median.hpp"
#include "sim/base/utf8.hpp"
#include "tools/studies/validate/step_profile.hpp"

namespace trainyard {

namespace {

constexpr double kSecondsPerNs = 1e-9;

[[noreturn]] void refuse_profile(const std::string& file, const std::string& problem) {
  throw InputError(Problem{file, "", problem,
                           "give a trace that torch.profiler exported (export_chrome_trace), an "
                           "export of Nsight Systems (nsys export --type sqlite), or step times in "
                           "seconds, one a line"});
}

StepProfile of_times(const std::string& file, const std::vector<double>& times) {
  for (const double time : times) {
    if (!(time > 0.0) || !std::isfinite(time))
      refuse_profile(file, fmt::format("has a step of {} s", time));
  }
  if (times.empty()) refuse_profile(file, "holds no step");
  return {.source = file, .step_s = median(times), .steps = times.size()};
}

StepProfile of_lines(const std::string& file, const std::string& text) {
  std::istringstream lines(text);
  std::vector<double> times;
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos || line.front() == '#') continue;
    char* end = nullptr;
    times.push_back(std::strtod(line.c_str(), &end));
    const bool whole = end != line.c_str() &&
                       std::string_view(end).find_first_not_of(" \t\r") == std::string::npos;
    if (!whole) refuse_profile(fmt::format("{}:{}", file, number), "is no step time in seconds");
  }
  return of_times(file, times);
}

// The time from the start of the first kernel to the end of the last one.
TracedStep whole_trace(const GpuTrace& trace) {
  TracedStep window{trace.kernels.front().start_ns, trace.kernels.front().end_ns()};
  for (const TracedKernel& kernel : trace.kernels)
    window.end_ns = std::max(window.end_ns, kernel.end_ns());
  return window;
}

// Kernels of the window. Times are counted from its start, where a double has more digits.
std::vector<KindSpan> spans_of(const GpuTrace& trace, const TracedStep& window) {
  std::vector<KindSpan> spans;
  for (const TracedKernel& kernel : trace.kernels) {
    if (kernel.end_ns() < window.start_ns || kernel.start_ns >= window.end_ns) continue;
    const auto since = [&](std::int64_t time_ns) {
      return static_cast<double>(time_ns - window.start_ns) * kSecondsPerNs;
    };
    spans.push_back({kernel.kind, {since(kernel.start_ns), since(kernel.end_ns())}});
  }
  return spans;
}

// The rest of a small file.
std::string text_of(const std::string& file, std::istream& stream) {
  constexpr std::size_t most_bytes = std::size_t{64} << 20U;
  std::string text;
  std::string piece(std::size_t{1} << 16U, '\0');
  while (stream.read(piece.data(), static_cast<std::streamsize>(piece.size())),
         stream.gcount() > 0) {
    text.append(piece, 0, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > most_bytes) refuse_profile(file, "holds more than 64 MiB, and no trace");
  }
  return text;
}

}  // namespace

// Marked steps are those of the CPU, which the GPU follows.
StepProfile step_profile(const GpuTrace& trace) {
  const TracedStep window =
      trace.steps.empty() ? whole_trace(trace) : trace.steps[median_step(trace.steps)];
  const std::vector<KindSpan> spans = spans_of(trace, window);
  if (spans.empty()) refuse_profile(trace.file, "has no kernel within its median step");
  StepProfile profile = profile_of(
      spans, {0.0, static_cast<double>(window.end_ns - window.start_ns) * kSecondsPerNs});
  profile.source = trace.file;
  profile.rank = trace.rank;
  profile.steps = std::max<std::size_t>(1, trace.steps.size());
  profile.assumptions = trace.assumptions;
  if (trace.steps.empty() && !trace.simulated)
    profile.assumptions.emplace_back(
        "no step is marked, so the whole trace counts as one step, from its first kernel to its "
        "last (mark steps by prof.step() or NVTX ranges such as \"step 7\")");
  // NCCL runs all_to_all as sends and receives, so its kernel is named SendRecv. Only a trace with
  // the arguments of each call tells them apart.
  profile.tells_all_to_all = std::ranges::none_of(trace.kernels, [](const TracedKernel& kernel) {
    return kernel.kind == OperationKind::SendRecv && kernel.call == kAbsent;
  });
  return profile;
}

// The first bytes decide: a database is an export of Nsight Systems, JSON begins with "{" or "[",
// everything else is lines of step times.
std::vector<StepProfile> read_step_profiles(const std::filesystem::path& file,
                                            const NsysOptions& options) {
  const std::string name = file.string();
  const bool report = file.extension() == ".nsys-rep" || file.extension() == ".qdrep";
  if (report || is_sqlite(file)) {
    std::vector<StepProfile> profiles;
    for (const GpuTrace& trace : read_nsys(file, options)) profiles.push_back(step_profile(trace));
    return profiles;
  }
  // Opened once, since it may be a pipe.
  InputStream input(file);
  const int first = (input.stream() >> std::ws).peek();
  if (first == std::istream::traits_type::eof()) refuse_profile(name, "is empty");
  if (first != '{' && first != '[') return {of_lines(name, as_utf8(text_of(name, input.stream())))};
  const KinetoFile read = read_kineto_stream(name, input.stream());
  if (!read.step_times_s.empty()) return {of_times(name, read.step_times_s)};
  return {step_profile(read.trace)};
}

}  // namespace trainyard

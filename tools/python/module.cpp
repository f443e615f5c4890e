// The extension module trainyard._core: the C++ library for the Python package around it
// (trainyard/*.py), which users import. Documents cross the border as JSON text.
#include <fmt/format.h>
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/reader/scenario.hpp"
#include "scenarios/reader/tables.hpp"
#include "scenarios/simulate/simulate.hpp"
#include "sim/base/data_directory.hpp"
#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "sim/render/page/charts.hpp"
#include "sim/render/page/page.hpp"
#include "sim/render/traces/chrome_trace.hpp"
#include "sim/render/traces/perfetto/perfetto_trace.hpp"
#include "sim/report/report.hpp"
#include "sim/report/result_json.hpp"
#include "tools/python/call.hpp"
#include "tools/python/studies.hpp"
#include "tools/studies/batch/fingerprint.hpp"

namespace trainyard::python {

namespace {

namespace py = pybind11;
using Json = nlohmann::ordered_json;

// --- errors: the classes of trainyard/errors.py ---

void raise(const char* name, const py::object& argument) {
  const py::object type = py::module_::import("trainyard.errors").attr(name);
  PyErr_SetObject(type.ptr(), type(argument).ptr());
}

// Other exceptions, such as that of a failed check, become RuntimeError by pybind11.
void translate(std::exception_ptr error) {
  try {
    std::rethrow_exception(std::move(error));
  } catch (const InputError& refused) {
    py::list problems;
    for (const Problem& one : refused.problems())
      problems.append(py::make_tuple(one.file, one.pointer, one.problem, one.hint));
    raise("InputError", problems);
  } catch (const RunError& failed) {
    raise("RunError", py::str(failed.what()));
  } catch (const std::filesystem::filesystem_error& refused) {
    py::list problems;
    problems.append(py::make_tuple(refused.path1().string(), "", refused.code().message(), ""));
    raise("InputError", problems);
  }
}

// --- arguments ---

Variant variant_of(std::string file, const std::vector<std::pair<std::string, std::string>>& set,
                   const std::optional<std::string>& document) {
  Variant variant{.file = std::move(file)};
  for (const auto& [path, value] : set) variant.changes.push_back({path, value});
  if (document)
    variant.document = std::make_shared<const Json>(parse_json(variant.file, *document));
  return variant;
}

GroupKind group_named(const std::string& name) {
  for (const GroupKind kind : group_kinds())
    if (to_string(kind) == name) return kind;
  std::string known;
  for (const GroupKind kind : group_kinds()) known += std::string(to_string(kind)) + " ";
  throw InputError(Problem{"what_if", "/free", "\"" + name + "\" is no kind of group",
                           "the kinds are " + known});
}

// A factor of times may be 0; one of a rate may not.
double factor_of(const std::string& name, double value) {
  const bool rate = name == "nvlink" || name == "network";
  if (std::isfinite(value) && value >= 0.0 && (value > 0.0 || !rate)) return value;
  throw InputError(Problem{"what_if", "/" + name,
                           fmt::format("{} is no factor of a {}", value, rate ? "rate" : "time"),
                           rate ? "give a number above 0; 1 changes nothing"
                                : "give a number from 0 on; 1 changes nothing"});
}

template <class Value>
Value argument(const std::string& name, const py::handle& value, const char* wanted) {
  try {
    return value.cast<Value>();
  } catch (const py::cast_error&) {
    throw py::type_error(name + " is " + wanted + ", not " + py::repr(value).cast<std::string>());
  }
}

WhatIf what_if_of(const py::kwargs& changes) {
  WhatIf what_if;
  const std::map<std::string, double WhatIf::*> factors = {
      {"nvlink", &WhatIf::nvlink},       {"network", &WhatIf::network},
      {"latency", &WhatIf::latency},     {"gemm", &WhatIf::gemm},
      {"attention", &WhatIf::attention}, {"memory_bound", &WhatIf::memory_bound}};
  const std::map<std::string, bool WhatIf::*> switches = {{"interference", &WhatIf::interference},
                                                          {"contention", &WhatIf::contention}};
  for (const auto& [key, value] : changes) {
    const auto name = key.cast<std::string>();
    if (const auto factor = factors.find(name); factor != factors.end()) {
      what_if.*(factor->second) = factor_of(name, argument<double>(name, value, "a number"));
    } else if (const auto toggle = switches.find(name); toggle != switches.end()) {
      what_if.*(toggle->second) = argument<bool>(name, value, "true or false");
    } else if (name == "free") {
      for (const auto& group :
           argument<std::vector<std::string>>(name, value, "a list of kinds of groups"))
        what_if.free.push_back(group_named(group));
    } else {
      throw py::type_error("there is no what-if \"" + name + "\"");
    }
  }
  return what_if;
}

TraceOptions trace_options(const std::optional<std::vector<std::uint32_t>>& ranks, bool all) {
  TraceOptions options{.all_ranks = all};
  if (ranks)
    for (const std::uint32_t rank : *ranks) options.ranks.emplace_back(rank);
  return options;
}

// --- functions of a run, without the GIL ---

// Other threads of Python run meanwhile. A finished run does not change, so several may read it at
// a time.
template <class Work>
auto without_gil(const Work& work) {
  const py::gil_scoped_release released;
  return work();
}

void write_trace(const Run& run, const std::string& file,
                 const std::optional<std::vector<std::uint32_t>>& ranks, bool all) {
  without_gil([&] {
    (is_perfetto_trace(file) ? write_perfetto_trace : write_chrome_trace)(
        run.result.view(), file, trace_options(ranks, all));
  });
}

std::string report_text(const Run& run, const std::string& name) {
  const ReportEntry* const report = find_report(name);
  if (report == nullptr)
    throw InputError(Problem{"report", "", "there is no report \"" + name + "\"",
                             "`trainyard list reports` names them"});
  return without_gil([&] { return report->text(run.result.view()); });
}

Run simulated(const Scenario& scenario, Memo& memo, const py::object& progress,
              const py::kwargs& what_if) {
  Call call(progress);
  const SimulateOptions options = call.options({.what_if = what_if_of(what_if)});
  return call.simulate([&] { return run(scenario, options, memo); });
}

double step_time(const Scenario& scenario, Memo& memo, const py::kwargs& what_if) {
  Call call(py::none{});
  const SimulateOptions options = call.options({.figures = false, .what_if = what_if_of(what_if)});
  return call.simulate([&] {
    const Result result = simulate(scenario, options, memo);
    return result.view().step_s();
  });
}

void bind_values(py::module_& module) {
  py::class_<Memo>(module, "Memo").def(py::init<>()).def_property_readonly("bytes", &Memo::bytes);
  py::class_<Variant>(module, "Variant")
      .def(py::init(&variant_of), py::arg("file"), py::arg("changes"), py::arg("document"))
      .def_property_readonly("key", &variant_key);
  py::class_<Scenario>(module, "Scenario")
      .def(py::init([](const Variant& variant) {
        return without_gil([&] { return load_variant(variant); });
      }))
      .def("resolved", [](const Scenario& scenario) { return to_line(resolved(scenario)); });
  py::class_<Answer>(module, "Answer")
      .def_readonly("json", &Answer::json)
      .def_readonly("text", &Answer::text)
      .def_readonly("html", &Answer::html)
      .def_readonly("svg", &Answer::svg);
}

void bind_run(py::module_& module) {
  py::class_<Run>(module, "Run")
      .def_readonly("scenario", &Run::scenario)
      .def("json",
           [](const Run& run) {
             return without_gil([&] { return to_line(result_json(run.result.view())); });
           })
      .def("report", &report_text)
      .def("svg",
           [](const Run& run) {
             return without_gil([&] { return pipeline_picture(run.result.view()); });
           })
      .def("page",
           [](const Run& run) {
             return without_gil([&] { return report_page({.view = run.result.view()}); });
           })
      .def("write_trace", &write_trace, py::arg("file"), py::arg("ranks"), py::arg("all_ranks"))
      .def("write_csv", [](const Run& run, const std::string& folder) {
        without_gil([&] { write_csv_directory(run.result.view(), folder); });
      });
  module.def("simulate", &simulated, py::arg("scenario"), py::arg("memo"), py::arg("progress"));
  module.def("step_time", &step_time, py::arg("scenario"), py::arg("memo"));
}

void bind_study_options(py::module_& module) {
  py::class_<StudyOptions>(module, "StudyOptions")
      .def(py::init<>())
      .def_readwrite("op", &StudyOptions::op)
      .def_readwrite("cluster", &StudyOptions::cluster)
      .def_readwrite("node", &StudyOptions::node)
      .def_readwrite("nodes", &StudyOptions::nodes)
      .def_readwrite("fabric", &StudyOptions::fabric)
      .def_readwrite("ranks", &StudyOptions::ranks)
      .def_readwrite("ranks_per_node", &StudyOptions::ranks_per_node)
      .def_readwrite("groups", &StudyOptions::groups)
      .def_readwrite("splits", &StudyOptions::splits)
      .def_readwrite("algorithms", &StudyOptions::algorithms)
      .def_readwrite("sizes", &StudyOptions::sizes)
      .def_readwrite("type", &StudyOptions::type)
      .def_readwrite("engine", &StudyOptions::engine)
      .def_readwrite("nccl_version", &StudyOptions::nccl_version)
      .def_readwrite("nccl_algo", &StudyOptions::nccl_algo)
      .def_readwrite("nccl_proto", &StudyOptions::nccl_proto)
      .def_readwrite("nccl_min_channels", &StudyOptions::nccl_channels_least)
      .def_readwrite("nccl_max_channels", &StudyOptions::nccl_channels_most)
      .def_readwrite("measured", &StudyOptions::measured)
      .def_readwrite("profile", &StudyOptions::profile);
}

void bind_studies(py::module_& module) {
  module.def("explain", [](const Run& run, std::size_t processes, const py::object& progress) {
    Call call(progress);
    return call.study([&] { return explain(run, processes, call); });
  });
  module.def("memory", [](const Run& run, const Variant& variant, bool search,
                          std::size_t processes, const py::object& progress) {
    Call call(progress);
    return call.study([&] { return memory(run, variant, search, processes, call); });
  });
  module.def("compare", [](const std::vector<Variant>& variants, std::size_t processes,
                           const py::object& progress) {
    Call call(progress);
    return call.study([&] { return compare(variants, processes, call); });
  });
  module.def("goodput", [](const std::vector<std::pair<std::string, Scenario>>& scenarios,
                           double days, double tokens, std::size_t runs, std::uint64_t seed,
                           std::optional<double> price, const py::object& progress) {
    GoodputQuestion question{
        .days = days, .tokens = tokens, .runs = runs, .seed = seed, .price_per_gpu_hour = price};
    for (const auto& [name, scenario] : scenarios) question.scenarios.push_back({name, scenario});
    Call call(progress);
    return call.study([&] { return goodput(std::move(question), call); });
  });
  module.def("jobs", [](const Variant& described, std::uint32_t shift, double priorities,
                        const py::object& progress) {
    Call call(progress);
    return call.simulate([&] { return jobs(described, shift, priorities, call); });
  });
  module.def("sweep", [](const std::vector<Variant>& variants, const std::string& journal,
                         std::size_t processes, const py::object& progress) {
    Call call(progress);
    return call.study([&] { return sweep(variants, journal, processes, call); });
  });
  module.def("search", [](const SearchChoice& choice, const py::object& progress) {
    Call call(progress);
    return call.study([&] { return search(choice, call); });
  });
  module.def("collective", [](const StudyOptions& choice) {
    Call call(py::none{});
    return call.simulate([&] { return collective(choice); });
  });
  bind_study_options(module);
  module.def("against", [](const Run& run, const std::vector<std::string>& traces,
                           const std::vector<std::uint32_t>& ranks, const std::string& step_range) {
    return without_gil([&] { return against(run, traces, ranks, step_range); });
  });
  py::class_<SearchChoice>(module, "SearchChoice")
      .def(py::init<>())
      .def_readwrite("scenario", &SearchChoice::scenario)
      .def_readwrite("over", &SearchChoice::over)
      .def_readwrite("journal", &SearchChoice::journal)
      .def_readwrite("top", &SearchChoice::top)
      .def_readwrite("processes", &SearchChoice::processes)
      .def_readwrite("seconds", &SearchChoice::seconds)
      .def_readwrite("headroom", &SearchChoice::headroom)
      .def_readwrite("price_per_gpu_hour", &SearchChoice::price_per_gpu_hour)
      .def_readwrite("exhaustive", &SearchChoice::exhaustive)
      .def_readwrite("refine", &SearchChoice::refine);
}

// Binds what sweeps on other executors need: rows made elsewhere, and the journal that keeps them.
void bind_rows(py::module_& module) {
  module.def("state", [] { return without_gil([] { return state_fingerprint(data_roots()); }); });
  module.def("row", [](const Variant& variant, const std::string& state) {
    Call call(py::none{});
    return call.simulate([&] { return to_line(variant_row(variant, state)); });
  });
  module.def("crashed_row", [](const Variant& variant, const std::string& message) {
    return to_line(crashed_row(variant, message));
  });
  py::class_<Journal>(module, "Journal")
      .def(py::init([](const std::string& file) {
        return std::unique_ptr<Journal>(new Journal(open_journal(file)));
      }))
      .def_property_readonly("state", &Journal::state)
      .def("has", &Journal::has)
      .def("append",
           [](Journal& journal, const std::string& row) {
             without_gil([&] { journal.append(parse_json("row", row)); });
           })
      .def("drop_outdated",
           [](Journal& journal, const std::vector<Variant>& variants) {
             return without_gil([&] { return drop_outdated(journal, variants); });
           })
      .def("rows", [](const Journal& journal) {
        std::vector<std::string> rows;
        for (const Json& row : journal.rows()) rows.push_back(to_line(row));
        return rows;
      });
}

}  // namespace

void bind(py::module_& module) {
  py::register_exception_translator(&translate);
  bind_values(module);
  bind_run(module);
  bind_studies(module);
  bind_rows(module);
  module.def("names", &names);
  module.def("schema", [] { return to_line(scenario_schema()); });
  module.def("read_json",
             [](const std::string& file) { return to_line(parse_json(file, read_file(file))); });
  module.def("fingerprint", &text_fingerprint);
  module.attr("version") = TRAINYARD_VERSION;
}

}  // namespace trainyard::python

PYBIND11_MODULE(_core, module) { trainyard::python::bind(module); }

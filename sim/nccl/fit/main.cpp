// fit_nccl MEASURED [DATA DATE]: fits the machine model of NCCL to measurements and prints its
// errors.
//
//    fit_nccl measured/collectives sim/nccl/data 2026-11-21
//
// Reads the tables and logs in MEASURED and rewrites machine_ampere.json, machine_hopper.json,
// machine_blackwell.json, machine_protocols.json, machine_network.json, spread.json and errors.md
// in DATA. With MEASURED alone it writes nothing and evaluates the shipped constants. The output
// is deterministic: the same rows give the same bytes.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>

#include "sim/base/error.hpp"
#include "sim/base/files.hpp"
#include "sim/nccl/fit/fit_machine.hpp"
#include "sim/nccl/fit/fit_spread.hpp"
#include "sim/nccl/fit/samples.hpp"

namespace {

using namespace trainyard;
using namespace trainyard::nccl;
using namespace trainyard::nccl::fit;
using Json = nlohmann::ordered_json;

std::string line(const char* title, const ErrorTable& table) {
  return fmt::format("| {} | {} | {} |\n", title, to_text(table.all()),
                     to_text(table.from_one_mebibyte()));
}

std::string heading(const char* title) {
  return fmt::format("\n## {}\n\n| | all sizes | from 1 MiB |\n|---|---|---|\n", title);
}

std::string judged(const char* title, const Constants& constants, const Selection& rows) {
  const ErrorTable table = errors_of(constants, rows);
  return heading(title) + line("NCCL's own model", unfitted_errors(rows)) +
         line("machine model", table) + "\n" + table.to_markdown();
}

// Tables with the errors of `constants` on one node (by GPU), on a table that was not fitted, and
// on several nodes (by log), each compared with NCCL's own model.
std::string errors_markdown(const Constants& constants, const Samples& samples) {
  return judged("One node", constants, select(samples, Rows::OneNode)) +
         judged("One node, a table that nobody fitted", constants,
                select(samples, Rows::Unfitted)) +
         judged("Several nodes", constants, select(samples, Rows::SeveralNodes)) +
         "\nBy fabric and number of nodes:\n\n" +
         errors_by_nodes(constants, select(samples, Rows::SeveralNodes)).to_markdown();
}

// Errors on rows that were left out of the fit. Each part needs a new fit, which takes seconds.
std::string left_out_markdown(const Samples& samples) {
  const Selection alone = select(samples, Rows::OneNode);
  const Selection several = select(samples, Rows::SeveralNodes);
  const Selection all = select_fitted(samples);
  const ErrorTable tables = cross_validate(alone, Split::Source);
  const ErrorTable logs = cross_validate(all, Split::Source, &several);
  const ErrorTable sites = cross_validate(all, Split::Site, &several);
  return heading("Rows left out of the fit") +
         line("one node: every third row", cross_validate(alone, Split::Thirds)) +
         line("one node: a number of ranks", cross_validate(alone, Split::Ranks)) +
         line("one node: a table (of one release) or log", tables) +
         line("several nodes: every third row", cross_validate(all, Split::Thirds, &several)) +
         line("several nodes: a log", logs) + line("several nodes: a cluster", sites) +
         line("several nodes: the rows on more than 64 nodes",
              cross_validate(all, Split::ManyNodes, &several)) +
         line("several nodes: InfiniBand, which is predicted from the other fabrics",
              cross_validate(all, Split::Verbs, &several)) +
         "\nOne node, a table or log left out:\n\n" + tables.to_markdown() +
         "\nSeveral nodes, a cluster left out, by fabric and number of nodes:\n\n" +
         sites.to_markdown();
}

// The spread of the rows of one node without their table or log, and of those of several nodes
// without their cluster.
std::vector<nccl::CallSpread> spreads_of(const Samples& samples) {
  std::vector<Residual> residuals = left_out(select(samples, Rows::OneNode), Split::Source);
  const Selection several = select(samples, Rows::SeveralNodes);
  for (Residual& one : left_out(select_fitted(samples), Split::Site, &several))
    residuals.push_back(std::move(one));
  return fit_spreads(residuals);
}

std::string spread_markdown(const std::vector<nccl::CallSpread>& spreads) {
  return "\n## Measured over predicted times\n\nOne call in twenty is below `low` and one above "
         "`high`, on clusters (on one node: tables and logs) that were left out of the fit. Each "
         "counts alike.\n\n" +
         to_markdown(spreads);
}

// The text of errors.md, which is stored next to the constants.
std::string page(const Constants& constants, const Samples& samples,
                 const std::vector<nccl::CallSpread>& spreads) {
  return "# Errors of the machine model of NCCL\n\n"
         "Predicted over measured times less one: the mean of its magnitude, its mean (bias), the "
         "worst and the rows.\nWritten by `fit_nccl measured/collectives "
         "sim/nccl/data DATE` together with the constants.\n" +
         errors_markdown(constants, samples) + left_out_markdown(samples) +
         spread_markdown(spreads);
}

constexpr const char* kCommand = "fit_nccl measured/collectives sim/nccl/data {}";

// Rounds to four significant digits, the precision of the files.
double four_digits(double value) {
  if (value == 0.0) return 0.0;
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 3.0);
  return std::stod(fmt::format("{:.6g}", std::round(value / unit) * unit));
}

Json error_json(const ErrorSum& sum) {
  return {{"rows", sum.rows},
          {"mean_absolute", four_digits(sum.mean_absolute())},
          {"bias", four_digits(sum.bias())}};
}

Json evidence(const Constants& constants, const Selection& rows) {
  const ErrorTable table = errors_of(constants, rows);
  return {{"all_sizes", error_json(table.all())},
          {"from_1_MiB", error_json(table.from_one_mebibyte())}};
}

template <class Model>
Json parameters_json(const Model& model, std::span<const Parameter<Model>> parameters) {
  Json json = Json::object();
  for (const auto& parameter : parameters)
    json[std::string(parameter.key)] = model.*parameter.value;
  return json;
}

template <class Model>
void round_all(Model& model, std::span<const Parameter<Model>> parameters) {
  for (const auto& parameter : parameters)
    model.*parameter.value = four_digits(model.*parameter.value);
}

std::string sources_of(const Selection& rows) {
  std::set<std::string> names;
  for (const Sample* row : rows)
    if (row->weight > 0.0) names.insert(row->source);
  return fmt::format("{}", fmt::join(names, ", "));
}

struct Destination {
  std::string folder;
  std::string date;
};

void write(const Json& json, const Destination& destination, const char* name) {
  write_file(std::filesystem::path(destination.folder) / name, json.dump(2) + "\n");
}

void write_machine(const Constants& constants, Generation generation, const char* name,
                   const Selection& rows, const Destination& destination) {
  Selection own;
  for (const Sample* row : rows)
    if (row->one_node() && row->generation() == generation) own.push_back(row);
  const MachineModel& machine = constants.machines.at(generation);
  const Json json = {
      {"description",
       fmt::format("Machine model of NCCL on one node, {}: microseconds, GB/s of one GPU", name)},
      {"source", fmt::format("least squares on log time over {}", sources_of(own))},
      {"command", fmt::format(kCommand, destination.date)},
      {"measured_on", machine.measured_on},
      {"link_rate", machine.link_rate},
      {"fitted", parameters_json(machine, machine_parameters())},
      {"errors", evidence(constants, own)}};
  write(json, destination, fmt::format("machine_{}.json", name).c_str());
}

void write_protocols(const Constants& constants, const Selection& rows,
                     const Destination& destination) {
  Selection own;
  for (const Sample* row : rows)
    if (row->one_node()) own.push_back(row);
  const Json json = {{"description",
                      "Machine model of NCCL on one node, what holds for every GPU: microseconds, "
                      "steps, shares of "
                      "a GPU's NVLink"},
                     {"source", fmt::format("least squares on log time over {}", sources_of(own))},
                     {"command", fmt::format(kCommand, destination.date)},
                     {"fitted", parameters_json(constants.protocols, protocol_parameters())},
                     {"errors", evidence(constants, own)}};
  write(json, destination, "machine_protocols.json");
}

Json fabric_json(const Fabric& fabric) {
  Json json = {{"latency_us", fabric.latency_us},
               {"efficiency", fabric.efficiency},
               {"exchange_share", fabric.exchange_share}};
  if (fabric.rendezvous_us) json["rendezvous_us"] = *fabric.rendezvous_us;
  if (fabric.inject_us > 0.0) json["inject_us"] = fabric.inject_us;
  return json;
}

void write_network(const Constants& constants, const Selection& rows,
                   const Destination& destination) {
  Selection own;
  for (const Sample* row : rows)
    if (!row->one_node()) own.push_back(row);
  Json fabrics = {{"source",
                   "fitted with the rest; infiniband's latency is that of its adapters "
                   "over one switch, 1.0 to 1.3 us, and its share of the rate 48.5 of 50 GB/s; an "
                   "exchange_share of 0.9 is a guess where no all_to_all was measured"}};
  for (const auto& [name, fabric] : constants.fabrics) fabrics[name] = fabric_json(fabric);
  const Json json = {{"description",
                      "Machine model of NCCL between nodes: the time of a message in addition to "
                      "the latency of the "
                      "fabric (microseconds), and the fabrics as the measured machines had them"},
                     {"source", fmt::format("least squares on log time over {}", sources_of(own))},
                     {"command", fmt::format(kCommand, destination.date)},
                     {"fitted", parameters_json(constants.messages, message_parameters())},
                     {"fabrics", fabrics},
                     {"errors", evidence(constants, own)}};
  write(json, destination, "machine_network.json");
}

void write_spreads(const std::vector<nccl::CallSpread>& spreads, const Selection& rows,
                   const Destination& destination) {
  constexpr nccl::CallSpread kAll;
  Json classes = Json::array();
  for (const nccl::CallSpread& spread : spreads) {
    Json json = {{"nodes_least", spread.nodes_least}};
    if (spread.nodes_most != kAll.nodes_most) json["nodes_most"] = spread.nodes_most;
    json["bytes_least"] = spread.bytes_least;
    if (spread.bytes_most != kAll.bytes_most) json["bytes_most"] = spread.bytes_most;
    json["low"] = four_digits(spread.low);
    json["high"] = four_digits(spread.high);
    json["calls"] = spread.calls;
    json["clusters"] = spread.clusters;
    json["inside"] = four_digits(spread.inside);
    classes.push_back(std::move(json));
  }
  write({{"description",
          "Measured over predicted times of NCCL's calls on clusters that were left out of the "
          "fit: 5 and 95 % quantiles, each cluster counting alike"},
         {"source", fmt::format("all rows of {}", sources_of(rows))},
         {"command", fmt::format(kCommand, destination.date)},
         {"classes", std::move(classes)}},
        destination, "spread.json");
}

// The constants, rounded to four significant digits.
Constants rounded(Constants constants) {
  for (auto& [generation, machine] : constants.machines) round_all(machine, machine_parameters());
  round_all(constants.protocols, protocol_parameters());
  round_all(constants.messages, message_parameters());
  for (auto& [name, fabric] : constants.fabrics)
    for (double* value :
         {&fabric.latency_us, &fabric.efficiency, &fabric.exchange_share, &fabric.inject_us,
          fabric.rendezvous_us ? &*fabric.rendezvous_us : &fabric.inject_us})
      *value = four_digits(*value);
  return constants;
}

// Rewrites machine_<generation>.json, machine_protocols.json and machine_network.json. Throws
// InputError if the folder is not writable.
void write_constants(const Constants& constants, const Selection& rows,
                     const Destination& destination) {
  write_machine(constants, Generation::Ampere, "ampere", rows, destination);
  write_machine(constants, Generation::Hopper, "hopper", rows, destination);
  write_machine(constants, Generation::Blackwell, "blackwell", rows, destination);
  write_protocols(constants, rows, destination);
  write_network(constants, rows, destination);
}

}  // namespace

int main(int count, char** values) {
  const std::span<char*> arguments(values, static_cast<std::size_t>(count));
  if (arguments.size() != 2 && arguments.size() != 4) {
    fmt::print(stderr, "usage: fit_nccl MEASURED [DATA DATE]\n");
    return 2;
  }
  try {
    const Samples samples = read_samples(arguments[1]);
    const Selection rows = select_fitted(samples);
    const bool write = arguments.size() == 4;
    // The errors are those of the rounded constants, which the files contain.
    const Constants constants = write ? rounded(fit_constants(rows)) : shipped_constants();
    fmt::print("{}", errors_markdown(constants, samples));
    if (!write) return 0;
    write_constants(constants, rows, {.folder = arguments[2], .date = arguments[3]});
    const std::vector<nccl::CallSpread> spreads = spreads_of(samples);
    write_spreads(spreads, rows, {.folder = arguments[2], .date = arguments[3]});
    write_file(std::filesystem::path(arguments[2]) / "errors.md",
               page(constants, samples, spreads));
  } catch (const InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
  return 0;
}

#include "sim/nccl/fit/fit_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/data_directory.hpp"
#include "sim/base/json_reader.hpp"
#include "sim/nccl/fit/least_squares.hpp"

namespace trainyard::nccl::fit {

Constants shipped_constants() {
  Constants constants;
  for (const auto& [generation, sm] : {std::pair{Generation::Ampere, 80U},
                                       {Generation::Hopper, 90U},
                                       {Generation::Blackwell, 100U}})
    constants.machines[generation] = *machine_model(sm);
  constants.protocols = protocol_model();
  constants.messages = message_model();
  JsonFile file = JsonFile::read(data_file("sim/nccl/data", "machine_network"));
  for (const auto& [name, fabric] : file.document().at("fabrics").items()) {
    if (name == "source") continue;
    constants.fabrics[name] = {.latency_us = fabric.at("latency_us").get<double>(),
                               .efficiency = fabric.at("efficiency").get<double>(),
                               .exchange_share = fabric.at("exchange_share").get<double>(),
                               .rendezvous_us = {},
                               .inject_us = fabric.value("inject_us", 0.0)};
    if (fabric.contains("rendezvous_us"))
      constants.fabrics[name].rendezvous_us = fabric.at("rendezvous_us").get<double>();
  }
  return constants;
}

bool can_predict(const Constants& constants, const Sample& sample) {
  return constants.machines.contains(sample.generation()) &&
         (sample.one_node() || constants.fabrics.contains(sample.fabric));
}

double predict_us(const Constants& constants, const Sample& sample) {
  return predicted(constants, sample).time_us(sample.bytes);
}

Prediction predicted(const Constants& constants, const Sample& sample) {
  Machine machine{.gpu = constants.machines.at(sample.generation()),
                  .protocols = constants.protocols,
                  .messages = constants.messages,
                  .network = {}};
  if (!sample.one_node()) {
    // The solver knows no upper limit, so the one of the efficiency is applied here.
    const Fabric& fabric = constants.fabrics.at(sample.fabric);
    machine.network = {.latency_us = fabric.latency_us,
                       .rate = sample.nic_rate * std::min(fabric.efficiency, 0.97),
                       .nics = sample.nics,
                       .exchange_share = fabric.exchange_share,
                       .rendezvous_us = fabric.rendezvous_us,
                       .rendezvous_bytes = sample.rendezvous_bytes.value_or(0.0),
                       .inject_us = fabric.inject_us,
                       .inject_bytes = sample.inject_bytes.value_or(0.0)};
  }
  // NCCL's tuning model does not cover all_to_all and send_recv, so they have their own formula.
  const bool exchange = sample.op == CollectiveOp::AllToAll || sample.op == CollectiveOp::SendRecv;
  return exchange ? exchange_time(machine, *sample.communicator, sample.op, sample.bytes)
                  : machine_time(machine, *sample.communicator, sample.choice, sample.bytes);
}

std::optional<double> unfitted_us(const Sample& sample) {
  if (sample.op == CollectiveOp::AllToAll || sample.op == CollectiveOp::SendRecv) return {};
  return sample.choice.prediction.time_us(sample.bytes);
}

namespace {

constexpr double kMebi = 1048576.0;

}  // namespace

std::size_t band_of(double bytes) {
  if (bytes <= 65536.0) return 0;
  if (bytes < kMebi) return 1;
  return bytes <= 64.0 * kMebi ? 2 : 3;
}

void ErrorSum::add(double relative) {
  ++rows;
  absolute += std::abs(relative);
  signed_sum += relative;
  if (std::abs(relative) > std::abs(worst)) worst = relative;
}

void ErrorTable::add(const ErrorKey& key, double ratio) {
  const double relative = ratio - 1.0;
  cells_[{key.machine, key.op}][band_of(key.bytes)].add(relative);
  all_.add(relative);
  if (key.bytes >= kMebi) large_.add(relative);
}

std::string to_text(const ErrorSum& sum) {
  if (sum.rows == 0) return "-";
  return fmt::format("{:.1f} % (bias {:+.1f}, worst {:+.0f}, n={})", 100.0 * sum.mean_absolute(),
                     100.0 * sum.bias(), 100.0 * sum.worst, sum.rows);
}

std::string ErrorTable::to_markdown() const {
  std::string text = "| machine | operation |";
  for (const char* band : kBands) text += fmt::format(" {} |", band);
  text += "\n|---|---|---|---|---|---|\n";
  for (const auto& [key, bands] : cells_) {
    text += fmt::format("| {} | {} |", key.first, key.second);
    for (const ErrorSum& sum : bands) text += fmt::format(" {} |", to_text(sum));
    text += "\n";
  }
  return text;
}

namespace {

// Initial values of the right order of magnitude, equal for all generations.
MachineModel first_machine(double link_rate, std::vector<std::uint32_t> measured_on) {
  return {.launch_us = 6.0,
          .ll_step_us = 0.9,
          .simple_step_us = 4.0,
          .channel_rate = 12.0,
          .copy_rate = 900.0,
          .link_rate = link_rate,
          .measured_on = std::move(measured_on)};
}

constexpr ProtocolModel kFirstProtocols{.ll128_step_us = 1.6,
                                        .ll_share = 0.6,
                                        .ll128_share = 0.75,
                                        .ring_share = 0.98,
                                        .own_share = 2.0,
                                        .nvls_us = 25.0,
                                        .nvls_round_steps = 2.0,
                                        .nvls_share = 0.8,
                                        .exchange_ll_us = 3.0,
                                        .exchange_steps = 2.5,
                                        .exchange_ll_share = 0.3,
                                        .exchange_share = 0.8};
constexpr MessageModel kFirstMessages{.ll_us = 3.5,
                                      .ll128_us = 10.0,
                                      .simple_us = 10.0,
                                      .exchange_us = 1.0,
                                      .ll_rate = 4.0,
                                      .turn_us = 5.0,
                                      .late_share = 0.05,
                                      .tree_fill = 1.0,
                                      .nvls_tree_share = 0.1,
                                      .host_bridge_share = 0.75};
// Latency and rate of these adapters are known (1.0 to 1.3 us over one switch, 48.5 of 50 GB/s);
// those of the other fabrics are fitted.
constexpr const char* kReference = "infiniband";
constexpr Fabric kReferenceFabric{.latency_us = 1.15, .efficiency = 0.97, .exchange_share = 0.9};
constexpr Fabric kFirstFabric{.latency_us = 5.0, .efficiency = 0.85, .exchange_share = 0.9};
constexpr double kEfficiencyMost = 0.97;
constexpr double kFirstRendezvousUs = 8.0;
constexpr double kFirstInjectUs = 12.0;

// Pointers to the constants that a fit changes; their values are positive.
using Handles = std::vector<double*>;

std::vector<double> values_of(const Handles& handles) {
  std::vector<double> values;
  for (const double* handle : handles) values.push_back(*handle);
  return values;
}

void assign(const Handles& handles, const std::vector<double>& values) {
  for (std::size_t i = 0; i < handles.size(); ++i) *handles[i] = values[i];
}

// Fits the constants to which the handles point; they are members of `constants`.
void fit(Constants& constants, const Handles& handles, const Selection& rows) {
  if (rows.empty()) return;
  // Logarithms weigh twice and half the measured time equally.
  const Residuals residuals = [&](const std::vector<double>& values) {
    assign(handles, values);
    std::vector<double> made;
    made.reserve(rows.size());
    for (const Sample* row : rows)
      made.push_back(std::sqrt(row->weight) * std::log(predict_us(constants, *row) / row->time_us));
    return made;
  };
  assign(handles, fit_positive(values_of(handles), residuals, {}));
}

template <class Model>
void add_handles(Handles& handles, Model& model, std::span<const Parameter<Model>> parameters) {
  for (const auto& parameter : parameters) handles.push_back(&(model.*parameter.value));
}

// Fits all generations in one step, because they share the constants of the protocols.
void fit_nodes(Constants& constants, const Selection& rows) {
  constants.machines = {{Generation::Ampere, first_machine(240.0, {80})},
                        {Generation::Hopper, first_machine(370.8, {90})},
                        {Generation::Blackwell, first_machine(721.8, {100, 103})}};
  constants.protocols = kFirstProtocols;
  Selection own;
  for (const Sample* row : rows)
    if (row->one_node() && constants.machines.contains(row->generation())) own.push_back(row);
  Handles handles;
  for (auto& [generation, machine] : constants.machines)
    add_handles(handles, machine, machine_parameters());
  add_handles(handles, constants.protocols, protocol_parameters());
  fit(constants, handles, own);
}

// Fits the constants of messages and fabrics to rows of several nodes, with the constants of the
// nodes held fixed. Rendezvous and inject times are fitted only for fabrics that have their
// thresholds.
void fit_networks(Constants& constants, const Selection& rows) {
  constants.messages = kFirstMessages;
  constants.fabrics[kReference] = kReferenceFabric;
  Selection own;
  for (const Sample* row : rows) {
    if (row->one_node() || !constants.machines.contains(row->generation())) continue;
    own.push_back(row);
    Fabric& fabric = constants.fabrics[row->fabric];
    fabric = row->fabric == kReference ? kReferenceFabric : kFirstFabric;
    if (row->rendezvous_bytes) fabric.rendezvous_us = kFirstRendezvousUs;
    if (row->inject_bytes) fabric.inject_us = kFirstInjectUs;
  }
  Handles handles;
  add_handles(handles, constants.messages, message_parameters());
  for (auto& [name, fabric] : constants.fabrics) {
    handles.push_back(&fabric.exchange_share);
    if (fabric.rendezvous_us) handles.push_back(&*fabric.rendezvous_us);
    if (fabric.inject_us > 0.0) handles.push_back(&fabric.inject_us);
    if (name == kReference) continue;
    handles.push_back(&fabric.latency_us);
    handles.push_back(&fabric.efficiency);
  }
  fit(constants, handles, own);
  for (auto& [name, fabric] : constants.fabrics)
    // No fabric is more efficient than the reference.
    fabric.efficiency = std::min(fabric.efficiency, kEfficiencyMost);
}

// The kind of a row: the properties that select the constants on which its time depends. Rows of
// other kinds do not determine these constants.
std::string kind_of(const Sample& sample, Split split) {
  const bool exchange = sample.op == CollectiveOp::AllToAll || sample.op == CollectiveOp::SendRecv;
  const bool large = sample.one_node() && sample.communicator->ranks > 8;
  // Six letters of the choice are its algorithm and the start of its protocol: "Ring/L" for LL and
  // LL128, "Ring/S", "NVLS/S", "NVLSTr".
  return fmt::format("{} {} {}", static_cast<int>(sample.generation()),
                     exchange ? to_string(sample.op) : to_text(sample.choice).substr(0, 6),
                     split == Split::Ranks && large ? "large"
                     : split == Split::Verbs        ? ""
                                                    : sample.fabric);
}

constexpr std::uint32_t kManyNodes = 64;

// Split::Ranks leaves out only numbers of ranks up to 8; rows with more are always in the fit.
bool may_leave(const Sample& sample, Split split) {
  if (split == Split::ManyNodes) return sample.communicator->nodes > kManyNodes;
  if (split == Split::Verbs) return sample.fabric == kReference;
  return split != Split::Ranks || sample.communicator->ranks <= 8;
}

std::string part_of(const Sample& sample, std::size_t index, Split split) {
  if (split == Split::Thirds) return std::to_string(index % 3);
  if (split == Split::Ranks)
    return fmt::format("{} {}", static_cast<int>(sample.generation()), sample.communicator->ranks);
  if (split == Split::ManyNodes)
    return sample.communicator->nodes > kManyNodes ? "many nodes" : "other nodes";
  if (split == Split::Verbs) return sample.fabric;
  if (!sample.one_node()) return split == Split::Site ? sample.site : sample.source;
  return fmt::format("{} {}", sample.source, sample.communicator->constants.version);
}

std::string nodes_name(const Sample& sample) {
  const std::uint32_t nodes = sample.communicator->nodes;
  return fmt::format("{}, {} nodes", sample.fabric,
                     nodes <= 8            ? "2 to 8"
                     : nodes <= kManyNodes ? "9 to 64"
                                           : "more");
}

// The line of the error table for a row that is left out.
std::string line_of(const Sample& sample, const std::string& part, Split split) {
  if (split == Split::Source) return part;
  return split > Split::Source ? nodes_name(sample) : machine_name(sample);
}

void judge(const Constants& constants, const Sample& row, ErrorTable& table,
           const std::string& line) {
  table.add({line, std::string(to_string(row.op)), row.bytes},
            predict_us(constants, row) / row.time_us);
}

}  // namespace

Selection select(const Samples& samples, Rows rows) {
  Selection chosen;
  for (const Sample& sample : samples.rows) {
    const Rows kind = !sample.fitted      ? Rows::Unfitted
                      : sample.one_node() ? Rows::OneNode
                                          : Rows::SeveralNodes;
    if (kind == rows && sample.generation() != Generation::Volta) chosen.push_back(&sample);
  }
  return chosen;
}

Selection select_fitted(const Samples& samples) {
  Selection chosen = select(samples, Rows::OneNode);
  for (const Sample* row : select(samples, Rows::SeveralNodes)) chosen.push_back(row);
  return chosen;
}

Constants fit_constants(const Selection& rows) {
  Constants constants;
  fit_nodes(constants, rows);
  fit_networks(constants, rows);
  return constants;
}

// Every part is left out once and predicted with constants fitted to the rest. A row counts only if
// the rest contains rows of its kind.
std::vector<Residual> left_out(const Selection& rows, Split split, const Selection* judged) {
  std::set<std::string> parts;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (may_leave(*rows[i], split)) parts.insert(part_of(*rows[i], i, split));
  const auto is_judged = [&](const Sample* row) {
    return judged == nullptr || std::find(judged->begin(), judged->end(), row) != judged->end();
  };
  std::vector<Residual> residuals;
  for (const std::string& part : parts) {
    Selection kept;
    Selection out_of_fit;
    std::set<std::string> kinds;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const bool out = part_of(*rows[i], i, split) == part;
      (out ? out_of_fit : kept).push_back(rows[i]);
      if (!out) kinds.insert(kind_of(*rows[i], split));
    }
    const Constants constants = fit_constants(kept);
    for (const Sample* row : out_of_fit)
      if (kinds.contains(kind_of(*row, split)) && can_predict(constants, *row) && is_judged(row))
        residuals.push_back({row, predict_us(constants, *row) / row->time_us, part});
  }
  return residuals;
}

ErrorTable cross_validate(const Selection& rows, Split split, const Selection* judged) {
  ErrorTable table;
  for (const Residual& one : left_out(rows, split, judged))
    table.add({line_of(*one.sample, one.part, split), std::string(to_string(one.sample->op)),
               one.sample->bytes},
              one.ratio);
  return table;
}

ErrorTable errors_of(const Constants& constants, const Selection& rows) {
  ErrorTable table;
  for (const Sample* row : rows)
    if (can_predict(constants, *row)) judge(constants, *row, table, machine_name(*row));
  return table;
}

ErrorTable errors_by_nodes(const Constants& constants, const Selection& rows) {
  ErrorTable table;
  for (const Sample* row : rows)
    if (can_predict(constants, *row)) judge(constants, *row, table, nodes_name(*row));
  return table;
}

ErrorTable unfitted_errors(const Selection& rows) {
  ErrorTable table;
  for (const Sample* row : rows)
    if (const auto expected = unfitted_us(*row))
      table.add({machine_name(*row), std::string(to_string(row->op)), row->bytes},
                *expected / row->time_us);
  return table;
}

std::string machine_name(const Sample& sample) {
  const bool alone = sample.site == sample.source;
  if (!sample.one_node())
    return alone ? sample.source
                 : fmt::format("{}, {} nodes", sample.site, sample.communicator->nodes);
  constexpr std::array kNames{"V100", "A100", "H100", "B200"};
  constexpr std::uint32_t kServer = 8;  // more GPUs behind one switch are a rack
  const char* rack = sample.communicator->ranks > kServer ? ", rack" : "";
  return std::string(kNames.at(static_cast<std::size_t>(sample.generation()))) + rack;
}

}  // namespace trainyard::nccl::fit

#include "models/collectives/nccl/fit/fit_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "models/collectives/nccl/fit/least_squares.hpp"

namespace trainyard::nccl::fit {

namespace {

// Guesses of the right order; the same for all generations but for the links.
MachineModel first_guess(double link_rate) {
  return {.launch_us = 6.0,
          .ll_step_us = 0.9,
          .ll128_step_us = 1.6,
          .simple_step_us = 4.0,
          .ll_channel_rate = 12.0,
          .ll_rate = 0.6 * link_rate,
          .ll128_rate = 0.75 * link_rate,
          .ring_efficiency = 0.98,
          .own_rate = 700.0,
          .nvls_us = 25.0,
          .nvls_round_us = 6.0,
          .nvls_rate = 0.8 * link_rate,
          .exchange_ll_us = 3.0,
          .exchange_us = 9.0,
          .exchange_ll_rate = 0.4 * link_rate,
          .exchange_rate = 0.85 * link_rate,
          .exchange_own_rate = 900.0,
          .link_rate = link_rate,
          .releases = {{.from = "2.29", .exchange_ll_by_channel = false}}};
}

constexpr MessageModel kFirstMessages{.ll_us = 3.5,
                                      .ll128_us = 5.0,
                                      .simple_us = 10.0,
                                      .exchange_us = 1.0,
                                      .pipeline = 2.0,
                                      .nvls_tree_share = 0.1,
                                      .nvls_pipeline = 0.7};
// Latency and rate of its adapters are known (1.0 to 1.3 us over one switch, 48.5 of 50 GB/s); the
// others' are fitted.
constexpr const char* kReference = "infiniband";
constexpr Fabric kReferenceFabric{.latency_us = 1.15, .efficiency = 0.97, .exchange_share = 0.9};
constexpr Fabric kFirstFabric{.latency_us = 5.0, .efficiency = 0.85, .exchange_share = 0.9};
constexpr double kEfficiencyMost = 0.97;
constexpr double kExtraGuessUs = 40.0;

// Constants as one list of positive numbers.
using Handles = std::vector<double*>;

std::vector<double> values_of(const Handles& handles) {
  std::vector<double> values;
  for (const double* handle : handles) values.push_back(*handle);
  return values;
}

void assign(const Handles& handles, const std::vector<double>& values) {
  for (std::size_t i = 0; i < handles.size(); ++i) *handles[i] = values[i];
}

// Improves what the handles point at within `constants`.
void fit(Constants& constants, const Handles& handles, const Selection& rows) {
  if (rows.empty()) return;
  const Residuals residuals = [&](const std::vector<double>& values) {
    assign(handles, values);
    std::vector<double> made;
    made.reserve(rows.size());
    for (const Sample* row : rows)
      made.push_back(std::log(predict_us(constants, *row) / row->time_us));
    return made;
  };
  assign(handles, fit_positive(values_of(handles), residuals, {}));
}

void fit_generation(Constants& constants, Generation generation, double link_rate,
                    const Selection& rows) {
  MachineModel& machine = constants.machines[generation];
  machine = first_guess(link_rate);
  Handles handles;
  for (const auto& parameter : machine_parameters()) handles.push_back(&(machine.*parameter.value));
  if (generation == Generation::Blackwell) {
    machine.releases.front().ll128_extra_us = kExtraGuessUs;
    handles.push_back(&machine.releases.front().ll128_extra_us);
  }
  Selection own;
  for (const Sample* row : rows)
    if (row->one_node() && row->generation() == generation) own.push_back(row);
  fit(constants, handles, own);
}

void fit_networks(Constants& constants, const Selection& rows) {
  constants.messages = kFirstMessages;
  Selection own;
  for (const Sample* row : rows) {
    if (row->one_node() || !constants.machines.contains(row->generation())) continue;
    own.push_back(row);
    constants.fabrics[row->fabric] = row->fabric == kReference ? kReferenceFabric : kFirstFabric;
  }
  Handles handles;
  for (const auto& parameter : message_parameters())
    handles.push_back(&(constants.messages.*parameter.value));
  for (auto& [name, fabric] : constants.fabrics) {
    handles.push_back(&fabric.exchange_share);
    if (name == kReference) continue;
    handles.push_back(&fabric.latency_us);
    handles.push_back(&fabric.efficiency);
  }
  fit(constants, handles, own);
  for (auto& [name, fabric] : constants.fabrics)
    fabric.efficiency = std::min(fabric.efficiency, kEfficiencyMost);
}

// What a row's time depends on: nothing can be learned of it from rows of other kinds.
std::string kind_of(const Sample& sample, Split split) {
  const bool exchange = sample.op == CollectiveOp::AllToAll || sample.op == CollectiveOp::SendRecv;
  const bool large = sample.one_node() && sample.communicator->ranks > 8;
  return fmt::format("{} {} {}", static_cast<int>(sample.generation()),
                     exchange ? "exchange" : to_text(sample.choice).substr(0, 6),
                     split == Split::Ranks && large ? "large" : sample.fabric);
}

// Tables measure all numbers of ranks and stay; single-node constants cannot be told apart without
// them.
bool may_leave(const Sample& sample, Split split) {
  const bool table = sample.source.ends_with("_sxm");
  if (split == Split::Source) return !table;
  return split == Split::Thirds || sample.communicator->ranks <= 8;
}

std::string part_of(const Sample& sample, std::size_t index, Split split) {
  if (split == Split::Thirds) return std::to_string(index % 3);
  if (split == Split::Ranks)
    return fmt::format("{} {}", static_cast<int>(sample.generation()), sample.communicator->ranks);
  return sample.source;
}

void judge(const Constants& constants, const Sample& row, ErrorTable& table) {
  table.add({machine_name(row), std::string(to_string(row.op)), row.bytes},
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
  fit_generation(constants, Generation::Ampere, 240.0, rows);
  fit_generation(constants, Generation::Hopper, 370.8, rows);
  fit_generation(constants, Generation::Blackwell, 721.8, rows);
  fit_networks(constants, rows);
  return constants;
}

ErrorTable cross_validate(const Selection& rows, Split split, const Selection* judged) {
  std::set<std::string> parts;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (may_leave(*rows[i], split)) parts.insert(part_of(*rows[i], i, split));
  const auto is_judged = [&](const Sample* row) {
    return judged == nullptr || std::find(judged->begin(), judged->end(), row) != judged->end();
  };
  ErrorTable table;
  for (const std::string& part : parts) {
    Selection kept;
    Selection left_out;
    std::set<std::string> kinds;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const bool out = part_of(*rows[i], i, split) == part;
      (out ? left_out : kept).push_back(rows[i]);
      if (!out) kinds.insert(kind_of(*rows[i], split));
    }
    const Constants constants = fit_constants(kept);
    for (const Sample* row : left_out)
      if (kinds.contains(kind_of(*row, split)) && can_predict(constants, *row) && is_judged(row))
        judge(constants, *row, table);
  }
  return table;
}

ErrorTable errors_of(const Constants& constants, const Selection& rows) {
  ErrorTable table;
  for (const Sample* row : rows)
    if (can_predict(constants, *row)) judge(constants, *row, table);
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
  if (!sample.one_node()) return sample.source;
  constexpr std::array kNames{"V100", "A100", "H100", "B200"};
  return fmt::format("{} x {}", kNames.at(static_cast<std::size_t>(sample.generation())),
                     sample.communicator->ranks);
}

}  // namespace trainyard::nccl::fit

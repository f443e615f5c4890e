// Does the NVLink rate of SimuMax' machine follow from its owners' statements?
//
// Their prediction of a microbatch, minus their own timings of its kernels, is the time that they
// count for the gathers and reductions of tensor parallelism; the rate in data/platforms.json is
// the one at which ours take as long. Measured steps have no part in it. The tables are kept
// outside the project; where they are absent the test is skipped and reports so.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <regex>

#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"
#include "tools/studies/validate/dataset.hpp"
#include "tools/studies/validate/outcome.hpp"
#include "tools/studies/validate/row_scenario.hpp"

namespace trainyard {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kLayers = 12;
constexpr int kHidden = 8192;
constexpr int kFfn = 28672;
constexpr int kQkv = 10240;
constexpr int kTokens = 4096;
constexpr int kVocabulary = 128256;

fs::path measured() {
  if (const char* folder = std::getenv("TRAINYARD_MEASURED")) return folder;
  return fs::path(TRAINYARD_SOURCE_DIRECTORY) / ".." / "shared" / "measured";
}

std::string row_id(int tensor, int microbatches) {
  if (tensor == 1) return fmt::format("simumax-llama3_70b_l12_tp1_pp2_dp4_mbc{}_cef", microbatches);
  if (tensor == 2) return fmt::format("simumax-llama3_70b_tp2_pp1_dp4_l12_mbc{}_cef", microbatches);
  return fmt::format("simumax-llama3_70b_l12_tp{}_pp1_dp{}_mbc{}_cef", tensor, 8 / tensor,
                     microbatches);
}

// The milliseconds by which `of` grows per microbatch, from 8 of them to 32.
template <class Of>
double slope_ms(int tensor, const Of& of) {
  return (of(row_id(tensor, 32)) - of(row_id(tensor, 8))) / 24.0;
}

// SimuMax' kernels on that machine, in milliseconds (kernels/other.json).
class OwnKernels {
 public:
  explicit OwnKernels(const fs::path& file) : rows_(parse_unchecked_json(read_file(file))) {}

  // Forward, data and weight gradient of y[kTokens, n] = x[kTokens, k] W; the last one accumulates
  // in fp32.
  [[nodiscard]] double linear(int n, int k) const {
    return product(kTokens, n, k, "TN (fwd)", "bf16") +
           product(kTokens, k, n, "NN (dgrad)", "bf16") +
           product(n, k, kTokens, "NT (wgrad)", "fp32");
  }

  // Forward and backward of a layer on one of `tensor` ranks: the backward has five GEMMs against
  // two.
  [[nodiscard]] double attention(int tensor) const {
    const double flops = 4.0 * kTokens * kTokens * kHidden / tensor;
    return 1e-9 * flops * (1.0 / rate("sdp_fwd", tensor) + 2.5 / rate("sdp_bwd", tensor));
  }

  [[nodiscard]] double layer(int tensor) const {
    return linear(kQkv / tensor, kHidden) + linear(kHidden, kHidden / tensor) +
           linear(2 * kFfn / tensor, kHidden) + linear(kHidden, kFfn / tensor) + attention(tensor);
  }

  // Timed on one and two ranks; for more ranks, the time is a share of that on two.
  [[nodiscard]] double head(int tensor) const {
    if (tensor <= 2) return linear(kVocabulary / tensor, kHidden);
    return 2.0 / tensor * head(2);
  }

 private:
  [[nodiscard]] double product(int m, int n, int k, std::string_view layout,
                               std::string_view result) const {
    for (const Json& row : rows_) {
      if (row.value("gpu", "") == "B200-SXM" && row.value("kind", "") == "gemm" &&
          row["layout"] == layout && row["out_dtype"] == result && row["M"] == m && row["N"] == n &&
          row["K"] == k) {
        return 1e-3 * row["time_us"].get<double>();
      }
    }
    throw std::out_of_range(fmt::format("no product {} {} {} {}", m, n, k, layout));
  }

  [[nodiscard]] double rate(std::string_view kind, int tensor) const {
    const std::string shape = fmt::format(
        "batch=1, seq_len={}, head_num={}, kv_head_num={}, qk_head_dim=128, v_head_dim=128, "
        "qkv_contiguous=True",
        kTokens, 64 / tensor, 8 / tensor);
    for (const Json& row : rows_) {
      if (row.value("kind", "") == kind && row["shape"] == shape) return row["tflops"];
    }
    throw std::out_of_range(shape);
  }

  Json rows_;
};

class SimuMaxMachine : public testing::Test {
 protected:
  void SetUp() override {
    const fs::path runs = measured() / "training" / "published.json";
    const fs::path kernels = measured() / "kernels" / "other.json";
    if (!fs::exists(runs) || !fs::exists(kernels)) {
      GTEST_SKIP() << "SKIPPED, NOT TESTED: " << runs << " and " << kernels << " are not here";
    }
    for (MeasuredRow& row : read_dataset(runs)) rows_.emplace(row.id, row);
    own_ = std::make_unique<OwnKernels>(kernels);
  }

  // The milliseconds that SimuMax counts for the gathers and reductions of a microbatch. On one
  // tensor rank there are none, and its figure is of six layers and the head: the rest of it is
  // norms, activations and the loss. Other sizes have twice the layers, so they have twice that
  // rest, divided by the number of ranks.
  [[nodiscard]] double own_exchanges(int tensor) const {
    const double rest = own_slope(1) - 6 * own_->layer(1) - own_->head(1);
    return own_slope(tensor) - kLayers * own_->layer(tensor) - own_->head(tensor) -
           2.0 * rest / tensor;
  }

  // The time of our gathers and reductions at that rate of NVLink; 0: the machine's rate in
  // data/platforms.json.
  [[nodiscard]] double our_exchanges(int tensor, double gigabytes_per_s) const {
    return slope_ms(tensor, [&](const std::string& id) {
      Json document = row_scenario(tables_, rows_.at(id));
      document["stragglers"] = false;
      if (gigabytes_per_s > 0.0) {
        document["cluster"]["node"]["scale_up"]["usable"] = fmt::format("{} GB/s", gigabytes_per_s);
      }
      return 1e3 * exposed_tensor(simulate_document(id, document));
    });
  }

  // Root mean square of log(own / ours) over two, four and eight tensor ranks.
  [[nodiscard]] double off(double gigabytes_per_s) const {
    double sum = 0.0;
    for (const int tensor : {2, 4, 8}) {
      const double ratio = own_exchanges(tensor) / our_exchanges(tensor, gigabytes_per_s);
      sum += std::log(ratio) * std::log(ratio) / 3.0;
    }
    return std::sqrt(sum);
  }

 private:
  [[nodiscard]] double own_slope(int tensor) const {
    return slope_ms(tensor, [&](const std::string& id) {
      std::smatch found;
      const std::string notes = rows_.at(id).description["notes"];
      if (!std::regex_search(notes, found, std::regex("own prediction ([0-9.]+) ms")))
        throw std::out_of_range(id + " has no prediction of SimuMax");
      return std::stod(found[1]);
    });
  }

  static double exposed_tensor(const Json& answer) {
    return answer["parts"].value("exposed_tensor", 0.0);
  }

  RowTables tables_ = load_row_tables();
  std::map<std::string, MeasuredRow> rows_;
  std::unique_ptr<OwnKernels> own_;
};

// Do the owners count more for gathers and reductions than other B200s take?
TEST_F(SimuMaxMachine, ItsOwnersCountMoreForExchangesThanOtherB200sTake) {
  EXPECT_NEAR(own_exchanges(2), 12.0, 0.1);
  EXPECT_NEAR(own_exchanges(4), 18.15, 0.1);
  EXPECT_NEAR(own_exchanges(8), 24.5, 0.1);
}

// Is the shipped rate the one at which ours take as long?
TEST_F(SimuMaxMachine, TheShippedRateIsTheOneAtWhichOursTakeAsLong) {
  const double shipped = off(0.0);
  EXPECT_LT(shipped, 0.172);
  EXPECT_LT(shipped, off(0.7 * 721.8));
  EXPECT_LT(shipped, off(0.9 * 721.8));
  EXPECT_LT(shipped, 0.7 * off(721.8));
}

}  // namespace
}  // namespace trainyard

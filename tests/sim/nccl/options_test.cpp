// NCCL_ALGO, NCCL_PROTO and the methods that they leave.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "communicators.hpp"
#include "sim/base/error.hpp"

namespace trainyard::nccl {
namespace {

using namespace testing;

constexpr double kLarge = 1 << 28;

Algorithm chosen_algorithm(const char* algorithms, CollectiveOp op = CollectiveOp::AllReduce) {
  Options options;
  options.algorithms = parse_algorithms(algorithms);
  return choose(h100(1, options), {.op = op, .bytes = kLarge}).method.algorithm;
}

// Are algorithms read in NCCL's syntax?
TEST(Options, AlgorithmsByNcclsSyntax) {
  EXPECT_EQ(chosen_algorithm(""), Algorithm::Nvls);
  EXPECT_EQ(chosen_algorithm("Ring"), Algorithm::Ring);
  EXPECT_EQ(chosen_algorithm("tree"), Algorithm::Tree);
  EXPECT_EQ(chosen_algorithm("^NVLS"), Algorithm::Ring);
  EXPECT_EQ(chosen_algorithm("^nvls,ring"), Algorithm::Tree);
  EXPECT_EQ(chosen_algorithm("Ring;allreduce:Tree"), Algorithm::Tree);
  EXPECT_EQ(chosen_algorithm("allgather:Ring"), Algorithm::Nvls);
}

// Are protocols obeyed?
TEST(Options, Protocols) {
  Options options;
  options.algorithms = parse_algorithms("Ring");
  options.protocols = parse_protocols("LL128");
  EXPECT_EQ(choose(h100(1, options), {.bytes = kLarge}).method.protocol, Protocol::LL128);
  options.protocols = parse_protocols("^Simple,LL128");
  EXPECT_EQ(choose(h100(1, options), {.bytes = kLarge}).method.protocol, Protocol::LL);
}

// Are unknown names refused?
TEST(Options, UnknownNamesAreRefused) {
  EXPECT_THROW((void)parse_algorithms("Rings"), InputError);
  EXPECT_THROW((void)parse_algorithms("allsum:Ring"), InputError);
  EXPECT_THROW((void)parse_protocols("LL64"), InputError);
}

// Are settings read as NCCL reads its variables?
TEST(Options, SettingsAreReadAsNcclReadsItsVariables) {
  const Options plain = options_of({});
  EXPECT_EQ(plain.version, Options{}.version);
  EXPECT_EQ(plain.algorithms, all_algorithms());
  EXPECT_EQ(plain.protocols, default_protocols());
  EXPECT_FALSE(plain.channels_least || plain.channels_most);
  const Options made = options_of(
      {.version = "2.27", .algo = "Ring", .proto = "^LL", .min_channels = 2, .max_channels = 4});
  EXPECT_EQ(made.algorithms, parse_algorithms("ring"));
  EXPECT_EQ(made.protocols, parse_protocols("^ll"));
  const Communicator comm = h100(1, made);
  EXPECT_EQ(comm.channels, 4U);
  EXPECT_EQ(comm.constants.version, "2.27");
  EXPECT_EQ(choose(comm, {.bytes = kLarge}).launch.channels, 4U);
}

// Is every bad setting reported?
TEST(Options, EveryBadSettingIsReported) {
  try {
    (void)options_of(
        {.version = "9.9", .algo = "Rong", .proto = "LL64", .min_channels = 9, .max_channels = 8});
    FAIL();
  } catch (const InputError& error) {
    std::vector<std::string> pointers;
    for (const Problem& problem : error.problems()) pointers.push_back(problem.pointer);
    EXPECT_EQ(pointers, (std::vector<std::string>{"/version", "/algo", "/proto", "/max_channels"}));
    EXPECT_THAT(error.problems().front().hint, ::testing::HasSubstr("2.18"));
    EXPECT_THAT(error.problems().front().hint, ::testing::HasSubstr("2.30"));
  }
}

// Is it reported if no method is left?
TEST(Options, ExcludingEveryMethodIsReported) {
  Options options;
  options.algorithms = parse_algorithms("PAT");
  try {
    (void)choose(h100(1, options), {.bytes = kLarge});
    FAIL();
  } catch (const RunError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("allow more algorithms or protocols"));
  }
}

// Does the label state the choice?
TEST(Options, LabelStatesTheChoice) {
  EXPECT_EQ(to_text(choose(h100(1), {.bytes = kLarge})), "NVLS/Simple, 16 channels");
  EXPECT_EQ(to_text(choose(h100(1), {.bytes = 1024.0})), "Ring/LL, 1 channel");
}

}  // namespace
}  // namespace trainyard::nccl

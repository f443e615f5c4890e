// The bounds between the fluid form of an algorithm and its messages, redone on paper, and the
// limits of lists of messages.
#include <gtest/gtest.h>

#include "sim/base/check.hpp"
#include "sim/collectives/algorithms/sharp.hpp"
#include "sim/collectives/messages.hpp"
#include "test_clusters.hpp"

namespace trainyard {
namespace {

using namespace testing;

double bound_of(const Shape& shape, std::string_view name) {
  const Cluster cluster = make_cluster(shape);
  const auto gpus = gpus_of(shape.nodes * shape.gpus);
  return find_algorithm(CollectiveOp::AllReduce, name)
      ->fluid_bound({.cluster = cluster, .gpus = gpus})
      .relative;
}

// How far may the messages of a ring over nodes be from its fluid form? With 4 nodes of 8 GPUs, all
// 31 steps of a pass wait for the network's 14 us, but NCCL's model counts 28 steps of 4 us and 3
// of 14 us. The slower hop counts, whichever it is.
TEST(FluidBound, ARingOverNodesWaitsForItsSlowestHopInEveryStep) {
  const Shape shape{.nodes = 4, .gpus = 8, .intra_us = 4.0, .inter_us = 14.0};
  EXPECT_RELATIVE(bound_of(shape, "ring"), 1e-3 + 31.0 * 14.0 / (28.0 * 4.0 + 3.0 * 14.0) - 1.0);
  const Shape slow_inside{.nodes = 4, .gpus = 8, .intra_us = 14.0, .inter_us = 4.0};
  EXPECT_RELATIVE(bound_of(slow_inside, "ring"),
                  1e-3 + 31.0 * 14.0 / (28.0 * 14.0 + 3.0 * 4.0) - 1.0);
}

// How far may the messages of NVLS be from its fluid form? The first of 1 024 chunks is read and
// the last one written alone: 7/9 of one chunk's time. Where a step has a latency, the reads run
// ahead of the first write: at most 1/(3 * 8 + 1) = 4 % of the time. 2 % are allowed for small
// chunks.
TEST(FluidBound, NvlsFillsDrainsAndRunsAhead) {
  EXPECT_RELATIVE(bound_of({.gpus = 8, .intra_us = 4.0}, "nvls"), 0.04 + 0.02);
  EXPECT_RELATIVE(bound_of({.gpus = 8, .intra_us = 0.0}, "nvls"), 7.0 / 9.0 + 0.02);
}

// How far may the messages of NVLSTree be from its fluid form? The tree over 4 nodes has 2 levels,
// up and down and the switch are 5 stages. Without latency one chunk is enough for all 5.
TEST(FluidBound, NvlsTreeFillsStageByStage) {
  EXPECT_RELATIVE(bound_of({.nodes = 4, .gpus = 8}, "nvls_tree"), 0.3);
  EXPECT_RELATIVE(bound_of({.nodes = 4, .gpus = 8, .intra_us = 0.0}, "nvls_tree"), 5.0 + 0.02);
}

// How far may the messages of NVLS with SHARP be from the fluid form? Two chunks more than the 64,
// 3 %, or 15 % while chunks run ahead; without latency, two more than the only one.
TEST(FluidBound, NvlsSharpFillsAndDrains) {
  EXPECT_RELATIVE(bound_of({.nodes = 4, .gpus = 8, .reduces = true}, "nvls_sharp"), 0.15);
  EXPECT_RELATIVE(bound_of({.nodes = 4, .gpus = 8, .intra_us = 0.0, .reduces = true}, "nvls_sharp"),
                  2.0);
}

// How many chunks does NVLS with SHARP have? The largest power of two, 64 at most, for which its
// messages stay within 2^16. On N nodes, each of 2 heads needs 2N passes of 3 messages and 4N
// messages in the tree: 20N. 51 nodes have 1 020 for each chunk, of which 64 chunks fit; 52 nodes
// have 1 040, of which 63 would fit.
TEST(Sharp, MessagesOfAllChunksStayWithinTheirLimit) {
  for (const auto& [nodes, chunks] : {std::pair{51U, 64U}, {52U, 32U}}) {
    const Cluster cluster = make_cluster({.nodes = nodes, .gpus = 2, .reduces = true});
    const auto gpus = gpus_of(2 * nodes);
    const SharpPlan plan = sharp_plan({.cluster = cluster, .gpus = gpus}, InNode::NvSwitch);
    ASSERT_EQ(plan.heads.size(), 2U);
    EXPECT_EQ(sharp_chunks_most(plan, InNode::NvSwitch), chunks) << nodes;
  }
}

// How many ranks may all send to all others? 2 048 * 2 047 messages are 4 192 256, within 2^22.
TEST(TooManyMessages, UpTo2048RanksMayAllSendToAllOthers) {
  const Cluster cluster = star(2);
  const std::vector<std::uint32_t> most(2048, 0);
  EXPECT_EQ(too_many_to_all_send_to_all({.cluster = cluster, .gpus = most}), std::nullopt);
  const std::vector<std::uint32_t> one_more(2049, 0);
  EXPECT_EQ(too_many_to_all_send_to_all({.cluster = cluster, .gpus = one_more}),
            "2049 ranks that all send to all others are 4196352 messages, more than 4194304");
}

// Is a message refused that carries a piece, or goes to a rank, that does not exist?
TEST(MessageList, HasOnlyPiecesAndRanksOfItsShape) {
  MessageList list({.ranks = 2, .pieces = 4, .piece_bytes = 1.0});
  list.send({.from = 0, .to = 1, .piece_begin = 3, .piece_end = 4});
  EXPECT_THROW(list.send({.from = 0, .to = 1, .piece_begin = 3, .piece_end = 5}), InternalError);
  EXPECT_THROW(list.send({.from = 0, .to = 1, .scattered = {0, 4}}), InternalError);
  EXPECT_THROW(list.send({.from = 0, .to = 1, .piece_begin = 2, .piece_end = 2}), InternalError);
  EXPECT_THROW(list.send({.from = 0, .to = 2, .piece_end = 1}), InternalError);
  EXPECT_THROW(list.send({.from = 2, .to = 0, .piece_end = 1}), InternalError);
  EXPECT_EQ(std::move(list).take().size(), 1U);
}

}  // namespace
}  // namespace trainyard

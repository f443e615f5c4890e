// One configuration of each model family, as it is stored with the weights, against the published
// number of parameters.
#include "scenarios/import/hf_families.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

#include "models/layers/layer_block.hpp"
#include "scenarios/import/hf_config.hpp"
#include "scenarios/import/model_file.hpp"
#include "sim/base/files.hpp"
#include "sim/base/json_parse.hpp"

namespace trainyard {
namespace {

using Json = nlohmann::ordered_json;

const std::string kFolder = TRAINYARD_SOURCE_DIRECTORY "/tests/scenarios/import/hf/";

struct FamilyCase {
  const char* config;  // of tests/scenarios/import/hf
  std::int64_t parameters;
  bool tied;  // input and output embeddings are one matrix
  const char* source;
  std::int64_t mtp_modules = 0;  // that the number contains
};

// "weights": the number of all parameters in the safetensors of the repository that the model's
// publisher keeps on Hugging Face. A tied head that is stored a second time is not counted.
// "size": half the bytes of the file of 16-bit weights, which is given to three or four digits.
constexpr const char* kWeights = "weights";
constexpr const char* kCard = "model card";
constexpr const char* kPaper = "paper";
constexpr const char* kSize = "size of the 16-bit weights";

constexpr std::array kPublished{
    FamilyCase{"apertus_8b", 8'053'338'176, false, kWeights},
    FamilyCase{"baichuan2_13b", 13'896'668'160, false, kWeights},
    FamilyCase{"baichuan2_7b", 7'505'973'248, false, kWeights},
    FamilyCase{"bloom_7b1", 7'069'016'064, true, kCard},
    FamilyCase{"command_r", 34'980'831'232, true, kWeights},
    FamilyCase{"command_r7b", 8'028'033'024, true, kWeights},
    FamilyCase{"dbrx", 131'596'523'520, false, kWeights},
    FamilyCase{"deepseek_v2_lite", 15'706'484'224, false, kWeights},
    FamilyCase{"deepseek_v3", 684'531'386'000, false, "weights with scales of fp8", 1},
    FamilyCase{"ernie_4_5_0_3b", 360'748'032, true, kWeights},
    FamilyCase{"ernie_4_5_21b_a3b", 21'825'437'888, true, kWeights},
    FamilyCase{"exaone_4_1_2b", 1'279'391'488, true, kWeights},
    FamilyCase{"exaone_4_32b", 30'950'000'000 + 2 * 102'400 * 5'120LL, false,
               "model card, with embeddings added"},
    FamilyCase{"falcon_40b", 41'303'293'952, true, kWeights},
    FamilyCase{"falcon_7b", 6'921'720'704, true, kWeights},
    FamilyCase{"gemma_2_9b", 9'241'705'984, true, kWeights},
    FamilyCase{"gemma_3_1b", 999'885'952, true, kWeights},
    FamilyCase{"gemma_3_4b", 4'300'079'472 - 419'816'304, true,
               "weights, less those of the vision part"},
    FamilyCase{"gemma_7b", 8'537'680'896, true, kCard},
    FamilyCase{"glm_4_5", 358'337'791'296, false, kWeights, 1},
    FamilyCase{"glm_4_5_air", 110'468'824'832, false, kWeights, 1},
    FamilyCase{"glm_4_9b", 9'399'951'360, false, kWeights},
    FamilyCase{"glm_4_9b_0414", 9'400'279'040, false, kWeights},
    FamilyCase{"gpt2", 124'439'808, true, kWeights},
    FamilyCase{"gpt_oss_120b", 116'829'156'672, false, kCard},
    FamilyCase{"gptj_6b", 6'050'882'784, false, kWeights},
    FamilyCase{"granite_3_1_8b", 8'170'848'256, true, kWeights},
    FamilyCase{"granite_3_3b_a800m", 3'298'793'472, true, kWeights},
    FamilyCase{"hunyuan_a13b", 80'393'183'232, true, kWeights},
    FamilyCase{"internlm2_7b", 7'737'708'544, false, kWeights},
    FamilyCase{"kimi_k2", 1'026'408'235'864, false, kWeights},
    FamilyCase{"ling_lite", 16'801'974'272, false, kWeights},
    FamilyCase{"ling_mini_2", 16'255'643'392, false, kWeights},
    FamilyCase{"llama3_8b", 8'030'261'248, false, kWeights},
    FamilyCase{"llama4_scout", 108'641'793'536 - 871'932'416, false,
               "weights, less those of the vision part"},
    FamilyCase{"minicpm3_4b", 4'075'000'000, true, kSize},
    FamilyCase{"minitron_4b", 4'190'000'000, false, kSize},
    FamilyCase{"mistral_7b", 7'241'732'096, false, kWeights},
    FamilyCase{"mixtral_8x7b", 46'702'792'704, false, kWeights},
    FamilyCase{"mpt_7b", 6'649'286'656, true, kWeights},
    FamilyCase{"olmo_2_7b", 7'298'617'344, false, kWeights},
    FamilyCase{"olmo_3_7b", 7'298'011'136, false, kWeights},
    FamilyCase{"olmo_7b", 6'888'095'744, false, kWeights},
    FamilyCase{"olmoe_1b_7b", 6'919'161'856, false, kWeights},
    FamilyCase{"opt_6_7b", 6'658'473'984, true, kWeights},
    FamilyCase{"persimmon_8b", 9'395'000'000, false, kSize},
    FamilyCase{"phi_2", 2'779'683'840, false, kWeights},
    FamilyCase{"phi_3_5_moe", 41'873'153'344, false, kWeights},
    FamilyCase{"phi_3_mini", 3'821'079'552, false, kWeights},
    FamilyCase{"pythia_6_9b", 6'857'302'016, false, kPaper},
    FamilyCase{"qwen1_5_moe_a2_7b", 14'315'784'192, false, kWeights},
    FamilyCase{"qwen2_5_7b", 7'615'616'512, false, kWeights},
    FamilyCase{"qwen2_5_vl_7b", 7'615'616'512, false, "weights of Qwen2.5 7B, its text part"},
    FamilyCase{"qwen3_30b_a3b", 30'532'122'624, false, kWeights},
    FamilyCase{"qwen3_8b", 8'190'735'360, false, kWeights},
    FamilyCase{"seed_oss_36b", 36'151'104'512, false, kWeights},
    FamilyCase{"smollm3_3b", 3'075'098'624, true, kWeights},
    FamilyCase{"stablelm_2_1_6b", 1'644'515'328, false, kWeights},
    FamilyCase{"starcoder", 15'517'456'384, true, kWeights},
    FamilyCase{"starcoder2_7b", 7'173'923'840, true, kWeights}};

Json document_of(const FamilyCase& row) {
  const std::string file = kFolder + row.config + ".json";
  return parse_json(file, read_file(file));
}

// A module that predicts a further token: a layer like the last, three norms, the projection of
// two streams to one, and its own embedding and head, as DeepSeek-V3 and GLM-4.5 store them.
std::int64_t mtp_parameters(const Architecture& a) {
  return layer_parameter_count(a, layer_kind(a, a.layers)) + 3 * a.norm_width() +
         2 * a.hidden * a.hidden + 2 * a.vocab * a.hidden;
}

struct Counted {
  std::string type;
  std::int64_t parameters = 0;
  double difference = 0.0;  // from the published number, as a fraction
  bool tied = false;
  std::vector<std::string> notes;
};

Counted counted(const FamilyCase& row) {  // as a scenario that names the file reads it
  const Json document = document_of(row);
  const Architecture a = load_model(kFolder + row.config + ".json");
  const std::int64_t parameters = parameter_count(a) + row.mtp_modules * mtp_parameters(a);
  const auto published = static_cast<double>(row.parameters);
  const Json& text = document.contains("text_config") ? document["text_config"] : document;
  return {.type = text["model_type"],
          .parameters = parameters,
          .difference = (static_cast<double>(parameters) - published) / published,
          .tied = a.tied_embeddings,
          .notes = notes_of_source(a.source)};
}

// Has every family the published number of parameters, within 0.1 %, and the head that it ties?
TEST(HfFamilies, HaveThePublishedNumberOfParameters) {
  std::set<std::string> types;
  for (const FamilyCase& row : kPublished) {
    const Counted now = counted(row);
    types.insert(now.type);
    EXPECT_LT(std::abs(now.difference), 1e-3)
        << row.config << ": " << now.parameters << ", published " << row.parameters;
    EXPECT_EQ(now.tied, row.tied) << row.config;
  }
  EXPECT_EQ(kPublished.size(), 60U);
  EXPECT_EQ(types.size(), 55U);
}

// Is every key of a stored configuration read, or known to have no cost?
TEST(HfFamilies, ReadEveryKeyOfAStoredConfiguration) {
  std::size_t notes = 0;
  for (const FamilyCase& row : kPublished)
    for (const std::string& note : counted(row).notes) {
      ++notes;
      EXPECT_THAT(note, testing::Not(testing::HasSubstr("not looked at: "))) << row.config;
    }
  EXPECT_GE(notes, 30U);
}

// Is every known family checked against a published number? Those of vision models are read like
// their text models, and the dense Hunyuan like the one with experts.
TEST(HfFamilies, AreAllChecked) {
  std::set<std::string> types;
  for (const FamilyCase& row : kPublished) types.insert(counted(row).type);
  std::vector<std::string> unchecked;
  for (const HfFamily& family : hf_families())
    if (!types.contains(std::string(family.type))) unchecked.emplace_back(family.type);
  EXPECT_THAT(unchecked, testing::ElementsAre("hunyuan_v1_dense", "qwen2_5_vl_text",
                                              "qwen3_vl_moe_text", "qwen3_vl_text"));
  EXPECT_TRUE(std::ranges::is_sorted(hf_families(), {}, &HfFamily::type));
}

// 8 030 261 248
std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, " ");
  return text;
}

std::string table() {
  std::map<std::pair<std::string, std::string>, std::string> lines;  // by type and file
  for (const FamilyCase& row : kPublished) {
    const Counted now = counted(row);
    const std::string difference = now.parameters == row.parameters
                                       ? "none"
                                       : fmt::format("{:+.4f} %", 100.0 * now.difference);
    lines[{now.type, row.config}] =
        fmt::format("| `{}` | `{}` | {} | {} | {} | {} |\n", now.type, row.config,
                    grouped(row.parameters), grouped(now.parameters), difference, row.source);
  }
  std::string text =
      "| model type | file | published | counted | difference | source "
      "|\n|---|---|--:|--:|--:|---|\n";
  for (const auto& [key, line] : lines) text += line;
  return text;
}

// Does the page show the table that the counts give? TRAINYARD_BLESS=1 (tools/bless) rewrites it.
TEST(HfFamilies, HaveTheirTableInTheDocumentation) {
  const std::string page = TRAINYARD_SOURCE_DIRECTORY "/docs/reference/hugging_face.md";
  const std::string kept = read_file(page);
  const std::size_t begin = kept.find("| model type |");
  ASSERT_NE(begin, std::string::npos);
  const std::size_t end = std::min(kept.find("\n\n", begin) + 1, kept.size());
  const std::string now = kept.substr(0, begin) + table() + kept.substr(end);
  if (std::getenv("TRAINYARD_BLESS") != nullptr) write_file(page, now);
  EXPECT_EQ(read_file(page), now) << "tools/bless rewrites the page; read the difference";
}

}  // namespace
}  // namespace trainyard

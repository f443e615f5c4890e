// The report page: it shows the results of the run, and no input can break it.
#include "sim/render/page/page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "scenarios/simulate/simulate.hpp"
#include "sim/render/page/blocks.hpp"
#include "sim/timeline/memory.hpp"

namespace trainyard {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kFolder = TRAINYARD_SOURCE_DIRECTORY "/scenarios/";

Result run_of(const std::string& name) { return simulate(load_scenario(kFolder + name, {}), {}); }

std::shared_ptr<const Workload> with_first_name(Workload workload, const std::string& name) {
  workload.names.at(0) = name;
  return std::make_shared<const Workload>(std::move(workload));
}

// Does the page contain no markup of a scenario?
TEST(Page, HoldsNoMarkupOfAScenario) {
  auto run = run_of("first/two_gpus.json");
  run.facts.title = "</script><b>bold & \"quoted\"</b>";
  run.facts.scenario["name"] = "</script><script>alert(1)</script>";
  run.workload = with_first_name(*run.workload, "</script><i>");
  const std::string page = report_page({.view = run.view()});
  EXPECT_THAT(page, Not(HasSubstr("<b>bold")));
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(page, Not(HasSubstr("</script><i>")));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;bold &amp; &quot;quoted&quot;"));
}

// Can a name not swallow a script? Within "<!--<script>" the end of a script element does not
// count, and the following scripts of the page would be text.
TEST(Page, ANameDoesNotSwallowAScript) {
  auto run = run_of("first/two_gpus.json");
  run.facts.title = "<!--<script>";
  run.workload = with_first_name(*run.workload, "<!--<script>");
  const std::string page = report_page({.view = run.view()});
  EXPECT_THAT(page, Not(HasSubstr("<!--")));
  EXPECT_THAT(page, HasSubstr("\\u003c!--\\u003cscript"));
}

// Does the page load nothing from elsewhere?
TEST(Page, AsksForNothingFromElsewhere) {
  const auto run = run_of("first/two_gpus.json");
  const std::string page = report_page({.view = run.view()});
  for (const char* link : {"src=", "@import", "url(", "fetch("})
    EXPECT_THAT(page, Not(HasSubstr(link)));
  std::size_t links = 0;
  for (std::size_t at = page.find("href="); at != std::string::npos;
       at = page.find("href=", at + 1)) {
    EXPECT_EQ(page.substr(at, 7), "href=\"#") << "a link within the page";
    ++links;
  }
  EXPECT_GE(links, 10U);
}

// Does the page state first whether the run fits?
TEST(Page, SaysFirstWhetherItFits) {
  const auto run = run_of("llama3/llama3_8b_8xh100.json");
  const std::string page = report_page({.view = run.view()});
  EXPECT_LT(page.find("class=\"verdict fits\""), page.find("<h2>"));
}

// Does the page begin with what was simulated, before the verdict and the sections?
TEST(Page, BeginsWithWhatWasSimulated) {
  const auto run = run_of("llama3/llama3_8b_8xh100.json");
  const std::string page = report_page({.view = run.view()});
  std::size_t before = page.find("<h1>");
  for (const char* next : {">model</", "8.03 B parameters", ">cluster</", "layout", ">batch</",
                           ">precision</", ">limit</", "class=\"verdict", "step time</a></dt>",
                           "MFU</a></dt>", "peak memory</a></dt>", "<nav", "<h2>"}) {
    const std::size_t at = page.find(next, before);
    ASSERT_NE(at, std::string::npos) << next;
    before = at;
  }
}

// Is a key figure told once? The cards have step time and MFU, the section on speed the others.
TEST(Page, TellsAKeyFigureOnce) {
  auto run = run_of("llama3/llama3_8b_8xh100.json");
  run.facts.published.clear();
  const std::string page = report_page({.view = run.view()});
  const std::string speed = page.substr(page.find("<section id=\"figures\">"));
  const std::string section = speed.substr(0, speed.find("</section>"));
  EXPECT_THAT(section, HasSubstr("tokens/s per GPU"));
  EXPECT_THAT(section, Not(HasSubstr("step time")));
}

// Is the peak named if there are two?
TEST(Page, NamesThePeakWhereThereAreTwo) {
  auto run = run_of("llama3/llama3_8b_8xh100.json");
  run.facts.peaks.push_back({"fp8", run.facts.peaks.front().rate * 2.0});
  const std::string page = report_page({.view = run.view()});
  EXPECT_THAT(page, HasSubstr("attention, bf16 peak)"));
  EXPECT_THAT(page, HasSubstr("attention, fp8 peak)"));
}

// Are changes that would help shown if they are known? Each has a separate table row; without any
// the section is left out.
TEST(Page, ShowsWhatWouldHelpWhereItIsKnown) {
  const auto run = run_of("first/two_gpus.json");
  const std::vector<PageGain> rows{
      {.name = "network <twice> as fast", .step_time_s = 0.75, .saving = 0.25}};
  const std::string with = report_page({.view = run.view(), .gains = rows});
  EXPECT_THAT(with, HasSubstr("network &lt;twice&gt; as fast</td><td class=\"number\">750 "
                              "ms</td><td class=\"number\">25.0 %"));
  EXPECT_THAT(report_page({.view = run.view()}), Not(HasSubstr("id=\"sensitivities\"")));
}

class Blocks : public testing::TestWithParam<const char*> {};

// Do the blocks cover the operations of every stage?
TEST_P(Blocks, CoverTheOperationsOfEveryStage) {
  const auto run = run_of(GetParam());
  const RunView view = run.view();
  std::set<std::uint32_t> stages;
  for (const Program& program : run.workload->programs) stages.insert(program.stage);
  const std::vector<std::uint32_t> lanes = chosen_lanes(view, stages.size());
  ASSERT_EQ(lanes.size(), stages.size());
  for (const std::uint32_t lane : lanes) {
    const OpTimes& times = run.timeline.classes[lane];
    double busy_s = 0.0;
    for (std::size_t op = 0; op < times.end_s.size(); ++op)
      busy_s += times.end_s[op] - times.start_s[op];
    double drawn_s = 0.0;
    std::uint64_t operations = 0;
    for (const Bar& block : bars_of(view, lane, Detail::Operation)) {
      drawn_s += block.end_s - block.start_s;
      ++operations;
    }
    EXPECT_NEAR(drawn_s, busy_s, 1e-9 * busy_s);
    std::uint64_t joined = 0;
    for (const Bar& block : bars_of(view, lane, Detail::Microbatch)) joined += block.operations;
    EXPECT_EQ(joined, operations) << "joining blocks loses none";
  }
}

INSTANTIATE_TEST_SUITE_P(Shipped, Blocks,
                         testing::Values("first/two_gpus.json", "llama3/llama3_70b_64xh100.json"));

// Are the first and the last lane kept if there are many?
TEST(Lanes, KeepTheEndsWhenThereAreMany) {
  const auto run = run_of("llama3/llama3_70b_64xh100.json");
  const std::vector<std::uint32_t> all = chosen_lanes(run.view(), 1000);
  ASSERT_GT(all.size(), 2U);
  EXPECT_EQ(chosen_lanes(run.view(), 2), (std::vector<std::uint32_t>{all.front(), all.back()}));
}

// Does the data keep the peak of memory?
TEST(PageData, KeepsThePeakOfMemory) {
  const auto run = run_of("llama3/llama3_8b_8xh100.json");
  const nlohmann::json data = page_data(run.view());
  const nlohmann::json& stage = data["memory"][0];
  ASSERT_LE(stage["time_s"].size(), 1000U);
  double most = 0.0;
  for (std::size_t point = 0; point < stage["time_s"].size(); ++point) {
    double sum = 0.0;
    for (const nlohmann::json& category : stage["gib"]) sum += category[point].get<double>();
    most = std::max(most, sum);
  }
  const MemoryPeak peak = run.view().memory_peak_of(0);
  EXPECT_NEAR(most, static_cast<double>(peak.bytes) / 1073741824.0, 1e-2);
}

}  // namespace
}  // namespace trainyard

#include "scenarios/reader/sections.hpp"

#include <type_traits>

#include "scenarios/reader/tables.hpp"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

bool always(const TrainingPlan&) { return true; }
bool has_experts(const TrainingPlan& plan) { return plan.architecture.has_experts(); }
bool has_servers(const TrainingPlan& plan) { return plan.servers.servers > 0; }
bool offloads(const TrainingPlan& plan) { return plan.offload.any(); }
bool packs_documents(const TrainingPlan& plan) { return plan.documents.kind != DocumentKind::None; }

template <auto member>
using Part = std::remove_cvref_t<decltype(std::declval<TrainingPlan>().*member)>;

// The section of that member of a plan.
template <auto member, auto fields>
constexpr Section section_of(std::string_view key, std::string_view meaning,
                             bool (*is_used)(const TrainingPlan&)) {
  return {.key = key,
          .meaning = meaning,
          .read =
              [](JsonObject& section, TrainingPlan& plan) {
                plan.*member = read_fields(section, fields(), Part<member>{});
              },
          .write = [](const TrainingPlan& plan) -> Json {
            return write_fields(fields(), plan.*member);
          },
          .schema = []() -> Json { return schema_of_fields(fields(), Part<member>{}); },
          .keys =
              [] {
                std::vector<std::string_view> keys;
                for (const auto& row : fields()) keys.push_back(row.key);
                return keys;
              },
          .is_used = is_used};
}

using P = TrainingPlan;
constexpr Section kSections[] = {
    section_of<&P::parallelism, parallelism_fields>("parallelism",
                                                    "how the model is spread over GPUs", always),
    section_of<&P::training, training_fields>("training", "one optimizer step", always),
    section_of<&P::experts, expert_fields>("experts", "how a mixture of experts is run",
                                           has_experts),
    section_of<&P::servers, server_fields>(
        "parameter_servers", "replicas that meet in servers instead of reducing among each other",
        has_servers),
    section_of<&P::offload, offload_fields>("offload", "what stands in the memory of the CPUs",
                                            offloads),
    section_of<&P::documents, document_fields>("documents", "documents packed into sequences",
                                               packs_documents),
};

}  // namespace

std::span<const Section> sections() { return kSections; }

}  // namespace trainyard

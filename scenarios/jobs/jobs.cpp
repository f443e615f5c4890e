#include "scenarios/jobs/jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "scenarios/jobs/job_fields.hpp"
#include "scenarios/reader/named_parts.hpp"
#include "scenarios/reader/overrides.hpp"
#include "sim/base/error.hpp"
#include "topologies/cluster_reader.hpp"
#include "topologies/node.hpp"

namespace trainyard {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Reads the jobs of one file.
class JobsReader {
 public:
  JobsReader(JsonFile& file, const fs::path& folder) : file_(file), folder_(folder) {}

  [[nodiscard]] Jobs read() {
    JsonObject root = file_.root();
    Jobs jobs = read_fields<Jobs>(root, jobs_fields(), {.file = file_.name()});
    check_cluster_builds(file_, "/cluster", jobs.cluster);
    for (JsonObject& job : root.objects("jobs")) jobs.all.push_back(read_job(job, jobs));
    if (!root.has("jobs"))
      root.report("jobs", "is missing", "list at least one job");
    else if (jobs.all.empty() && file_.is_sound("/jobs"))
      root.report("jobs", "is empty", "list at least one job");
    check_names(jobs);
    file_.finish();
    return jobs;
  }

 private:
  // Every field is read before any is checked, so that a fault in one makes no other unknown.
  JobSpec read_job(JsonObject& job, const Jobs& jobs) {
    auto spec =
        read_fields<JobSpec>(job, job_fields(), {.name = fmt::format("job {}", jobs.all.size())});
    const std::vector<Override> changes = changes_of(job);
    if (file_.is_sound("/cluster") && spec.gpus > gpu_count(jobs.cluster))
      job.report(
          "gpus",
          fmt::format("is {}, and the cluster has {} GPUs", spec.gpus, gpu_count(jobs.cluster)),
          "give at most as many");
    if (job.has("scenario") == job.has("traffic")) {
      job.report("", job.has("scenario") ? "has a scenario and traffic" : "has nothing to do",
                 "give either \"scenario\" (what it trains) or \"traffic\"");
    } else if (job.has("traffic")) {
      if (job.has("set"))
        job.report("set", "changes a scenario, and traffic has none", "leave it out");
      read_traffic_gpus(job, jobs, spec);
    } else {
      read_training(job, jobs, job.raw("scenario"), changes, spec);
    }
    return spec;
  }

  // Traffic beside another job uses all of its GPUs, unless it says how many.
  static void read_traffic_gpus(JsonObject& job, const Jobs& jobs, JobSpec& spec) {
    if (job.has("gpus")) return;
    const auto other = std::ranges::find(jobs.all, spec.placement.job, &JobSpec::name);
    if (spec.placement.kind != PlacementKind::With)
      job.report("gpus", "is missing", "say on how many GPUs the traffic runs");
    else if (other != jobs.all.end())
      spec.gpus = other->gpus;
  }

  void read_training(JsonObject& job, const Jobs& jobs, Json document,
                     const std::vector<Override>& changes, JobSpec& spec) {
    std::string name = file_.name();
    if (document.is_string()) {
      name = scenario_file(file_near(folder_, document.get<std::string>()));
      try {
        document = JsonFile::read(name).document();
      } catch (const InputError& error) {
        for (const Problem& problem : error.problems()) job.report("scenario", to_text(problem));
        return;
      }
    }
    if (!document.is_object()) {
      job.report("scenario", fmt::format("{} is no scenario", shown(document)),
                 "name a file, or write the scenario here");
      return;
    }
    if (job.has("gpus")) {
      place_on_part(document, jobs.cluster, spec, job);
    } else if (!document.contains("cluster")) {
      job.report("gpus", "is missing", "say how many GPUs the job needs");
    }
    if (file_.has_problems()) return;
    // A faulty scenario is reported with the name of its own file.
    spec.scenario = read_scenario_document(name, document, changes);
    spec.gpus = gpu_count(spec.scenario->cluster);
    check_training(job, jobs, spec);
  }

  // The cluster of a job whose entry says how many GPUs it has: nodes of the common cluster.
  static void place_on_part(Json& document, const ClusterSpec& cluster, const JobSpec& spec,
                            JsonObject& job) {
    const std::uint32_t gpus = spec.gpus;
    if (gpus % cluster.node.gpus != 0 || cluster.custom) {
      job.report("gpus",
                 cluster.custom
                     ? "cannot be set on a cluster that is described device by device"
                     : fmt::format("{} GPUs are not whole nodes of {}", gpus, cluster.node.gpus),
                 "leave it out, and give the scenario a cluster of its own with as many GPUs");
      return;
    }
    // Only the kind and the number of the nodes count here. Where they are, and with them the
    // fabric and the faults, follows from the placement on the common cluster.
    ClusterSpec part = cluster;
    part.node = node_of(cluster, spec.placement);
    part.nodes = gpus / cluster.node.gpus;
    part.others.clear();
    part.faults.clear();
    part.fabric = {};
    part.sites.reset();
    document["cluster"] = to_json(part);
  }

  // The kind of the nodes that the placement names; the usual one where it names none. The
  // simulation refuses a job that gets GPUs of another kind.
  static const NodeSpec& node_of(const ClusterSpec& cluster, const PlacementSpec& placement) {
    if (!names_gpus(placement) || placement.chosen.empty()) return cluster.node;
    const std::uint32_t each = placement.kind == PlacementKind::Gpus ? cluster.node.gpus : 1;
    return node_at(cluster, placement.chosen.front() / each);
  }

  static bool has_gpu(const ClusterSpec& cluster, const std::string& gpu) {
    return cluster.node.gpu == gpu ||
           std::ranges::any_of(cluster.others,
                               [&](const OtherNodes& one) { return one.node.gpu == gpu; });
  }

  static std::vector<Override> changes_of(JsonObject& job) {
    std::vector<Override> changes;
    if (!job.has("set")) return changes;
    const Json& set = job.raw("set");
    if (!set.is_object()) {
      job.report("set", fmt::format("must be an object of paths and values, not {}", shown(set)));
      return changes;
    }
    for (const auto& [path, value] : set.items()) changes.push_back({path, value.dump()});
    return changes;
  }

  static void check_training(JsonObject& job, const Jobs& jobs, const JobSpec& spec) {
    // One engine plays all jobs. A scenario that names none has the default.
    const std::string& engine = spec.scenario->engine;
    if (engine != Scenario{}.engine && engine != jobs.engine)
      job.report(
          "scenario",
          fmt::format("its engine is \"{}\", and that of all jobs \"{}\"", engine, jobs.engine),
          fmt::format("set \"engine\": \"{}\" beside \"jobs\"", engine));
    const std::string& gpu = spec.scenario->cluster.node.gpu;
    if (!has_gpu(jobs.cluster, gpu))
      job.report("scenario",
                 fmt::format("its GPU is {}, and the cluster has {}", gpu, jobs.cluster.node.gpu),
                 "give \"gpus\", and the job takes nodes of the cluster");
    if (spec.scenario->plan.servers.servers > 0)
      job.report("scenario", "has parameter servers, whose steps cannot be repeated beside others",
                 "leave out \"parameter_servers\"");
    if (spec.scenario->plan.local_steps.used())
      job.report("scenario", "has local steps, whose exchange is not a part of the repeated step",
                 "leave out \"local_steps\"");
    if (spec.scenario->power && spec.scenario->power->clock_tolerance)
      job.report("scenario", "has \"power.clock_tolerance\", which looks for the clocks of one job",
                 "set \"power.stage_clocks\" to those that `trainyard run` finds");
    check_agrees(job, jobs, spec);
  }

  // Checks what all jobs share: the building, and NCCL, which prices the calls of all.
  static void check_agrees(JsonObject& job, const Jobs& jobs, const JobSpec& spec) {
    const auto check = [&](const auto& shared, const char* what, const char* hint) {
      const auto own = shared(*spec.scenario);
      for (const JobSpec& other : jobs.all) {
        if (!other.scenario || !own) continue;
        const auto others = shared(*other.scenario);
        if (!others || *others == *own) continue;
        job.report("scenario", fmt::format("its {} of job \"{}\"", what, other.name), hint);
        return;
      }
    };
    const auto building = [](const PowerSettings& power) {
      return std::tuple{power.pue, power.nodes_per_rack, power.price_per_kwh, power.kg_co2_per_kwh};
    };
    check(
        [&](const Scenario& one) {
          return one.power ? std::optional(building(*one.power)) : std::nullopt;
        },
        "power.pue, nodes_per_rack, price_per_kwh or kg_co2_per_kwh differs from that",
        "give all jobs the same building in their blocks \"power\"");
    check(
        [](const Scenario& one) {
          const CollectiveChoice& choice = one.plan.collectives;
          return std::optional(std::pair{choice.nccl, choice.profile});
        },
        "NCCL settings differ from those",
        "give all jobs the same \"collectives.nccl\" and \"collectives.profile\"");
  }

  void check_names(const Jobs& jobs) {
    for (std::size_t i = 0; i < jobs.all.size(); ++i) {
      const JobSpec& job = jobs.all[i];
      const auto same = std::ranges::find(jobs.all, job.name, &JobSpec::name);
      if (same != jobs.all.begin() + static_cast<std::ptrdiff_t>(i))
        file_.report(fmt::format("/jobs/{}/name", i),
                     fmt::format("\"{}\" is the name of two jobs", job.name));
      if (job.placement.kind != PlacementKind::With) continue;
      const std::string at = fmt::format("/jobs/{}/placement/with", i);
      // Traffic takes its GPUs from the other job, so that one is read and placed before it.
      const auto other = std::ranges::find(jobs.all, job.placement.job, &JobSpec::name);
      if (job.scenario) {
        file_.report(at, "two jobs cannot compute on one GPU", "only traffic runs beside a job");
      } else if (other == jobs.all.end() || other - jobs.all.begin() >= static_cast<long>(i)) {
        file_.report(at, fmt::format("no job before this one is \"{}\"", job.placement.job));
      }
    }
  }

  JsonFile& file_;
  const fs::path& folder_;
};

void refuse_one_scenario(JsonFile& file) {
  const Json& document = file.document();
  if (!document.is_object() || document.contains("jobs") || !document.contains("model")) return;
  throw InputError(
      Problem{.file = file.name(),
              .pointer = {},
              .problem = "is one scenario, not several jobs",
              .hint = fmt::format("simulate it alone: trainyard run {}", file.name())});
}

Jobs overridden_jobs(JsonFile file, const std::vector<Override>& overrides) {
  refuse_one_scenario(file);
  const fs::path folder = fs::path(file.name()).parent_path();
  for (const Override& change : overrides) {
    expand_named_part(file.document(), override_pointer(change.path), folder);
    file.document() = with_override(std::move(file.document()), change);
  }
  try {
    return JobsReader(file, folder).read();
  } catch (const InputError& error) {
    throw InputError(attribute_to_overrides(error.problems(), overrides));
  }
}

}  // namespace

Jobs load_jobs(const std::string& path, const std::vector<Override>& overrides) {
  return overridden_jobs(JsonFile::read(scenario_file(path)), overrides);
}

Jobs read_jobs_document(const std::string& name, const Json& document,
                        const std::vector<Override>& overrides) {
  return overridden_jobs(JsonFile::parse(name, document.dump()), overrides);
}

}  // namespace trainyard

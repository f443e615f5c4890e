#include "sim/workload/program_sections.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>

namespace trainyard {
namespace {

// Shorter runs are not worth a section of their own.
constexpr OpIndex kLeast = 16;
// Models that a section is held against: a stage has a forward and a backward of every chunk, each
// with a few ways to begin.
constexpr std::size_t kMostModels = 16;
constexpr std::size_t kStreams = std::numeric_limits<std::uint8_t>::max() + 1;

// What an operation does stands at its beginning without gaps.
constexpr std::size_t kWork = offsetof(Operation, microbatch);
static_assert(offsetof(Operation, payload) + sizeof(Operation::payload) == kWork &&
              kWork ==
                  4 * sizeof(std::uint8_t) + 2 * sizeof(std::uint16_t) + sizeof(std::uint32_t));

// Nearly all operations of a step come this way.
bool same_work(const Operation& a, const Operation& b) {
  return std::memcmp(&a, &b, kWork) == 0 &&
         a.dependencies_end - a.dependencies_begin == b.dependencies_end - b.dependencies_begin;
}

class SectionFinder {
 public:
  explicit SectionFinder(const Program& program)
      : operations_(program.operations), dependencies_(program.dependencies) {
    last_.fill(kNone);
  }

  ProgramSections found() {
    const auto count = static_cast<OpIndex>(operations_.size());
    OpIndex first = 0;  // of the section under way
    for (OpIndex begin = 0; begin < count;) {
      const OpIndex end = end_of_run(begin);
      if (end - begin >= kLeast) {
        if (first < begin) add(first, begin, false);
        add(begin, end, true);
        first = end;
      }
      begin = end;
    }
    if (first < count) add(first, count, false);
    return std::move(result_);
  }

 private:
  struct Model {
    std::uint32_t section = 0;
    std::vector<std::pair<std::uint8_t, OpIndex>> last;  // by stream in use, from its first
  };

  // Of operations of one microbatch.
  [[nodiscard]] OpIndex end_of_run(OpIndex begin) const {
    const auto run = operations_.subspan(begin);
    const auto end = std::ranges::find_if(
        run, [&](const Operation& op) { return op.microbatch != run.front().microbatch; });
    return begin + static_cast<OpIndex>(end - run.begin());
  }

  void add(OpIndex first, OpIndex end, bool of_one) {
    const auto number = static_cast<std::uint32_t>(result_.all.size());
    result_.all.push_back({.first = first,
                           .count = end - first,
                           .number = number,
                           .model = number,
                           .outside_begin = result_.outside.size()});
    if (of_one && find_model(result_.all.back())) return;
    write(result_.all.back(), of_one);
  }

  // The model met last comes last.
  bool find_model(ProgramSection& section) {
    for (auto model = models_.rbegin(); model != models_.rend(); ++model) {
      if (!repeats(section, result_.all[model->section])) continue;
      std::rotate(model.base() - 1, model.base(), models_.end());
      const ProgramSection& other = result_.all[models_.back().section];
      section.model = other.number;
      section.entries = other.entries;
      section.entries_begin = other.entries_begin;
      for (const auto& [stream, offset] : models_.back().last)
        last_[stream] = section.first + offset;
      return true;
    }
    return false;
  }

  // Writes what is outside as it goes, and takes it back where something differs.
  [[nodiscard]] bool repeats(const ProgramSection& section, const ProgramSection& model) {
    if (section.count != model.count) return false;
    std::size_t entry = model.entries_begin;
    const std::size_t entries_end = entry + model.entries;
    bool same = true;
    for (OpIndex i = 0; same && i < section.count; ++i) {
      const Operation& op = operations_.data()[section.first + i];
      const Operation& old = operations_.data()[model.first + i];
      same = same_work(op, old);
      if (same && entry < entries_end && result_.entered[entry].offset == i) {
        same = enters_alike(section, model, i, entry);
      } else if (same) {
        same = waits_inside_alike(section, model, i);
      }
    }
    if (!same) result_.outside.resize(section.outside_begin);
    return same;
  }

  [[nodiscard]] bool waits_inside_alike(const ProgramSection& section, const ProgramSection& model,
                                        OpIndex offset) const {
    const Operation& op = operations_.data()[section.first + offset];
    const OpIndex* old =
        dependencies_.data() + operations_.data()[model.first + offset].dependencies_begin;
    const OpIndex* const end = dependencies_.data() + op.dependencies_end;
    for (const OpIndex* input = dependencies_.data() + op.dependencies_begin; input != end; ++input)
      if (*input != *old++ + (section.first - model.first)) return false;
    return true;
  }

  // Of an operation with entries; `entry` goes on past those.
  [[nodiscard]] bool enters_alike(const ProgramSection& section, const ProgramSection& model,
                                  OpIndex offset, std::size_t& entry) {
    const Operation& op = operations_[section.first + offset];
    const Operation& old = operations_[model.first + offset];
    const OpIndex* const known = result_.outside.data() + model.outside_begin;
    if (result_.entered[entry].stream) {
      const bool first = known[entry - model.entries_begin] == kNone;
      if ((last_[op.stream] == kNone) != first) return false;
      result_.outside.push_back(last_[op.stream]);
      ++entry;
    }
    for (std::uint32_t i = 0; i < op.dependencies_end - op.dependencies_begin; ++i) {
      const OpIndex input = dependencies_[op.dependencies_begin + i];
      const OpIndex old_input = dependencies_[old.dependencies_begin + i];
      if (old_input >= model.first) {
        if (input != old_input + (section.first - model.first)) return false;
      } else {
        if (input >= section.first) return false;
        result_.outside.push_back(input);
        ++entry;
      }
    }
    return true;
  }

  // A section that is like none before.
  void write(ProgramSection& section, bool may_be_model) {
    section.entries_begin = result_.entered.size();
    std::array<OpIndex, kStreams> last{};
    last.fill(kNone);
    for (OpIndex op = section.first; op < section.end(); ++op) {
      const Operation& operation = operations_[op];
      const OpIndex offset = op - section.first;
      if (last[operation.stream] == kNone) enter({offset, true}, last_[operation.stream]);
      last[operation.stream] = op;
      for (std::uint32_t i = operation.dependencies_begin; i < operation.dependencies_end; ++i)
        if (dependencies_[i] < section.first) enter({offset, false}, dependencies_[i]);
    }
    section.entries = static_cast<std::uint32_t>(result_.entered.size() - section.entries_begin);
    Model model{.section = section.number, .last = {}};
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      if (last[stream] == kNone) continue;
      last_[stream] = last[stream];
      model.last.emplace_back(static_cast<std::uint8_t>(stream), last[stream] - section.first);
    }
    if (!may_be_model || section.entries > kMostEntries) return;
    if (models_.size() == kMostModels) models_.erase(models_.begin());
    models_.push_back(std::move(model));
  }

  void enter(const ProgramSections::Entry& entry, OpIndex before) {
    result_.entered.push_back(entry);
    result_.outside.push_back(before);
  }

  std::span<const Operation> operations_;
  std::span<const OpIndex> dependencies_;
  ProgramSections result_;
  std::vector<Model> models_;
  std::array<OpIndex, kStreams> last_{};  // by stream, before the section under way
};

}  // namespace

ProgramSections sections_of(const Program& program) { return SectionFinder(program).found(); }

}  // namespace trainyard

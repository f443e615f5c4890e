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

// Nearly all operations of a step that is written out come this way.
bool same_work(const Operation& a, const Operation& b) {
  return std::memcmp(&a, &b, kWork) == 0 &&
         a.dependencies_end - a.dependencies_begin == b.dependencies_end - b.dependencies_begin;
}

// Operations as they are written, quickly where those asked for are neighbours.
class Reader {
 public:
  explicit Reader(const Program& program)
      : program_(program),
        written_(program.operations.written().data()),
        dependencies_(program.dependencies.data()),
        outside_(program.operations.outside().data()) {}

  [[nodiscard]] const Operation& operator[](OpIndex op) {
    if (op - passage_.first >= passage_.count) passage_ = program_.operations.passage_at(op);
    return written_[passage_.written + (op - passage_.first)];
  }
  [[nodiscard]] OperationInputs inputs_of(OpIndex op) { return inputs((*this)[op]); }
  // Of the one read last.
  [[nodiscard]] OperationInputs inputs(const Operation& last) const {
    return {{dependencies_ + last.dependencies_begin, dependencies_ + last.dependencies_end},
            passage_.base,
            outside_ + passage_.outside_begin};
  }

 private:
  const Program& program_;
  const Operation* written_;
  const OpIndex* dependencies_;
  const OpIndex* outside_;
  Passage passage_;
};

// Operations of one microbatch, one behind the other.
struct Run {
  OpIndex first = 0;
  OpIndex end = 0;
  std::int32_t microbatch = -1;
  // The passages that it is made of; none: a part of one, or with such a part.
  std::uint32_t passages_begin = 0;
  std::uint32_t passages_end = 0;
};

class RunFinder {
 public:
  RunFinder(const OperationList& operations, const std::vector<Passage>& passages)
      : written_(operations.written()), passages_(passages), of_one_(passages.size(), false) {}

  std::vector<Run> found() {
    for (std::uint32_t number = 0; number < passages_.size(); ++number) {
      const Passage& passage = passages_[number];
      if (passage.model != number && of_one_[passage.model]) {
        add(passage, passage.first, passage.end());
      } else {
        scan(passage);
      }
    }
    return std::move(runs_);
  }

 private:
  void scan(const Passage& passage) {
    const auto operations = written_.subspan(passage.written, passage.count);
    OpIndex begin = 0;
    while (begin < passage.count) {
      const auto rest = operations.subspan(begin);
      const auto other = std::ranges::find_if(
          rest, [&](const Operation& op) { return op.microbatch != rest.front().microbatch; });
      const auto end = begin + static_cast<OpIndex>(other - rest.begin());
      of_one_[passage.model] = begin == 0 && end == passage.count;
      add(passage, passage.first + begin, passage.first + end);
      begin = end;
    }
  }

  void add(const Passage& passage, OpIndex first, OpIndex end) {
    const std::int32_t microbatch =
        written_[passage.written + (first - passage.first)].microbatch + passage.later;
    const bool whole = first == passage.first && end == passage.end();
    const auto number = static_cast<std::uint32_t>(&passage - passages_.data());
    if (runs_.empty() || runs_.back().microbatch != microbatch) {
      runs_.push_back({.first = first, .end = end, .microbatch = microbatch});
      if (whole) runs_.back().passages_begin = number;
      if (whole) runs_.back().passages_end = number + 1;
      return;
    }
    Run& run = runs_.back();
    const bool goes_on = whole && run.passages_begin < run.passages_end;
    run.end = end;
    run.passages_end = goes_on ? number + 1 : run.passages_begin;
  }

  std::span<const Operation> written_;
  const std::vector<Passage>& passages_;
  std::vector<bool> of_one_;  // by passage, of models: all of one microbatch
  std::vector<Run> runs_;
};

class SectionFinder {
 public:
  explicit SectionFinder(const Program& program)
      : operations_(program.operations),
        passages_(program.operations.passages()),
        own_(program),
        old_(program) {
    last_.fill(kNone);
  }

  ProgramSections found() {
    OpIndex first = 0;  // of the section under way
    OpIndex end = 0;
    for (const Run& run : RunFinder(operations_, passages_).found()) {
      end = run.end;
      if (run.end - run.first < kLeast) continue;
      if (first < run.first) add({.first = first, .end = run.first}, false);
      add(run, true);
      first = run.end;
    }
    if (first < end) add({.first = first, .end = end}, false);
    return std::move(result_);
  }

 private:
  struct Model {
    std::uint32_t section = 0;
    Run run;
    std::vector<std::pair<std::uint8_t, OpIndex>> last;  // by stream in use, from its first
  };

  void add(const Run& run, bool of_one) {
    const auto number = static_cast<std::uint32_t>(result_.all.size());
    result_.all.push_back({.first = run.first,
                           .count = run.end - run.first,
                           .number = number,
                           .model = number,
                           .outside_begin = result_.outside.size()});
    if (of_one && find_model(result_.all.back(), run)) return;
    write(result_.all.back(), run, of_one);
  }

  // The model met last comes last.
  bool find_model(ProgramSection& section, const Run& run) {
    for (auto model = models_.rbegin(); model != models_.rend(); ++model) {
      if (!repeats(section, run, *model)) continue;
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
  [[nodiscard]] bool repeats(const ProgramSection& section, const Run& run, const Model& model) {
    const ProgramSection& other = result_.all[model.section];
    if (section.count != other.count) return false;
    const bool same =
        same_passages(run, model.run) ? enters_as(section, run, model) : does_as(section, other);
    if (!same) result_.outside.resize(section.outside_begin);
    return same;
  }

  // Are both made of the same passages, written once?
  [[nodiscard]] bool same_passages(const Run& run, const Run& model) const {
    const std::uint32_t count = run.passages_end - run.passages_begin;
    if (count == 0 || count != model.passages_end - model.passages_begin) return false;
    for (std::uint32_t i = 0; i < count; ++i)
      if (passages_[run.passages_begin + i].model != passages_[model.passages_begin + i].model)
        return false;
    return true;
  }

  // Of the same passages: what these wait for from before them may still differ.
  [[nodiscard]] bool enters_as(const ProgramSection& section, const Run& run, const Model& model) {
    const ProgramSection& other = result_.all[model.section];
    const std::span<const OpIndex> outside = operations_.outside();
    for (std::uint32_t i = run.passages_begin; i < run.passages_end; ++i) {
      const Passage& passage = passages_[i];
      const Passage& old = passages_[model.run.passages_begin + (i - run.passages_begin)];
      for (std::uint32_t input = 0; input < passage.outside_end - passage.outside_begin; ++input) {
        const OpIndex before = outside[passage.outside_begin + input];
        const OpIndex old_before = outside[old.outside_begin + input];
        if ((before >= section.first) != (old_before >= other.first)) return false;
        if (before >= section.first && before - section.first != old_before - other.first)
          return false;
      }
    }
    for (std::size_t entry = other.entries_begin; entry < other.entries_begin + other.entries;)
      if (!enters_alike(section, other, result_.entered[entry].offset, entry)) return false;
    return true;
  }

  [[nodiscard]] bool does_as(const ProgramSection& section, const ProgramSection& model) {
    std::size_t entry = model.entries_begin;
    const std::size_t entries_end = entry + model.entries;
    for (OpIndex i = 0; i < section.count; ++i) {
      const Operation& op = own_[section.first + i];
      const Operation& old = old_[model.first + i];
      if (!same_work(op, old)) return false;
      if (entry < entries_end && result_.entered.data()[entry].offset == i) {
        if (!enters_alike(section, model, i, entry)) return false;
      } else if (op.dependencies_begin < op.dependencies_end) {
        auto before = old_.inputs(old).begin();
        for (const OpIndex input : own_.inputs(op)) {
          if (input != *before + (section.first - model.first)) return false;
          ++before;
        }
      }
    }
    return true;
  }

  // Of an operation with entries; `entry` goes on past those.
  [[nodiscard]] bool enters_alike(const ProgramSection& section, const ProgramSection& model,
                                  OpIndex offset, std::size_t& entry) {
    const std::uint8_t stream = own_[section.first + offset].stream;
    const OpIndex* const known = result_.outside.data() + model.outside_begin;
    if (result_.entered[entry].stream) {
      const bool first = known[entry - model.entries_begin] == kNone;
      if ((last_[stream] == kNone) != first) return false;
      result_.outside.push_back(last_[stream]);
      ++entry;
    }
    auto old = old_.inputs_of(model.first + offset).begin();
    for (const OpIndex input : own_.inputs_of(section.first + offset)) {
      const OpIndex old_input = *old;
      ++old;
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
  void write(ProgramSection& section, const Run& run, bool may_be_model) {
    section.entries_begin = result_.entered.size();
    std::array<OpIndex, kStreams> last{};
    last.fill(kNone);
    for (OpIndex op = section.first; op < section.end(); ++op) {
      const std::uint8_t stream = own_[op].stream;
      const OpIndex offset = op - section.first;
      if (last[stream] == kNone) enter({offset, true}, last_[stream]);
      last[stream] = op;
      for (const OpIndex input : own_.inputs_of(op))
        if (input < section.first) enter({offset, false}, input);
    }
    section.entries = static_cast<std::uint32_t>(result_.entered.size() - section.entries_begin);
    Model model{.section = section.number, .run = run, .last = {}};
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

  const OperationList& operations_;
  const std::vector<Passage> passages_;
  Reader own_;  // of the section under way
  Reader old_;  // of models
  ProgramSections result_;
  std::vector<Model> models_;
  std::array<OpIndex, kStreams> last_{};  // by stream, before the section under way
};

}  // namespace

ProgramSections sections_of(const Program& program) { return SectionFinder(program).found(); }

}  // namespace trainyard

#include "sim/engine/regions.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>

#include "sim/base/mixed.hpp"

namespace trainyard {

namespace {

// The most members of a region. It bounds the work of planning the region once.
constexpr std::size_t kMostPieces = 4096;

// The searches of instances of blocks. A program shares the list of a program of the same blocks,
// and copies it when it adds a search.
class Searches {
 public:
  explicit Searches(const ProgramRegions* like) : all_(like ? like->searches : nullptr) {
    if (!all_) (void)own();
  }

  [[nodiscard]] const std::vector<RegionSearchResult>& all() const { return *all_; }
  [[nodiscard]] std::vector<RegionSearchResult>& own() {
    if (!own_) {
      own_ = all_ ? std::make_shared<std::vector<RegionSearchResult>>(*all_)
                  : std::make_shared<std::vector<RegionSearchResult>>();
      all_ = own_;
    }
    return *own_;
  }
  [[nodiscard]] std::shared_ptr<const std::vector<RegionSearchResult>> shared() const {
    return all_;
  }

 private:
  std::shared_ptr<std::vector<RegionSearchResult>> own_;
  std::shared_ptr<const std::vector<RegionSearchResult>> all_;
};

// Finds the members of regions.
//
// A greedy scan in issue order: each computation that may be a head grows a region as far as the
// rules allow, and the scan continues behind it. The result of one instance is reused for every
// instance of the block where the scan would decide the same (holds_for). Cost: one scan per
// distinct result, and per further instance a comparison of its entries for every head tried.
//
// Example of one instance, where the all-reduce may join and the send may not:
//
//     GEMM -> all-reduce -> norm -> GEMM     one region of four members; the first GEMM is its head
//                             \-> send       runs beside the region; the norm is seen from outside
//
// REQUIRES: all instances of a block agree on which of their operations may join.
class RegionSearch {
 public:
  RegionSearch(const Program& program, const MayJoin& may_join, const ProgramOrder& order,
               Searches& searches)
      : program_(program),
        operations_(program.operations),
        may_join_(may_join),
        order_(order),
        searches_(searches),
        computations_(operations_.blocks().size()) {
    list_computations();
  }

  // By instance: the number of the search that holds for it.
  std::vector<std::uint32_t> found() {
    const std::span<const Instance> instances = operations_.instances();
    // The searches of each block, beginning with those that another program has made.
    std::vector<std::vector<std::uint32_t>> of_block(operations_.blocks().size());
    for (std::uint32_t one = 0; one < searches_.all().size(); ++one)
      of_block[searches_.all()[one].block].push_back(one);
    std::vector<std::uint32_t> result;
    result.reserve(instances.size());
    for (std::uint32_t number = 0; number < instances.size(); ++number) {
      std::vector<std::uint32_t>& known = of_block[instances[number].block];
      const auto like = std::ranges::find_if(
          known, [&](std::uint32_t one) { return holds_for(number, searches_.all()[one]); });
      if (like != known.end()) {
        result.push_back(*like);
        continue;
      }
      result.push_back(static_cast<std::uint32_t>(searches_.all().size()));
      known.push_back(result.back());
      searches_.own().push_back(search(number));
    }
    return result;
  }

 private:
  // The computations of a block: their indices, by stream with computations, ascending.
  using Places = std::vector<std::vector<OpIndex>>;

  // Lists the computations of every block, and for every instance the nearest ones on each stream
  // before and after it.
  void list_computations() {
    const std::span<const Instance> instances = operations_.instances();
    for (std::uint32_t block = 0; block < computations_.size(); ++block) list_computations(block);
    const std::size_t streams = compute_columns_.size();
    for (Places& places : computations_) places.resize(streams);
    // Computations that are all on one stream are in a total order.
    single_compute_stream_ = streams <= 1;
    // One pass over the instances from the front for `before_`, and one from the back for `after_`.
    before_.assign(instances.size() * streams, kNone);
    after_.assign(instances.size() * streams, kNone);
    for (std::size_t stream = 0; stream < streams; ++stream) {
      OpIndex nearest = kNone;
      for (std::size_t i = 0; i < instances.size(); ++i) {
        before_[i * streams + stream] = nearest;
        const std::vector<OpIndex>& places = computations_[instances[i].block][stream];
        if (!places.empty()) nearest = instances[i].first + places.back();
      }
      // The same from the back.
      nearest = kNone;
      for (std::size_t i = instances.size(); i-- > 0;) {
        after_[i * streams + stream] = nearest;
        const std::vector<OpIndex>& places = computations_[instances[i].block][stream];
        if (!places.empty()) nearest = instances[i].first + places.front();
      }
    }
  }

  void list_computations(std::uint32_t block) {
    const Block& it = operations_.blocks()[block];
    const auto written = operations_.written().subspan(it.begin, it.count);
    Places& places = computations_[block];
    for (OpIndex place = 0; place < it.count; ++place) {
      if (written[place].kind != OpKind::Compute) continue;
      // A column stands for a stream (program_order.hpp). Here only columns with computations get a
      // number.
      const std::uint8_t column = order_.blocks()->column(it.begin + place);
      const auto known = std::ranges::find(compute_columns_, column);
      const auto stream = static_cast<std::size_t>(known - compute_columns_.begin());
      if (known == compute_columns_.end()) compute_columns_.push_back(column);
      if (places.size() <= stream) places.resize(stream + 1);
      places[stream].push_back(place);
    }
  }

  // Whether the operation has ended before the head starts, however long anything takes.
  [[nodiscard]] bool done(OpIndex op, OpIndex head) const {
    return op == kNone || order_.before(op, head);
  }

  // Whether a search of the instance would give the result of the other search, of the same block.
  //
  // It would, because the scan decides by four conditions, which are equal in both. First, which
  // operations may join: the same for all instances (REQUIRES). Second, the order and the
  // microbatches of operations inside: those of the block. Third, whether each operation before the
  // instance has ended before each head tried: compared here. Fourth, whether a region ends before
  // the computations that follow: compared here. Computations before a head decide nothing when all
  // computations are on one stream; where they are not, no result is reused.
  [[nodiscard]] bool holds_for(std::uint32_t number, const RegionSearchResult& other) const {
    if (!single_compute_stream_) return false;
    const Instance& instance = operations_.instances()[number];
    const std::span<const OpIndex> outside = order_.entry_operations(number);
    const auto same_conditions = [&](const RegionSearchResult::Tried& tried) {
      for (std::size_t i = 0; i < outside.size(); ++i)
        if (done(outside[i], instance.first + tried.head) != tried.done[i]) return false;
      return computes_alone_to(number, instance.first + tried.last) == tried.alone;
    };
    return std::ranges::all_of(other.tried, same_conditions);
  }

  RegionSearchResult search(std::uint32_t number) {
    const Instance& instance = operations_.instances()[number];
    const OpIndex count = operations_.block_of(instance).count;
    first_ = instance.first;
    head_of_.assign(count, kNone);
    RegionSearchResult result{.block = instance.block};
    const OpIndex end = instance.first + count;
    // The conditions of every attempt are stored, also of failed ones: holds_for() compares them.
    for (OpIndex op = instance.first; op < end; ++op) {
      if (operations_[op].kind != OpKind::Compute || !may_join_(op)) continue;
      if (!computes_alone_from(number, op)) continue;
      std::vector<OpIndex> members = grown(op, end);
      const OpIndex last = members.back();
      const bool alone = computes_alone_to(number, last);
      RegionSearchResult::Tried& tried = result.tried.emplace_back();
      tried = {.head = op - first_, .last = last - first_, .alone = alone, .done = {}};
      for (const OpIndex before : order_.entry_operations(number))
        tried.done.push_back(done(before, op));
      if (members.size() < 2 || !alone) continue;
      // The scan continues behind the region. Behind an attempt without a result it continues with
      // the next operation, which may be a better head.
      op = last;
      for (OpIndex& member : members) member -= first_;
      result.regions.push_back(std::move(members));
    }
    mark(instance, result);
    return result;
  }

  // Records for every operation its number in its region, which operations are awaited from outside
  // a region, and through which entries operations of earlier instances are awaited. A later member
  // of a region waits outside only for operations that end before the head starts, and the head
  // waits for those: the member needs no edge.
  void mark(const Instance& instance, RegionSearchResult& result) const {
    const OpIndex count = operations_.block_of(instance).count;
    result.within.assign(count, kAlone);
    result.piece.assign(count, kNone);
    result.seen.assign(count, 0);
    for (const std::vector<OpIndex>& members : result.regions) {
      for (std::uint32_t i = 0; i < members.size(); ++i) {
        result.within[members[i]] = kInsideRegion;
        result.piece[members[i]] = i;
      }
      result.within[members.front()] = kAlone;
    }
    for (OpIndex place = 0; place < count; ++place) {
      if (result.within[place] == kInsideRegion) continue;
      for_each_input(program_, order_, instance.first + place, [&](OpIndex input) {
        if (input >= instance.first) result.seen[input - instance.first] = 1;
      });
    }
    for (const BlockEntries::Edge& edge : order_.entries_of(instance.block).edges)
      if (result.within[edge.place] != kInsideRegion) result.entries.push_back(edge.entry);
    std::ranges::sort(result.entries);
    const auto rest = std::ranges::unique(result.entries);
    result.entries.erase(rest.begin(), rest.end());
  }

  // Every computation issued earlier has ended when `head` of the instance starts. The last one on
  // each stream comes after those before it, so that one is enough.
  [[nodiscard]] bool computes_alone_from(std::uint32_t number, OpIndex head) const {
    const Instance& instance = operations_.instances()[number];
    const Places& places = computations_[instance.block];
    for (std::size_t stream = 0; stream < places.size(); ++stream) {
      const auto at = std::ranges::lower_bound(places[stream], head - instance.first);
      const OpIndex before = at == places[stream].begin() ? before_[number * places.size() + stream]
                                                          : instance.first + *(at - 1);
      if (before != kNone && !order_.before(before, head)) return false;
    }
    return true;
  }
  // No computation issued later starts before `last` of the instance has ended. The first one on
  // each stream is enough.
  [[nodiscard]] bool computes_alone_to(std::uint32_t number, OpIndex last) const {
    const Instance& instance = operations_.instances()[number];
    const Places& places = computations_[instance.block];
    for (std::size_t stream = 0; stream < places.size(); ++stream) {
      const auto next = std::ranges::upper_bound(places[stream], last - instance.first);
      const OpIndex after = next == places[stream].end() ? after_[number * places.size() + stream]
                                                         : instance.first + *next;
      if (after != kNone && !order_.before(last, after)) return false;
    }
    return true;
  }

  // Grows a region from the head up to the last operation that comes after all others. Members
  // behind that operation are dropped: a region needs one end. Communication that may not join is
  // skipped; it runs concurrently with the region. A computation outside ends the region, as it
  // could overlap with members.
  std::vector<OpIndex> grown(OpIndex head, OpIndex end) {
    std::vector<OpIndex> members = {head};
    head_of_[head - first_] = head;
    tails_ = {head};
    // members[0, kept) are a region: the last of them comes after all others.
    std::size_t kept = 1;
    for (OpIndex op = head + 1; op < end && members.size() < kMostPieces; ++op) {
      if (operations_[op].microbatch != operations_[head].microbatch) break;
      if (!may_join_(op) || !follows(op, head)) {
        if (operations_[op].kind == OpKind::Compute) break;
        continue;
      }
      head_of_[op - first_] = head;
      members.push_back(op);
      if (comes_last(op)) kept = members.size();
    }
    members.resize(kept);
    return members;
  }

  // Whether `op` waits for a member of the head's region, and for nothing else but operations that
  // end before the head starts.
  [[nodiscard]] bool follows(OpIndex op, OpIndex head) const {
    bool inside = false;
    bool outside = false;
    for_each_input(program_, order_, op, [&](OpIndex input) {
      if (input >= first_ && head_of_[input - first_] == head) {
        inside = true;
      } else if (!order_.before(input, head)) {
        outside = true;
      }
    });
    return inside && !outside;
  }

  // Whether `op` comes after all members so far. Operations of a stream are in order, so the last
  // member of each stream is enough. Makes `op` the last member of its stream.
  [[nodiscard]] bool comes_last(OpIndex op) {
    const std::uint8_t own = order_.column(op);
    bool last = true;
    bool known = false;
    for (OpIndex& tail : tails_) {
      if (order_.column(tail) == own) {
        tail = op;
        known = true;
      } else if (!order_.before(tail, op)) {
        last = false;
      }
    }
    if (!known) tails_.push_back(op);
    return last;
  }

  const Program& program_;
  const OperationList& operations_;
  const MayJoin& may_join_;
  const ProgramOrder& order_;
  Searches& searches_;
  bool single_compute_stream_ = true;          // all computations are on one stream
  std::vector<std::uint8_t> compute_columns_;  // columns of the streams with computations
  std::vector<Places> computations_;           // indexed by block
  std::vector<OpIndex> before_;   // [instance][stream]: the last computation before it; kNone
  std::vector<OpIndex> after_;    // [instance][stream]: the first computation after it; kNone
  OpIndex first_ = 0;             // first operation of the instance that is being searched
  std::vector<OpIndex> head_of_;  // by index in the block: head of the last attempt
  std::vector<OpIndex> tails_;    // the last member on each stream, of the region being grown
};

// A region in words (ShapeWriter::key).
using Key = std::vector<std::uint32_t>;

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::uint64_t hash = key.size();
    for (const std::uint32_t word : key) hash = hash_with(hash, word);
    return hash;
  }
};

// Writes the shapes and variants of regions.
//
// Regions with equal keys share one shape. Shapes taken over from an earlier program of the same
// blocks are not compared with new regions.
class ShapeWriter {
 public:
  ShapeWriter(const Program& program, const ProgramOrder& order,
              const std::vector<std::uint32_t>& found, Searches& searches,
              const ProgramRegions* like)
      : program_(program),
        order_(order),
        instances_(program.operations.instances()),
        found_(found),
        searches_(searches) {
    // The searches of `like` name variants by number, and variants name shapes by number. Both
    // lists are therefore taken over whole.
    if (like != nullptr) {
      result_.shapes = like->shapes;
      result_.variants = like->variants;
    }
    result_.operations = program.operations;
    result_.variant_of.assign(found.size(), kNone);
  }

  ProgramRegions written() {
    // Operations of later instances decide which members are seen, so all of them are collected
    // first.
    for (std::uint32_t number = 0; number < instances_.size(); ++number) find_awaited(number);
    std::ranges::sort(awaited_);
    const auto rest = std::ranges::unique(awaited_);
    awaited_.erase(rest.begin(), rest.end());
    for (std::uint32_t number = 0; number < instances_.size(); ++number) write(number);
    result_.searches = searches_.shared();
    return std::move(result_);
  }

 private:
  [[nodiscard]] const RegionSearchResult& search_of(std::uint32_t number) const {
    return searches_.all()[found_[number]];
  }

  // Collects the operations of earlier instances that this instance waits for.
  void find_awaited(std::uint32_t number) {
    const std::span<const OpIndex> outside = order_.entry_operations(number);
    for (const std::uint32_t entry : search_of(number).entries)
      if (outside[entry] != kNone) awaited_.push_back(outside[entry]);
  }

  void write(std::uint32_t number) {
    const std::size_t regions = search_of(number).regions.size();
    if (regions == 0) return;
    result_.variant_of[number] = variant(number);
    result_.regions += static_cast<std::uint32_t>(regions);
  }

  [[nodiscard]] std::uint32_t variant(std::uint32_t number) {
    const Instance& instance = instances_[number];
    const OpIndex end = instance.first + program_.operations.block_of(instance).count;
    std::vector<OpIndex>& awaited = awaited_here_;
    awaited.clear();
    for (auto op = std::ranges::lower_bound(awaited_, instance.first);
         op != awaited_.end() && *op < end; ++op)
      if (search_of(number).piece[*op - instance.first] != kNone)
        awaited.push_back(*op - instance.first);
    // Within one search, the awaited members are all that distinguishes instances.
    for (const RegionSearchResult::Seen& known : search_of(number).variants)
      if (known.awaited == awaited) return known.variant;
    RegionSearchResult own = search_of(number);
    for (const OpIndex place : awaited) own.seen[place] = 1;
    first_ = instance.first;
    // The shape of a region depends on which members are seen, which differs between instances of
    // one search. `own` is the search with the members that this instance shows to later ones.
    own_ = &own;
    ProgramRegions::Variant fresh = own.within;
    for (std::vector<OpIndex> members : own.regions) {
      for (OpIndex& member : members) member += first_;
      fresh[members.front() - first_] = shape_of(members);
    }
    const auto variant = static_cast<std::uint32_t>(result_.variants.size());
    result_.variants.push_back(std::move(fresh));
    searches_.own()[found_[number]].variants.push_back({awaited, variant});
    return variant;
  }

  // Calls visit(number) for the pieces that `op` waits for. Regions do not overlap in issue order,
  // so an operation between the head and `op` that has a piece number belongs to the region of
  // `op`.
  template <class Visit>
  void for_each_piece_before(OpIndex op, OpIndex head, const Visit& visit) const {
    for_each_input(program_, order_, op, [&](OpIndex input) {
      if (input < head) return;
      if (const std::uint32_t piece = own_->piece[input - first_]; piece != kNone) visit(piece);
    });
  }

  [[nodiscard]] bool is_seen(OpIndex op, const std::vector<OpIndex>& members) const {
    return own_->seen[op - first_] != 0 || op == members.back();
  }

  std::uint32_t shape_of(const std::vector<OpIndex>& members) {
    const auto [entry, fresh] =
        known_.try_emplace(key(members), static_cast<std::uint32_t>(result_.shapes.size()));
    if (fresh) result_.shapes.push_back(shape(members));
    return entry->second;
  }

  // All that determines the shape of a region. The words of a member are its offset from the head,
  // its slot with its kind and whether it is seen, its payload, the members that it waits for, and
  // kNone.
  [[nodiscard]] Key key(const std::vector<OpIndex>& members) const {
    Key words;
    for (const OpIndex op : members) {
      const Operation& operation = program_.operations[op];
      const std::uint32_t seen = is_seen(op, members) ? 1 : 0;
      const auto kind = static_cast<std::uint32_t>(operation.kind);
      words.push_back(op - members.front());
      words.push_back(std::uint32_t{operation.slot} << 16U | kind << 8U | seen);
      words.push_back(operation.payload);
      for_each_piece_before(op, members.front(),
                            [&](std::uint32_t piece) { words.push_back(piece); });
      words.push_back(kNone);
    }
    return words;
  }

  [[nodiscard]] RegionShape shape(const std::vector<OpIndex>& members) const {
    RegionShape result;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
    for (std::uint32_t i = 0; i < members.size(); ++i) {
      const Operation& operation = program_.operations[members[i]];
      result.pieces.push_back({.offset = members[i] - members.front(),
                               .kind = operation.kind,
                               .slot = operation.slot,
                               .payload = operation.payload,
                               .seen = is_seen(members[i], members)});
      for_each_piece_before(members[i], members.front(), [&](std::uint32_t before) {
        edges.emplace_back(before, i);
        ++result.pieces.back().waits_for;
      });
    }
    // Sorted by the piece that they leave, the edges of a piece form one range of `next`.
    std::ranges::sort(edges);
    for (const auto& [from, to] : edges) {
      RegionShape::Piece& piece = result.pieces[from];
      if (piece.next_end == piece.next_begin)
        piece.next_begin = piece.next_end = static_cast<std::uint32_t>(result.next.size());
      ++piece.next_end;
      result.next.push_back(to);
    }
    return result;
  }

  const Program& program_;
  const ProgramOrder& order_;
  const std::span<const Instance> instances_;
  const std::vector<std::uint32_t>& found_;
  Searches& searches_;
  OpIndex first_ = 0;  // first operation of the present instance
  const RegionSearchResult* own_ = nullptr;
  std::vector<OpIndex> awaited_;       // operations that later instances wait for, ascending
  std::vector<OpIndex> awaited_here_;  // members of the present instance among them
  std::unordered_map<Key, std::uint32_t, KeyHash> known_;
  ProgramRegions result_;
};

}  // namespace

ProgramRegions find_regions(const Program& program, const MayJoin& may_join,
                            const ProgramOrder& order, const ProgramRegions* like) {
  if (like != nullptr && !like->operations.shares_blocks_with(program.operations)) like = nullptr;
  Searches searches(like);
  const std::vector<std::uint32_t> found = RegionSearch(program, may_join, order, searches).found();
  return ShapeWriter(program, order, found, searches, like).written();
}

}  // namespace trainyard

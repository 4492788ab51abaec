#include "common/simt/worker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace gemm::simt {
namespace {

constexpr std::uint64_t canary = 0x5AFE57AC5AFE57AC;

constinit View idle;

std::uint32_t bit(int lane) { return std::uint32_t{1} << lane; }

}  // namespace

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constinit thread_local View* current = &idle;

void Worker::begin(const Launch& next) {
  launch = &next;
  spans = next.spans.data();
  spans_end = spans + next.spans.size();
  entry_bias = Entry{0} - (Entry{Program::self().begin()} << site_shift);

  // Shared memory reaches from the kernel's first array to its last; other kernels' arrays and
  // gaps between are outside.
  char* const storage = Program::self().thread_storage();
  const std::uint64_t first = next.arrays.empty() ? 0 : next.arrays.front().offset & -16;
  shared_begin = reinterpret_cast<std::uintptr_t>(storage) + first;
  shared_bytes =
      next.arrays.empty() ? 0 : next.arrays.back().offset + next.arrays.back().bytes - first;
  shadow_.assign(shared_bytes / 4 + 1, Shadow{.write = outside});
  for (const SharedArray& array : next.arrays)
    for (std::uint64_t byte = 0; byte < array.bytes; byte += 4)
      shadow_[(array.offset - first + byte) / 4].write = 0;
  shadow = shadow_.data();
  interval_ = 0;

  if (!stacks_) stacks_ = std::make_unique_for_overwrite<char[]>((max_threads + 1) * stack_bytes);
  for (int t = 0; t < next.threads; ++t) std::memcpy(stack(t), &canary, sizeof canary);
  outer_ = std::exchange(current, this);
}

void Worker::finish(Counts& counts) {
  current = outer_;
  for (const SiteTable::Row& row : table_.rows()) {
    if (row.requests == 0) continue;
    const bool write = row.instruction & 1, is_shared = row.instruction >> 1 & 1;
    const int bytes = 1 << (row.instruction >> 2 & 7);
    const Requests requests{row.lanes * bytes, row.requests, row.transactions};
    (is_shared ? write ? counts.shared_store : counts.shared_load
     : write   ? counts.global_store
               : counts.global_load) += requests;
    const std::uint32_t address = row.instruction >> (site_shift - address_bits);
    const auto same = std::find_if(counts.sites.begin(), counts.sites.end(), [&](const Site& s) {
      return s.address == address && s.shared == is_shared && s.write == write &&
             s.bytes_per_lane == bytes;
    });
    if (same == counts.sites.end())
      counts.sites.push_back({address, is_shared, write, bytes, requests});
    else
      same->requests += requests;
  }
  counts.barriers += std::exchange(barriers_, 0);
  table_.clear();
}

std::optional<RawFault> Worker::run(std::int64_t number) {
  block = number;
  fault_.reset();
  read_too_early_.reset();
  next_interval();
  block_begin = interval_begin;
  for (int t = 0; t < launch->threads; ++t) {
    // Stacks start at different places in a page, or all of them would share a few cache sets.
    contexts_[t] = make_fcontext(stack(t + 1) - t % 32 * 192, stack_bytes / 2, enter);
    states_[t] = State::ready;
    exchanges_[t] = 0;
    copies_[t].clear();
  }
  log_.clear();

  const int warps = (launch->threads + 31) / 32;
  for (;;) {
    for (int warp = 0; warp < warps && !fault_; ++warp) run_warp(warp);
    if (!fault_) end_interval();
    if (fault_) return fault_;
    if (states_[0] == State::done) return {};
    ++barriers_;
    next_interval();
    std::fill_n(states_.begin(), launch->threads, State::ready);
  }
}

// All threads have stopped: together, or there is an error.
void Worker::end_interval() {
  if (read_too_early_) {
    fault_ = read_too_early_;
    return;
  }
  for (int t = 1; t < launch->threads; ++t) {
    if (states_[t] == states_[0] && (states_[t] == State::done || sites_[t] == sites_[0])) continue;
    const int waits = states_[0] == State::done ? t : 0, other = waits == t ? 0 : t;
    if (states_[t] == states_[0]) {
      // g++ may have made two calls of one barrier.
      const std::pair sites{sites_[0], sites_[t]};
      if (sites == same_line_) continue;
      const auto lines = Program::self().sources({sites.first, sites.second});
      if (lines[0].line && lines[0].line == lines[1].line && lines[0].file == lines[1].file) {
        same_line_ = sites;
        continue;
      }
    }
    fault_ = RawFault{.kind = Fault::Kind::divergent_barrier,
                      .thread = waits,
                      .site = sites_[waits],
                      .other_thread = other,
                      .other_site = states_[other] == State::done ? 0 : sites_[other]};
    return;
  }
}

void Worker::next_interval() {
  if (interval_ == last_interval) renumber();
  ++interval_;
  interval_begin = interval_ << interval_shift;
}

// Starts intervals at 1 again; what this block wrote before counts as written in interval 1.
void Worker::renumber() {
  for (Shadow& word : shadow_) {
    if (word.write < in_flight)
      word.write = word.write >= block_begin && word.write ? 1 << interval_shift : 0;
    word.read = 0;
  }
  block_begin = 1 << interval_shift;
  interval_ = 1;
}

void Worker::run_warp(int warp) {
  warp_ = warp;
  epoch = 0;
  std::uint32_t ready = lanes_in(State::ready);
  while (ready) {
    pending_ = ready;
    resume_first();
    if (fault_) return;
    const std::uint32_t full = lanes_in(State::log_full);
    log_.flush(full, table_);
    ready = released_lanes();
    for (std::uint32_t rest = full; rest; rest &= rest - 1) {
      const int lane = std::countr_zero(rest);
      if (log_.end[lane] < log_.limit(lane)) ready |= bit(lane);
    }
  }
  if (const std::uint32_t stuck = lanes_in(State::at_warp_barrier)) {
    const int thread = warp_ * 32 + std::countr_zero(stuck);
    const std::uint32_t missing = wanted_lanes_[thread % 32] & ~stuck & ~lanes_in(State::done);
    const int other = warp_ * 32 + std::countr_zero(missing);
    fault_ = RawFault{.kind = Fault::Kind::divergent_barrier,
                      .thread = thread,
                      .site = sites_[thread],
                      .other_thread = other,
                      .other_site = sites_[other]};
  }
}

std::uint32_t Worker::lanes_in(State state) const {
  std::uint32_t lanes = 0;
  for (int lane = 0; lane < 32 && warp_ * 32 + lane < launch->threads; ++lane)
    if (states_[warp_ * 32 + lane] == state) lanes |= bit(lane);
  return lanes;
}

// Lanes whose warp barrier is complete: everyone they wait for waits too, or has returned.
std::uint32_t Worker::released_lanes() {
  const std::uint32_t waiting = lanes_in(State::at_warp_barrier);
  if (!waiting) return 0;
  const std::uint32_t alive = ~lanes_in(State::done);
  const int lanes = std::min(32, launch->threads - warp_ * 32);
  const std::uint32_t existing = lanes == 32 ? ~std::uint32_t{0} : bit(lanes) - 1;
  std::uint32_t released = 0;
  for (std::uint32_t rest = waiting; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    if (!(wanted_lanes_[lane] & alive & existing & ~waiting)) released |= bit(lane);
  }
  if (released) next_epoch();
  return released;
}

void Worker::next_epoch() {
  epoch += 1 << 24;
  if (epoch) return;
  // The counter is full: everything so far becomes epoch 0.
  for (Shadow& word : shadow_) {
    word.write_mark &= site_mask;
    word.read_mark &= site_mask;
  }
  epoch = 1 << 24;
}

void Worker::select(int lane) {
  lane_ = lane;
  thread = warp_ * 32 + lane;
  stamp = interval_begin | thread;
  log = log_.end[lane];
  log_limit = log_.limit(lane);
}

void Worker::resume_first() {
  select(std::countr_zero(pending_));
  const transfer_t from = jump_fcontext(contexts_[thread], &scheduler_);
  *static_cast<Context*>(from.data) = from.fctx;
}

// Stops the running thread and goes on with the next lane of its warp, or with the scheduler.
void Worker::leave(State state) {
  const int leaving = thread;
  if (std::memcmp(stack(leaving), &canary, sizeof canary) != 0)
    raise({.kind = Fault::Kind::stack_overflow, .thread = leaving, .site = sites_[leaving]});
  states_[leaving] = state;
  log_.end[lane_] = log;
  pending_ &= pending_ - 1;
  Context to = scheduler_;
  if (pending_) {
    select(std::countr_zero(pending_));
    to = contexts_[thread];
  }
  const transfer_t from = jump_fcontext(to, &contexts_[leaving]);
  *static_cast<Context*>(from.data) = from.fctx;
}

void Worker::enter(transfer_t from) {
  *static_cast<Context*>(from.data) = from.fctx;
  Worker& worker = static_cast<Worker&>(*current);
  worker.launch->invoke(worker.launch->body);
  worker.leave(State::done);
}

// The fibers of this block are never resumed.
void Worker::raise(RawFault fault) {
  fault_ = read_too_early_ && fault.kind != Fault::Kind::shared_race ? *read_too_early_ : fault;
  jump_fcontext(scheduler_, &contexts_[thread]);
  __builtin_unreachable();
}

void Worker::block_barrier(std::uint32_t site) {
  sites_[thread] = site;
  leave(State::at_barrier);
}

void Worker::warp_barrier(std::uint32_t mask, std::uint32_t site) {
  sites_[thread] = site;
  wanted_lanes_[lane_] = mask;
  leave(State::at_warp_barrier);
}

std::uint64_t Worker::exchange(std::uint32_t mask, std::uint64_t value, int source,
                               std::uint32_t site) {
  // Two turns: nobody can be two exchanges ahead of a lane that has not read yet.
  const int turn = exchanges_[thread] ^= 1;
  brought_[turn][lane_] = value;
  warp_barrier(mask, site);
  return brought_[turn][source & 31];
}

void Worker::log_full() { leave(State::log_full); }

// A __syncwarp stands between an access of this interval and now.
bool Worker::ordered(std::uint32_t other, std::uint32_t mark) const {
  return same_warp(other) && mark >> 24 != epoch >> 24;
}

void Worker::race(std::uint64_t at, int bytes, bool write, std::uint32_t site,
                  std::uint32_t other_stamp, std::uint32_t other_mark, bool other_write) {
  const int other = other_stamp & thread_mask;
  raise({.kind = Fault::Kind::shared_race,
         .where = at,
         .bytes = bytes,
         .shared = true,
         .write = write,
         .thread = thread,
         .site = site,
         .other_thread = other == thread ? -1 : other,
         .other_site = other_mark & site_mask,
         .other_write = other_write});
}

void Worker::note_read(std::uint64_t at, int bytes, std::uint32_t site) {
  check_window(at, bytes, false, site);
  for (std::uint64_t i = at / 4; i * 4 < at + bytes; ++i) {
    Shadow& word = shadow[i];
    if (word.write < block_begin) {
      // Kept back until the barrier: if another thread writes it until then, it is a race.
      if (!read_too_early_)
        read_too_early_ = {.kind = Fault::Kind::uninitialised_shared,
                           .where = i * 4,
                           .bytes = bytes,
                           .shared = true,
                           .thread = thread,
                           .site = site};
    } else if (bytes >= 4 && word.write >= interval_begin && by_other(word.write) &&
               !ordered(word.write, word.write_mark)) {
      race(i * 4, bytes, false, site, word.write, word.write_mark, true);
    }
    note_reader(word, site);
  }
}

// The first reader's name is kept, for what the word's next writer may be told.
void Worker::note_reader(Shadow& word, std::uint32_t site) {
  const bool later_epoch = word.read_mark >> 24 != epoch >> 24;
  if (word.read < interval_begin ||
      (same_warp(word.read) && later_epoch && !(word.read & other_warps))) {
    word.read = stamp;
    word.read_mark = epoch | site;
  } else if (!same_warp(word.read)) {
    word.read |= other_warps;
  } else if (by_other(word.read)) {
    word.read |= other_lanes;
  }
}

void Worker::note_write(std::uint64_t at, int bytes, std::uint32_t site) {
  check_window(at, bytes, true, site);
  for (std::uint64_t i = at / 4; i * 4 < at + bytes; ++i) {
    Shadow& word = shadow[i];
    // Neighbours that share a word of 4 bytes do not race; stamps are no finer than that.
    if (bytes >= 4) {
      if (word.write >= interval_begin && by_other(word.write) &&
          !ordered(word.write, word.write_mark))
        race(i * 4, bytes, true, site, word.write, word.write_mark, true);
      const bool read_by_others = by_other(word.read) || word.read & other_lanes;
      if (word.read >= interval_begin &&
          (word.read & other_warps || (read_by_others && !ordered(word.read, word.read_mark))))
        race(i * 4, bytes, true, site, word.read, word.read_mark, false);
    }
    word.write = stamp;
    word.write_mark = epoch | site;
  }
}

// Every word must lie in an array and not be waiting for an asynchronous copy.
void Worker::check_window(std::uint64_t at, int bytes, bool write, std::uint32_t site) {
  for (std::uint64_t i = at / 4; i * 4 < at + bytes; ++i) {
    if (shadow[i].write == outside)
      raise_outside(reinterpret_cast<char*>(shared_begin) + at, bytes, write, site);
    if (shadow[i].write == in_flight)
      raise({.kind = Fault::Kind::async_not_waited,
             .where = i * 4,
             .bytes = bytes,
             .shared = true,
             .write = write,
             .thread = thread,
             .site = site,
             .other_site = shadow[i].write_mark & site_mask});
  }
}

// Memory that is a thread's own: its stack (registers and local memory), the kernel's parameters,
// constants of the program.
bool Worker::is_private(const void* p) const {
  const char* const address = static_cast<const char*>(p);
  const char* const parameters = static_cast<const char*>(launch->body);
  const auto number = reinterpret_cast<std::uintptr_t>(p);
  return (address >= stack(thread) && address < stack(thread + 1)) ||
         (address >= parameters && address < parameters + launch->parameters) ||
         (number >= Program::self().begin() && number < Program::self().end());
}

void Worker::raise_outside(const void* p, int bytes, bool write, std::uint32_t site) {
  const auto address = reinterpret_cast<std::uintptr_t>(p);
  const bool is_shared = Program::self().in_thread_storage(p);
  raise({.kind = Fault::Kind::out_of_bounds,
         .where = is_shared ? address - shared_begin : address,
         .bytes = bytes,
         .shared = is_shared,
         .write = write,
         .thread = thread,
         .site = site});
}

void Worker::copy_async(void* to, const void* from, std::size_t bytes, std::size_t zeros,
                        std::uint32_t site) {
  const std::uint64_t at = reinterpret_cast<std::uintptr_t>(to) - shared_begin;
  RawFault fault{.where = at,
                 .bytes = int(bytes),
                 .shared = true,
                 .write = true,
                 .thread = thread,
                 .site = site};
  if (at >= shared_bytes || at + bytes > shared_bytes) raise_outside(to, bytes, true, site);
  if (at % bytes) {
    fault.kind = Fault::Kind::misaligned;
    raise(fault);
  }
  note_write(at, bytes, site);
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  const std::size_t read = bytes - zeros;
  const Span* span = std::find_if(spans, spans_end, [&](const Span& s) {
    return address - s.begin < s.bytes && address - s.begin + read <= s.bytes;
  });
  if (read && span == spans_end) raise_outside(from, read, false, site);
  if (read && address % bytes)
    raise({.kind = Fault::Kind::misaligned,
           .where = address,
           .bytes = int(bytes),
           .thread = thread,
           .site = site});
  const Entry code = Entry{site} << site_shift;
  const Entry size = Entry(std::countr_zero(bytes)) << (address_bits + 2);
  // What is read of a copy that is zero at its end is no power of two.
  for (std::size_t at_byte = 0; at_byte < read;) {
    const std::size_t part = std::bit_floor(read - at_byte);
    const Entry part_size = Entry(std::countr_zero(part)) << (address_bits + 2);
    *log++ = code | part_size | (span->device + (address - span->begin) + at_byte);
    at_byte += part;
  }
  *log++ = code | size | Entry{3} << address_bits | at;
  for (std::uint64_t word = at / 4; word < (at + bytes) / 4; ++word) {
    shadow[word].write = in_flight;
    shadow[word].write_mark = site;
  }
  auto& groups = copies_[thread];
  if (groups.empty()) groups.emplace_back();
  groups.back().push_back({at, from, bytes, zeros, site});
  if (log >= log_limit) log_full();
}

void Worker::commit_async() {
  auto& groups = copies_[thread];
  if (groups.empty()) groups.emplace_back();
  groups.emplace_back();
}

void Worker::wait_async(std::size_t newest) {
  auto& groups = copies_[thread];
  // The last group is still open and does not count.
  const std::size_t closed = groups.empty() ? 0 : groups.size() - 1;
  const std::size_t arrived = closed > newest ? closed - newest : 0;
  for (std::size_t g = 0; g < arrived; ++g)
    for (const Copy& copy : groups[g]) {
      char* const to = reinterpret_cast<char*>(shared_begin + copy.to);
      std::memcpy(to, copy.from, copy.bytes - copy.zeros);
      std::memset(to + copy.bytes - copy.zeros, 0, copy.zeros);
      for (std::uint64_t word = copy.to / 4; word < (copy.to + copy.bytes) / 4; ++word) {
        shadow[word].write = stamp;
        shadow[word].write_mark = epoch | copy.site;
      }
    }
  groups.erase(groups.begin(), groups.begin() + arrived);
}

Fault Worker::describe(const RawFault& fault) const {
  using Kind = Fault::Kind;
  const std::vector<Source> lines = Program::self().sources({fault.site, fault.other_site});
  const auto at = [&](std::uint32_t site, const Source& line) {
    return site ? " (" + to_string(line) + ")" : std::string();
  };

  // The array or buffer, and the element in it, counted in units of at most 4 bytes.
  std::string array, element;
  std::int64_t index = 0;
  const int unit = std::clamp(fault.bytes, 1, 4);
  const auto name = [&](const std::string& which, std::int64_t byte) {
    array = which;
    index = byte / unit - (byte % unit < 0);
    element = fmt::format("{}[{}]", array, index);
  };
  if (fault.shared && !launch->arrays.empty()) {
    const std::int64_t byte = fault.where + (launch->arrays.front().offset & -16);
    const SharedArray* nearest = &launch->arrays.front();
    for (const SharedArray& a : launch->arrays)
      if (std::int64_t(a.offset) <= byte) nearest = &a;
    name(nearest->name, byte - std::int64_t(nearest->offset));
  } else {
    const Span* nearest = nullptr;
    std::uint64_t distance = 1 << 20;
    for (const Span& s : launch->spans) {
      const std::uint64_t to = fault.where < s.begin             ? s.begin - fault.where
                               : fault.where - s.begin < s.bytes ? 0
                                                                 : fault.where - s.begin - s.bytes;
      if (to < distance) nearest = &s, distance = to;
    }
    if (nearest)
      name(nearest->name, fault.where - nearest->begin);
    else
      element = fmt::format("address {:#x}", fault.where);
  }

  const std::string who = fmt::format("block {}, thread {}", block, fault.thread);
  const std::string does = fault.write ? "writes" : "reads";
  const std::string here = at(fault.site, lines[0]), there = at(fault.other_site, lines[1]);
  std::string line;
  switch (fault.kind) {
    case Kind::out_of_bounds:
      line = fmt::format("out of bounds: {} {} {} bytes at {}{}", who, does, fault.bytes, element,
                         here);
      break;
    case Kind::misaligned:
      line = fmt::format("misaligned: {} {} {} bytes at {}{}, which is not a multiple of {} bytes",
                         who, does, fault.bytes, element, here, fault.bytes);
      break;
    case Kind::uninitialised_shared:
      line =
          fmt::format("uninitialised shared memory: {} reads {}{} that nobody in the block wrote",
                      who, element, here);
      break;
    case Kind::shared_race:
      line = fmt::format(
          "shared race: {} {} {}{} that {} {}{} with no barrier between", who, does, element, here,
          fault.other_thread < 0 ? "another thread" : fmt::format("thread {}", fault.other_thread),
          fault.other_write ? "writes" : "reads", there);
      break;
    case Kind::async_not_waited:
      line = fmt::format("copy not waited for: {} {} {}{} that is still being copied{}", who, does,
                         element, here, there);
      break;
    case Kind::divergent_barrier:
      line = fmt::format("divergent barrier: {} waits{} but thread {} {}{}", who, here,
                         fault.other_thread, fault.other_site ? "waits" : "has returned", there);
      break;
    case Kind::stack_overflow:
      line = fmt::format("stack overflow: {} needs more than {} KB of local memory", who,
                         stack_bytes >> 10);
      break;
  }
  return Fault(fault.kind, block, {fault.thread, lines[0]}, {fault.other_thread, lines[1]}, array,
               index, line);
}

}  // namespace gemm::simt

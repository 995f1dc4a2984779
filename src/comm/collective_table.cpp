#include "comm/collective_table.h"

namespace amdahl {
namespace {

using Shape = CollectiveShape;
using World = CollectiveWorld;
using Arguments = CollectiveArguments;

// nccl-tests rounds shares down to 16 bytes; here to 16 elements, a multiple of 16 bytes for every type.
size_t share(size_t elements, int n) { return elements / static_cast<size_t>(n) / 16 * 16; }

Shape whole(size_t elements, int) { return {elements, elements, elements}; }
Shape gathered(size_t elements, int n) {
  return {share(elements, n), share(elements, n) * static_cast<size_t>(n), share(elements, n)};
}
Shape scattered(size_t elements, int n) {
  return {share(elements, n) * static_cast<size_t>(n), share(elements, n), share(elements, n)};
}
Shape exchanged(size_t elements, int n) {
  const size_t all = share(elements, n) * static_cast<size_t>(n);
  return {all, all, share(elements, n)};
}

double all_reduce_factor(int n) { return 2.0 * (n - 1) / n; }
double shares_factor(int n) { return static_cast<double>(n - 1) / n; }
double one(int) { return 1; }

bool everybody(const World&) { return true; }
bool root_only(const World& world) { return world.rank == world.root; }

int64_t nowhere_else(const World&) { return 0; }
int64_t own_part_of_recv(const World& world) { return static_cast<int64_t>(world.count) * world.rank; }
int64_t own_part_of_send(const World& world) { return -own_part_of_recv(world); }

void send_to_next(Communicator& communicator, const Arguments& a, Stream& stream) {
  const int n = communicator.world_size(), next = (communicator.rank() + 1) % n,
            previous = (communicator.rank() + n - 1) % n;
  communicator.send_recv(a.send, next, a.recv, previous, a.count, a.type, stream);
}

}  // namespace

const std::vector<CollectiveRow>& collective_table() {
  static const std::vector<CollectiveRow> rows{
      {.name = "all_reduce",
       .peer_program = "all_reduce_perf",
       .reduces = true,
       .shape = whole,
       .bus_factor = all_reduce_factor,
       .run = [](Communicator& c, const Arguments& a,
                 Stream& s) { c.all_reduce(a.send, a.recv, a.count, a.type, a.op, s); },
       .receives = everybody,
       .source_of =
           [](const World&, size_t i) {
             return ElementSource{ElementSource::kAll, i};
           },
       .in_place_offset = nowhere_else},
      {.name = "all_gather",
       .peer_program = "all_gather_perf",
       .shape = gathered,
       .bus_factor = shares_factor,
       .run = [](Communicator& c, const Arguments& a, Stream& s) { c.all_gather(a.send, a.recv, a.count, a.type, s); },
       .receives = everybody,
       .source_of =
           [](const World& w, size_t i) {
             return ElementSource{static_cast<int>(i / w.count), i % w.count};
           },
       .in_place_offset = own_part_of_recv},
      {.name = "reduce_scatter",
       .peer_program = "reduce_scatter_perf",
       .reduces = true,
       .shape = scattered,
       .bus_factor = shares_factor,
       .run = [](Communicator& c, const Arguments& a,
                 Stream& s) { c.reduce_scatter(a.send, a.recv, a.count, a.type, a.op, s); },
       .receives = everybody,
       .source_of =
           [](const World& w, size_t i) {
             return ElementSource{ElementSource::kAll, static_cast<size_t>(w.rank) * w.count + i};
           },
       .in_place_offset = own_part_of_send},
      {.name = "broadcast",
       .peer_program = "broadcast_perf",
       .rooted = true,
       .shape = whole,
       .bus_factor = one,
       .run = [](Communicator& c, const Arguments& a,
                 Stream& s) { c.broadcast(a.send, a.recv, a.count, a.type, a.root, s); },
       .receives = everybody,
       .source_of =
           [](const World& w, size_t i) {
             return ElementSource{w.root, i};
           },
       .in_place_offset = nowhere_else},
      {.name = "reduce",
       .peer_program = "reduce_perf",
       .reduces = true,
       .rooted = true,
       .shape = whole,
       .bus_factor = one,
       .run = [](Communicator& c, const Arguments& a,
                 Stream& s) { c.reduce(a.send, a.recv, a.count, a.type, a.op, a.root, s); },
       .receives = root_only,
       .source_of =
           [](const World&, size_t i) {
             return ElementSource{ElementSource::kAll, i};
           },
       .in_place_offset = nowhere_else},
      {.name = "sendrecv",
       .peer_program = "sendrecv_perf",
       .in_place = false,
       .shape = whole,
       .bus_factor = one,
       .run = send_to_next,
       .receives = everybody,
       .source_of =
           [](const World& w, size_t i) {
             return ElementSource{(w.rank + w.size - 1) % w.size, i};
           },
       .in_place_offset = nowhere_else},
      {.name = "all_to_all",
       .peer_program = "alltoall_perf",
       .in_place = false,
       .shape = exchanged,
       .bus_factor = shares_factor,
       .run = [](Communicator& c, const Arguments& a, Stream& s) { c.all_to_all(a.send, a.recv, a.count, a.type, s); },
       .receives = everybody,
       .source_of =
           [](const World& w, size_t i) {
             return ElementSource{static_cast<int>(i / w.count), static_cast<size_t>(w.rank) * w.count + i % w.count};
           },
       .in_place_offset = nowhere_else},
      {.name = "gather",
       .peer_program = "gather_perf",
       .rooted = true,
       .shape = gathered,
       .bus_factor = shares_factor,
       .run = [](Communicator& c, const Arguments& a,
                 Stream& s) { c.gather(a.send, a.recv, a.count, a.type, a.root, s); },
       .receives = root_only,
       .source_of =
           [](const World& w, size_t i) {
             return ElementSource{static_cast<int>(i / w.count), i % w.count};
           },
       .in_place_offset = own_part_of_recv},
      {.name = "scatter",
       .peer_program = "scatter_perf",
       .rooted = true,
       .shape = scattered,
       .bus_factor = shares_factor,
       .run = [](Communicator& c, const Arguments& a,
                 Stream& s) { c.scatter(a.send, a.recv, a.count, a.type, a.root, s); },
       .receives = everybody,
       .source_of =
           [](const World& w, size_t i) {
             return ElementSource{w.root, static_cast<size_t>(w.rank) * w.count + i};
           },
       .in_place_offset = own_part_of_send},
  };
  return rows;
}

}  // namespace amdahl

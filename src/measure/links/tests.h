// The table of link tests: names, what each measures, and the cells it consists of on a machine.
//
// Names that nvbandwidth has too mean what they mean there.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/amdahl.h"
#include "measure/links/bench.h"

namespace amdahl {

enum class LinkMethod { flows, staged, latency, sweep, integrity };

/// What a test may use: the machine as the bench has it.
struct LinkScope {
  int devices = 0;
  std::vector<int> numa_nodes;               // of the host, -1 alone when unknown
  std::function<int(int device)> near_node;  // NUMA node of a device, -1 when unknown
  std::function<std::string(int device)> label;
};

struct LinkTest {
  std::string_view name, group, summary;
  LinkMethod method = LinkMethod::flows;
  bool peer_kernels = false;  // kernels touch the other device's memory: nothing without peer access
  std::vector<LinkCell> (*cells)(const LinkScope& scope) = nullptr;  // of flows, staged, latency and sweep
};

const std::vector<LinkTest>& link_tests();

/// Rows for names of tests or groups, "default" and "all", in the table's order; Error{usage} for others.
std::vector<const LinkTest*> find_link_tests(const std::vector<std::string>& names);

struct LinkRun {
  BenchSettings bench;
  int latency_accesses = 200'000;
  std::vector<size_t> sweep_bytes;  // ascending
  size_t integrity_bytes = 1 << 20;
  bool traffic = true;      // integrity also while other copies run
  int injected_faults = 0;  // corruptions to make and find
  Provenance provenance;
};

/// Every cell of a test, each a Record handed to `sink` as it completes. Kinds: "link" (axes test, row, column, method,
/// and bytes and mover where they apply; series bandwidth in GB/s, latency in us, or per-copy time in us of a sweep)
/// and "integrity" (see link_integrity.h). A cell that cannot be measured is waived with its reason.
void run_link_test(LinkBench& bench, const LinkTest& test, const LinkRun& run,
                   const std::function<void(const Record&)>& sink, Observer& observer);

LinkScope scope_of(const LinkBench& bench);

/// Pieces of work that run_link_test tells its observer of: cells, or ordered pairs of an integrity test.
int count_pieces(const LinkBench& bench, const LinkTest& test);

}  // namespace amdahl

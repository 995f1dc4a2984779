// The table of link tests: the name, the measured quantity, and the cells of each test on a machine.
//
// Tests with the name of an nvbandwidth test measure the same quantity.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"
#include "measure/links/bench.h"

namespace amdahl {

enum class LinkMethod { flows, staged, latency, sweep, integrity };

/// The machine properties that a test may use.
struct LinkScope {
  int devices = 0;
  std::vector<int> numa_nodes;               // of the host; {-1} when unknown
  std::function<int(int device)> near_node;  // NUMA node of a device, -1 when unknown
  std::function<std::string(int device)> label;
};

struct LinkTest {
  std::string_view name, group, summary;
  LinkMethod method = LinkMethod::flows;
  bool peer_kernels = false;  // kernels access the other device's memory: needs peer access
  std::vector<LinkCell> (*cells)(const LinkScope& scope) = nullptr;  // for methods flows, staged, latency and sweep
};

const std::vector<LinkTest>& link_tests();

/// Rows for names of tests or groups, "default" and "all", in the table's order; Error{usage} for others.
std::vector<const LinkTest*> find_link_tests(const std::vector<std::string>& names);

struct LinkRun {
  BenchSettings bench;
  int latency_accesses = 200'000;
  std::vector<size_t> sweep_bytes;  // ascending
  size_t integrity_bytes = 1 << 20;
  bool traffic = true;      // run integrity also while other copies run
  int injected_faults = 0;  // corruptions to inject and find
  Provenance provenance;
};

/// Runs every cell of a test, each a Record handed to `sink` as it completes. Kinds: "link" (axes test, row, column,
/// method, and bytes and mover where they apply; series bandwidth in GB/s, latency in us, or per-copy time in us of a
/// sweep) and "integrity" (see measure/links/integrity.h). A cell that cannot be measured is waived with its reason.
void run_link_test(LinkBench& bench, const LinkTest& test, const LinkRun& run,
                   const std::function<void(const Record&)>& sink, Observer& observer);

LinkScope scope_of(const LinkBench& bench);

/// Number of pieces of work that run_link_test reports to its observer: cells, or ordered pairs for an integrity test.
int count_pieces(const LinkBench& bench, const LinkTest& test);

}  // namespace amdahl

// One progress, in percent of the whole, over verbs that run one after another.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "amdahl/machine.h"

namespace amdahl {

class PartProgress : public Observer {
 public:
  static constexpr int kWhole = 100;
  struct Share {
    int before = 0;  // percent of all parts before this one
    int own = 0;
    int rounds = 1;  // how many times the verb's count restarts
  };

  PartProgress(Observer& to, std::string name, Share share) : to_(to), name_(std::move(name)), share_(share) {
    to_.progress(share_.before, kWhole, name_);
  }

  void note(const std::string& line) override { to_.note(fmt::format("{}: {}", name_, line)); }
  void warning(const std::string& line) override { to_.warning(fmt::format("{}: {}", name_, line)); }
  void progress(int done, int total, const std::string& what) override {
    if (done < last_) round_ = std::min(round_ + 1, share_.rounds - 1);
    last_ = done;
    const double part = total > 0 ? std::min(1.0, static_cast<double>(done) / total) : 0;
    most_ = std::max(most_, static_cast<int>(share_.own * (round_ + part) / share_.rounds));
    to_.progress(share_.before + most_, kWhole, fmt::format("{}: {}", name_, what));
  }
  bool cancelled() override { return to_.cancelled(); }

 private:
  Observer& to_;
  const std::string name_;
  const Share share_;
  int round_ = 0, last_ = 0, most_ = 0;
};

/// Why the parts that use direct GPU-to-GPU transfers are skipped on this machine; empty: they are not. NCCL reads the
/// variables that would isolate a pair only when it is opened, which earlier parts have done already.
inline std::string unsafe_pair(const MachineSpec& machine) {
  for (const LinkSpec& link : machine.links)
    if (!link.quarantine.empty())
      return fmt::format(
          "device {} to device {} is quarantined: {}; run the commands of the other parts with {}, of amdahl links",
          link.source, link.destination, link.quarantine, named("`machine=FILE`"));
  return {};
}

}  // namespace amdahl

#include "report/fabric/onesided_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "amdahl/error.h"
#include "base/record_values.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

constexpr const char* kOneSidedMethod = "one-sided";
constexpr const char* kNvshmemMethod = "nvshmem";
constexpr const char* kFlagged = "symmetric ll";
constexpr const char* kLines = "symmetric ll128";
constexpr const char* kOneShot = "symmetric one-shot";
constexpr const char* kTwoShot = "symmetric two-shot";

/// The decision that a record belongs to, and its method there; empty when it belongs to none.
std::pair<std::string, std::string> method_of(const Record& record) {
  const std::string operation = text_axis(record, "operation"), transport = text_axis(record, "transport");
  // A choice between the algorithms is the result, not a contender.
  if (operation == "all_reduce") return {"all_reduce", transport == "symmetric" ? "" : transport};
  if (operation == "put_signal") return {"point_to_point", transport};
  if (operation == "send_recv") return {"point_to_point", transport == "symmetric" ? "" : transport};
  return {};
}

using MethodOfSize = std::function<std::string(int64_t bytes)>;

OneSidedChoice::Rule rated(const OneSidedContest& contest, std::string text, const MethodOfSize& method) {
  OneSidedChoice::Rule rule{contest.decision, std::move(text)};
  double sum = 0;
  for (const auto& [bytes, methods] : contest.latency_us) {
    const double ratio = methods.at(method(bytes)) / methods.at(contest.winner(bytes));
    sum += std::log(ratio);
    if (ratio <= rule.worst_ratio && rule.worst_bytes != 0) continue;
    rule.worst_ratio = ratio, rule.worst_bytes = bytes;
  }
  rule.mean_ratio = std::exp(sum / static_cast<double>(contest.latency_us.size()));
  return rule;
}

std::string onesided_bytes_text(int64_t bytes) { return fmt::format("{} bytes", with_thousands(bytes)); }

void decide_point_to_point(const OneSidedContest& contest, OneSidedChoice& choice) {
  const std::string other = two_sided_of(contest);
  const auto up_to = [&](int64_t limit) {
    return [=](int64_t bytes) { return bytes <= limit ? std::string(kOneSidedMethod) : other; };
  };
  double least = rated(contest, "", up_to(-1)).mean_ratio;
  for (const auto& [bytes, methods] : contest.latency_us) {
    const double ratio = rated(contest, "", up_to(bytes)).mean_ratio;
    if (ratio < least) least = ratio, choice.one_sided_bytes = bytes;
  }
  const auto add = [&](int64_t limit, const std::string& text) {
    choice.rules.push_back(rated(contest, text, up_to(limit)));
  };
  add(INT64_MAX, "always one-sided");
  add(-1, fmt::format("always {}", other));
  for (const int64_t limit : {int64_t{1} << 10, int64_t{1} << 20})
    add(limit, fmt::format("one-sided up to {}, else {}", onesided_bytes_text(limit), other));
  add(choice.one_sided_bytes,
      choice.one_sided_bytes < 0
          ? fmt::format("measured: always {}", other)
          : fmt::format("measured: one-sided up to {}, else {}", onesided_bytes_text(choice.one_sided_bytes), other));
}

/// Up to which sizes each algorithm is used; two-shot above.
struct Thresholds {
  int64_t flagged, lines, one_shot;
};

std::string by_thresholds(int64_t bytes, const Thresholds& up_to) {
  if (bytes <= up_to.flagged) return kFlagged;
  if (bytes <= up_to.lines) return kLines;
  return bytes <= up_to.one_shot ? kOneShot : kTwoShot;
}

/// Every order of thresholds that are measured sizes, or 0.
std::vector<Thresholds> all_thresholds(const OneSidedContest& contest) {
  const bool has_lines = contest.latency_us.begin()->second.contains(kLines);
  std::vector<int64_t> limits{0};
  for (const auto& [bytes, methods] : contest.latency_us) limits.push_back(bytes);
  std::vector<Thresholds> all;
  for (const int64_t flagged : limits)
    for (const int64_t lines : limits)
      for (const int64_t one_shot : limits) {
        const bool used = has_lines && lines > flagged;
        if ((used ? one_shot >= lines : lines == 0 && one_shot >= flagged)) all.push_back({flagged, lines, one_shot});
      }
  return all;
}

void decide_all_reduce(const OneSidedContest& contest, OneSidedChoice& choice) {
  const auto rule_of = [&](const Thresholds& up_to, const std::string& text) {
    return rated(contest, text, [=](int64_t bytes) { return by_thresholds(bytes, up_to); });
  };
  OneSidedChoice::Rule best;
  for (const Thresholds& up_to : all_thresholds(contest)) {
    std::string text = fmt::format("measured: ll up to {}, ", onesided_bytes_text(up_to.flagged));
    if (up_to.lines > 0) text += fmt::format("ll128 up to {}, ", onesided_bytes_text(up_to.lines));
    text += fmt::format("one-shot up to {}, else two-shot", onesided_bytes_text(up_to.one_shot));
    const OneSidedChoice::Rule rule = rule_of(up_to, text);
    if (!best.rule.empty() && rule.mean_ratio >= best.mean_ratio) continue;
    best = rule;
    choice.flagged_bytes = up_to.flagged, choice.line_bytes = up_to.lines, choice.one_shot_bytes = up_to.one_shot;
  }
  choice.one_shot_bytes = std::max<int64_t>(choice.one_shot_bytes, 1);  // 0: not measured
  const std::string other = two_sided_of(contest);
  if (!other.empty())
    choice.rules.push_back(
        rated(contest, fmt::format("always {}", other), [&](int64_t) { return std::string(other); }));
  choice.rules.push_back(rule_of({INT64_MAX, 0, INT64_MAX}, "always ll"));
  if (contest.latency_us.begin()->second.contains(kLines))
    choice.rules.push_back(rule_of({0, INT64_MAX, INT64_MAX}, "always ll128"));
  choice.rules.push_back(rule_of({0, 0, INT64_MAX}, "always one-shot"));
  choice.rules.push_back(rule_of({0, 0, 0}, "always two-shot"));
  // Inference servers hard-code such thresholds per number of devices.
  for (const int64_t limit : {int64_t{256} << 10, int64_t{512} << 10})
    choice.rules.push_back(
        rule_of({0, 0, limit}, fmt::format("one-shot up to {}, else two-shot", onesided_bytes_text(limit))));
  for (const int64_t limit : {int64_t{1} << 10, int64_t{1} << 20})
    if (!other.empty())
      choice.rules.push_back(rated(contest,
                                   fmt::format("one-shot up to {}, else {}", onesided_bytes_text(limit), other),
                                   [=](int64_t bytes) { return bytes <= limit ? kOneShot : other; }));
  choice.rules.push_back(best);
}

bool complete(const OneSidedContest& contest) {
  if (contest.latency_us.empty()) return false;
  const auto& methods = contest.latency_us.begin()->second;
  if (contest.decision == "point_to_point") return methods.contains(kOneSidedMethod) && !two_sided_of(contest).empty();
  return methods.contains(kFlagged) && methods.contains(kOneShot) && methods.contains(kTwoShot);
}

}  // namespace

std::string two_sided_of(const OneSidedContest& contest) {
  for (const auto& [method, us] : contest.latency_us.begin()->second)
    if (method != kOneSidedMethod && method != kNvshmemMethod && !method.starts_with("symmetric")) return method;
  return {};
}

const std::string& OneSidedContest::winner(int64_t bytes) const {
  const auto& methods = latency_us.at(bytes);
  return std::min_element(methods.begin(), methods.end(),
                          [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

std::vector<OneSidedContest> onesided_contests(const std::vector<Record>& records) {
  std::vector<OneSidedContest> contests;
  for (const Record& record : records) {
    if (record.kind != "onesided" || record.status.kind != Status::Kind::ok) continue;
    const auto [decision, method] = method_of(record);
    const std::vector<double>& latency = samples_of(record, "latency");
    if (method.empty() || latency.empty()) continue;
    OneSidedContest key{decision,
                        record.provenance.device_kind,
                        text_axis(record, "ranks"),
                        static_cast<int>(axis<int64_t>(record, "devices", 0)),
                        record.origin == Origin::emulated,
                        {}};
    auto found = std::find_if(contests.begin(), contests.end(), [&](const OneSidedContest& each) {
      return each.decision == key.decision && each.device_kind == key.device_kind && each.ranks == key.ranks &&
             each.devices == key.devices && each.emulated == key.emulated;
    });
    if (found == contests.end()) found = contests.insert(contests.end(), std::move(key));
    // Of several kernel shapes the fastest counts.
    double& us = found->latency_us[axis<int64_t>(record, "bytes", 0)].try_emplace(method, HUGE_VAL).first->second;
    us = std::min(us, percentile(latency, 50));
  }
  for (OneSidedContest& contest : contests) {
    size_t most = 0;
    for (const auto& [bytes, methods] : contest.latency_us) most = std::max(most, methods.size());
    std::erase_if(contest.latency_us, [&](const auto& size) { return size.second.size() < most; });
  }
  return contests;
}

std::vector<OneSidedCrossover> crossovers_of(const OneSidedContest& contest) {
  std::vector<OneSidedCrossover> crossovers;
  for (auto right = contest.latency_us.begin(); right != contest.latency_us.end(); ++right) {
    if (right == contest.latency_us.begin()) continue;
    const auto left = std::prev(right);
    const std::string &first = contest.winner(left->first), &second = contest.winner(right->first);
    if (first == second) continue;
    const double before = std::log(left->second.at(second) / left->second.at(first));
    const double after = std::log(right->second.at(first) / right->second.at(second));
    const double low = std::log(static_cast<double>(left->first)), high = std::log(static_cast<double>(right->first));
    const double part = before + after > 0 ? before / (before + after) : 0.5;
    crossovers.push_back({first, second, std::exp(low + (high - low) * part)});
  }
  return crossovers;
}

std::vector<OneSidedChoice> onesided_choices(const std::vector<Record>& records) {
  std::vector<OneSidedChoice> choices;
  for (const OneSidedContest& contest : onesided_contests(records)) {
    if (!complete(contest)) continue;
    auto choice = std::find_if(choices.begin(), choices.end(), [&](const OneSidedChoice& each) {
      return each.device_kind == contest.device_kind && each.ranks == contest.ranks &&
             each.devices == contest.devices && each.emulated == contest.emulated;
    });
    if (choice == choices.end()) {
      OneSidedChoice fresh;
      fresh.device_kind = contest.device_kind, fresh.ranks = contest.ranks;
      fresh.devices = contest.devices, fresh.emulated = contest.emulated;
      choice = choices.insert(choices.end(), std::move(fresh));
    }
    if (contest.decision == "all_reduce")
      decide_all_reduce(contest, *choice);
    else
      decide_point_to_point(contest, *choice);
  }
  return choices;
}

}  // namespace amdahl

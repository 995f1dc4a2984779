#include "comm/job_facts.h"

#include <fmt/format.h>

#include <set>

#include "amdahl/error.h"
#include "comm/rank_list.h"
#include "comm/wire.h"

namespace amdahl {
namespace {

constexpr size_t kMostFields = 4, kLongestValue = 40;

const char* const kAbsent = "absent";

std::string value_of(const JobFacts& facts, const std::string& field) {
  const auto found = facts.find(field);
  return found == facts.end() ? kAbsent : found->second;
}

/// "learning_rate is 0.001 on rank 0 and 0.1 on rank 1"; empty when all values are equal.
std::string difference_in(const std::string& field, const std::vector<JobFacts>& by_rank) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;  // value -> ranks, by the lowest rank
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    const std::string value = value_of(by_rank[rank], field);
    auto group = groups.begin();
    while (group != groups.end() && group->first != value) ++group;
    if (group == groups.end()) group = groups.insert(group, {value, {}});
    group->second.push_back(static_cast<int>(rank));
  }
  if (groups.size() < 2) return {};
  std::string text = field + " is ";
  for (size_t i = 0; i < groups.size(); ++i)
    text += fmt::format("{}{} on {}",
                        i == 0                   ? ""
                        : i + 1 == groups.size() ? " and "
                                                 : ", ",
                        groups[i].first.empty() ? "empty" : printable(groups[i].first, kLongestValue),
                        rank_list(groups[i].second));
  return text;
}

std::string pack_facts(const JobFacts& facts) {
  std::vector<std::string> parts;
  for (const auto& [field, value] : facts) {
    parts.push_back(field);
    parts.push_back(value);
  }
  return wire::pack(parts);
}

JobFacts unpack_facts(const std::string& text) {
  JobFacts facts;
  const std::vector<std::string> parts = wire::unpack(text);
  for (size_t i = 0; i + 1 < parts.size(); i += 2) facts[parts[i]] = parts[i + 1];
  return facts;
}

}  // namespace

std::unique_ptr<Error> compare_job_facts(const std::vector<JobFacts>& by_rank) {
  std::set<std::string> fields;
  for (const JobFacts& facts : by_rank)
    for (const auto& [field, value] : facts) fields.insert(field);
  std::string text;
  size_t different = 0;
  for (const std::string& field : fields) {
    const std::string difference = difference_in(field, by_rank);
    if (difference.empty() || ++different > kMostFields) continue;
    text += (text.empty() ? "" : "; ") + difference;
  }
  if (different == 0) return nullptr;
  if (different > kMostFields) text += fmt::format("; and {} more fields", different - kMostFields);
  return std::make_unique<Error>(Cause::launcher_mismatch, "the ranks were not started alike: " + text,
                                 "the same program, options and data for every rank");
}

void agree_on_job(RendezvousStore& store, const JobFacts& facts, double timeout_seconds) {
  const LaunchContext& launch = store.launch();
  std::vector<JobFacts> by_rank;
  for (const std::string& text : store.exchange("job", RankGroup::first(launch.world_size, launch.rank),
                                                pack_facts(facts), Deadline::after_seconds(timeout_seconds)))
    by_rank.push_back(unpack_facts(text));
  if (const auto error = compare_job_facts(by_rank)) {
    store.leave();  // every rank throws the same error, so this is not a death
    throw Error(*error);
  }
}

}  // namespace amdahl

// What the ranks of a launched job must have alike before they work together.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/world.h"

namespace amdahl {

/// Field -> value. Of large data the value is a digest.
using JobFacts = std::map<std::string, std::string>;

/// Error{launcher_mismatch} with the fields that differ and the ranks that hold each value, or null when all are alike.
/// `by_rank`: of every rank, in rank order.
std::unique_ptr<Error> compare_job_facts(const std::vector<JobFacts>& by_rank);

/// Collective over all ranks; throws the error of compare_job_facts on every rank.
void agree_on_job(RendezvousStore& store, const JobFacts& facts, double timeout_seconds);

}  // namespace amdahl

// Facts that must be equal on all ranks of a launched job before it starts.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/world.h"

namespace amdahl {

/// Field -> value; for large data, its digest.
using JobFacts = std::map<std::string, std::string>;

/// Error{launcher_mismatch} that names the fields that differ and the ranks with each value; null when all are equal.
/// `by_rank`: facts of every rank, in rank order.
std::unique_ptr<Error> compare_job_facts(const std::vector<JobFacts>& by_rank);

/// Collective over all ranks; throws the error of compare_job_facts on every rank.
void agree_on_job(RendezvousStore& store, const JobFacts& facts, double timeout_seconds);

}  // namespace amdahl

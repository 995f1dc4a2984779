// What the ranks of a sensor measurement tell each other.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/trainer.h"

namespace amdahl {

/// Every rank's numbers, by rank. Also a barrier.
std::vector<std::vector<double>> exchange_numbers(Communicator& communicator, const std::vector<double>& own,
                                                  Deadline deadline);

/// Every rank's text, by rank, as "device 2: ..." of the first that has one; empty when none has.
std::string first_trouble(Communicator& communicator, const std::string& own, Deadline deadline);

/// Calls `make`, which allocates; what an Error{out_of_memory} of any rank says, on all ranks, empty when all have
/// room.
std::string trouble_of_making(Communicator& communicator, Deadline deadline, const std::function<void()>& make);

/// Calls `sample_us` on every rank until the slowest rank's times stop trending.
void warm_up_together(Communicator& communicator, double timeout_seconds, const std::function<double()>& sample_us);

/// Appends how many numbers follow, and the numbers; `unpack_numbers` reads them again from `at` on, which it moves.
void pack_numbers(std::vector<double>& packed, const std::vector<double>& values);
std::vector<double> unpack_numbers(const std::vector<double>& packed, size_t& at);

}  // namespace amdahl

// Running a piece of host work on chosen cores, so that the memory it touches first lies near them.
#pragma once

#include <functional>
#include <string>

namespace amdahl {

/// Runs `work` and waits for it: on a thread bound to `cores` ("0-15,32-47"), or on this one when that is empty. Cores
/// that this process may not use are left out; when none remains, the thread is not bound.
void run_on_cores(const std::string& cores, const std::function<void()>& work);

}  // namespace amdahl

// Runs host work on chosen cores, so that memory it touches first is allocated on their NUMA node.
#pragma once

#include <functional>
#include <string>

namespace amdahl {

/// Runs `work` on a thread bound to `cores` ("0-15,32-47"), or on the calling thread when `cores` is empty, and waits
/// for it. Cores that this process may not use are ignored; when none remains, the thread is not bound.
void run_on_cores(const std::string& cores, const std::function<void()>& work);

}  // namespace amdahl

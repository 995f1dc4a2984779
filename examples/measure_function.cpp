// Is one function faster than another? Both are warmed up, sampled alternately and compared by a statistical test.
//
// With an installed amdahl: g++ -std=c++20 measure_function.cpp -lamdahl
#include <amdahl/summary.h>

#include <cstdio>
#include <numeric>
#include <vector>

int main() {
  std::vector<double> values(1 << 16, 0.5);
  volatile double sink = 0;
  const auto in_order = [&] { sink = std::accumulate(values.begin(), values.end(), 0.0); };
  const auto twice = [&] {
    in_order();
    in_order();
  };
  try {
    const amdahl::Comparison result = amdahl::compare_functions(in_order, twice);
    std::printf("once %.1f us, twice %.1f us: once is %.2fx as fast", result.first.summary.mean,
                result.second.summary.mean, result.test.ratio);
    if (result.test.ci) std::printf(" [%.2f, %.2f]", result.test.ci->low, result.test.ci->high);
    std::printf(", %s\n", std::string(to_string(result.test.verdict)).c_str());
  } catch (const amdahl::Error& error) {
    std::fprintf(stderr, "%s\n", error.line().c_str());
    return exit_code(error.cause());
  }
}

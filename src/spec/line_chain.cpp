#include "spec/line_chain.h"

#include "base/digest.h"

namespace amdahl {
namespace {

constexpr std::string_view kBegin = ",\"chain\":\"", kEnd = "\"}";
constexpr size_t kDigits = 16;
constexpr size_t kMember = kBegin.size() + kDigits + kEnd.size();

}  // namespace

std::string LineChain::link(std::string_view line) {
  last_ = digest_text(last_ + std::string(line));
  std::string linked(line.substr(0, line.size() - 1));  // without the closing brace
  return linked.append(kBegin).append(last_).append(kEnd);
}

bool LineChain::accept(std::string_view line) {
  if (line.size() <= kMember) return false;
  const std::string body = std::string(line.substr(0, line.size() - kMember)) + "}";
  LineChain next = *this;
  if (next.link(body) != line) return false;
  last_ = next.last_;
  return true;
}

bool is_chained(std::string_view line) {
  const size_t at = line.rfind("\"chain\"");
  return at != std::string_view::npos && line.size() - at <= 2 * kMember;
}

}  // namespace amdahl

// Strategies without communication: one device, or every device doing the same work (replicated).
#include "parallel/strategy.h"

namespace amdahl {
namespace {

class NoCommunication final : public Strategy {
 public:
  explicit NoCommunication(const StrategyContext& context) : context_(context) {}

  void finish_step(StepStamps* stamps) override {
    Span* span = stamps ? &StepStamps::at(stamps->updates, 0) : nullptr;
    if (span) stamps->start(context_.compute, *span);
    context_.optimizer.update(context_.compute, ParameterLayout::kStatsFloats, context_.model.layout().num_floats);
    if (span) stamps->end(context_.compute, *span);
  }

 private:
  StrategyContext context_;
};

}  // namespace

std::unique_ptr<Strategy> make_single(const StrategyContext& context) {
  return std::make_unique<NoCommunication>(context);
}

}  // namespace amdahl

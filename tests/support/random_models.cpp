#include "random_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "plan/plan_rules.h"
#include "random_plans.h"
#include "spec/json.h"

namespace amdahl::test {
namespace {

/// Numbers of a model.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  bool chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }
  double between(double least, double most) { return std::uniform_real_distribution<>(least, most)(random_); }
  int64_t whole(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random_); }
  double log_scale(double least, double most) { return std::exp(between(std::log(least), std::log(most))); }
  int64_t log_whole(double least, double most) { return std::llround(log_scale(least, most)); }
  template <class T>
  T one_of(const std::vector<T>& all) {
    return all[static_cast<size_t>(whole(0, static_cast<int64_t>(all.size()) - 1))];
  }
  std::mt19937_64& source() { return random_; }

 private:
  std::mt19937_64 random_;
};

LayerSpec layer(LayerKind kind, int64_t units = 0) {
  LayerSpec made;
  made.kind = kind, made.units = units, made.activation = Activation::none;
  return made;
}

LayerSpec output_layer(int64_t units) { return layer(LayerKind::dense, units); }

void draw_mlp(Draw& draw, double parameters, const ModelLimits&, ModelSpec& model) {
  const int64_t depth = draw.whole(1, 6);
  model.input_width = draw.log_whole(3, 2000);
  const double mean = std::sqrt(parameters / static_cast<double>(depth));
  for (int64_t i = 0; i < depth; ++i) {
    LayerSpec hidden = layer(LayerKind::dense, std::max(2L, std::lround(mean * draw.log_scale(0.4, 2))));
    hidden.activation = Activation::relu, hidden.dropout = draw.chance(0.4) ? 0.2 : 0, hidden.bias = draw.chance(0.9);
    model.layers.push_back(hidden);
  }
  model.layers.push_back(output_layer(draw.log_whole(1, 200)));
}

void draw_recurrent(Draw& draw, double parameters, const ModelLimits& limits, ModelSpec& model) {
  const int64_t depth = draw.whole(1, 3);
  const LayerKind kind = draw.chance(0.5) ? LayerKind::lstm : LayerKind::gru;
  model.input_shape = {draw.log_whole(4, std::min<double>(256, static_cast<double>(limits.most_steps))),
                       draw.log_whole(1, 128)};
  const double gates = kind == LayerKind::lstm ? 4 : 3;
  const double mean = std::min(2048.0, std::sqrt(parameters / (2 * gates * static_cast<double>(depth))));
  for (int64_t i = 0; i < depth; ++i) {
    LayerSpec cells = layer(kind, std::max(2L, std::lround(mean * draw.log_scale(0.7, 1.4))));
    cells.last_step_only = i + 1 == depth;
    model.layers.push_back(cells);
  }
  model.layers.push_back(output_layer(draw.log_whole(1, 50)));
}

/// Blocks of about so many parameters together; the units are those of the layer before.
struct Blocks {
  int64_t count, heads, units;
};
Blocks draw_blocks(Draw& draw, double parameters) {
  Blocks blocks{};
  blocks.count = draw.whole(1, 12);
  const double units = std::clamp(std::sqrt(parameters / 12 / static_cast<double>(blocks.count)), 16.0, 4096.0);
  const int64_t width = std::min(8 * draw.whole(1, 16), std::max(int64_t{8}, static_cast<int64_t>(units) / 8 * 8));
  blocks.heads = std::max(1L, std::lround(units / static_cast<double>(width)));
  blocks.units = blocks.heads * width;
  return blocks;
}

void add_blocks(const Blocks& blocks, bool causal, bool post_norm, ModelSpec& model) {
  LayerSpec block = layer(LayerKind::transformer_block, blocks.units);
  block.heads = blocks.heads, block.causal = causal, block.post_norm = post_norm;
  for (int64_t i = 0; i < blocks.count; ++i) model.layers.push_back(block);
}

int64_t divisor(Draw& draw, int64_t number) {
  std::vector<int64_t> all;
  for (int64_t part = 2; part <= std::min<int64_t>(number, 128); ++part)
    if (number % part == 0) all.push_back(part);
  return all.empty() ? 1 : draw.one_of(all);
}

/// Any of the parts that decoders after GPT-2 have, the same in all blocks.
void draw_parts(Draw& draw, ModelSpec& model) {
  const auto first = std::find_if(model.layers.begin(), model.layers.end(),
                                  [](const LayerSpec& l) { return l.kind == LayerKind::transformer_block; });
  LayerSpec block = *first;
  if (draw.chance(0.7)) block.norm = NormKind::rms;
  if (draw.chance(0.6)) block.kv_heads = block.heads / divisor(draw, block.heads);
  if (draw.chance(0.3)) block.head_dim = 8 * draw.whole(1, 16);
  if (draw.chance(0.7)) block.hidden = std::max(8L, std::lround(static_cast<double>(block.units) * draw.between(1, 4)));
  block.mlp = draw.one_of<MlpKind>({MlpKind::gelu, MlpKind::swiglu, MlpKind::swiglu, MlpKind::geglu});
  block.qkv_bias = draw.chance(0.4), block.out_bias = draw.chance(0.3), block.mlp_bias = draw.chance(0.3);
  block.qk_norm = draw.chance(0.3);
  if (draw.chance(0.3)) block.window = draw.log_whole(1, static_cast<double>(2 * model.input_shape[0]));
  if (draw.chance(0.8)) block.rope_theta = draw.log_scale(100, 1e6);
  for (LayerSpec& layer : model.layers) {
    if (layer.kind == LayerKind::transformer_block) layer = block;
    if (layer.kind == LayerKind::embedding) layer.positions = block.rope_theta == 0;
    if (layer.kind == LayerKind::layer_norm) layer.norm = block.norm;
  }
}

void draw_encoder(Draw& draw, double parameters, const ModelLimits& limits, ModelSpec& model) {
  const Blocks blocks = draw_blocks(draw, parameters);
  const int64_t steps = draw.log_whole(4, std::min<double>(512, static_cast<double>(limits.most_steps)));
  const bool tokens = draw.chance(0.4), post_norm = draw.chance(0.4);
  LayerSpec first = layer(tokens ? LayerKind::embedding : LayerKind::projection, blocks.units);
  if (tokens)
    first.vocabulary = draw.log_whole(20, std::clamp(parameters / static_cast<double>(blocks.units), 40.0, 3e4));
  model.input_shape = tokens ? std::vector<int64_t>{steps} : std::vector<int64_t>{steps, draw.log_whole(1, 200)};
  model.layers.push_back(first);
  if (post_norm) model.layers.push_back(layer(LayerKind::layer_norm));
  add_blocks(blocks, false, post_norm, model);
  if (!post_norm) model.layers.push_back(layer(LayerKind::layer_norm));
  LayerSpec pool = layer(LayerKind::pool);
  pool.pooling = draw.one_of<Pooling>({Pooling::mean, Pooling::first, Pooling::last});
  model.layers.push_back(pool);
  model.layers.push_back(output_layer(draw.log_whole(1, 100)));
}

void draw_decoder(Draw& draw, double parameters, const ModelLimits& limits, ModelSpec& model) {
  const Blocks blocks = draw_blocks(draw, parameters);
  LayerSpec first = layer(LayerKind::embedding, blocks.units), head = layer(LayerKind::token_head);
  first.vocabulary = draw.log_whole(30, std::clamp(parameters / static_cast<double>(blocks.units), 60.0, 5e4));
  head.vocabulary = first.vocabulary, head.tied = draw.chance(0.6);
  model.input_shape = {draw.log_whole(8, static_cast<double>(limits.most_steps))};
  model.layers.push_back(first);
  add_blocks(blocks, true, false, model);
  model.layers.push_back(layer(LayerKind::layer_norm));
  model.layers.push_back(head);
  model.loss = LossKind::softmax_cross_entropy;
  if (draw.chance(0.6)) draw_parts(draw, model);
}

/// A stem of large filters and max pooling, and blocks with bottlenecks.
void draw_bottlenecks(Draw& draw, ModelSpec& model) {
  model.layers[0].kernel = draw.one_of<int64_t>({3, 5, 7}), model.layers[0].stride = draw.whole(1, 2);
  const int64_t narrowing = draw.whole(1, 4);
  for (LayerSpec& block : model.layers)
    if (block.kind == LayerKind::residual_block) block.bottleneck = std::max(int64_t{1}, block.units / narrowing);
  LayerSpec pool = layer(LayerKind::max_pool);
  pool.kernel = draw.one_of<int64_t>({1, 3, 5}), pool.stride = draw.whole(1, 3);
  if (draw.chance(0.7)) model.layers.insert(model.layers.begin() + draw.whole(0, 2), pool);
}

void draw_convolutional(Draw& draw, double parameters, const ModelLimits&, ModelSpec& model) {
  const int64_t stages = draw.whole(1, 4), blocks = draw.whole(1, 3), size = draw.log_whole(8, 64);
  model.input_shape = {size, size + draw.whole(0, 3), draw.whole(1, 4)};
  // A stage has twice the channels of the one before: the last one's blocks have most parameters, 18 c^2 each.
  const double last = std::min(512.0, std::sqrt(parameters / 24 / static_cast<double>(blocks)));
  int64_t channels = std::max(4L, std::lround(last / std::pow(2, static_cast<double>(stages - 1))));
  model.layers.push_back(layer(LayerKind::conv, channels));
  for (int64_t stage = 0; stage < stages; ++stage, channels *= 2)
    for (int64_t i = 0; i < blocks; ++i) {
      LayerSpec block = layer(LayerKind::residual_block, channels);
      block.stride = stage > 0 && i == 0 ? 2 : 1;
      model.layers.push_back(block);
    }
  model.layers.push_back(layer(LayerKind::average_pool));
  model.layers.push_back(output_layer(draw.log_whole(2, 100)));
  if (draw.chance(0.5)) draw_bottlenecks(draw, model);
}

void add_plans(Draw& draw, const ModelLimits& limits, RandomModel& drawn) {
  const auto add = [&](ParallelPlan plan) {
    plan.global_batch = drawn.batch;
    const auto same = [&](const ParallelPlan& other) { return format_plan(other) == format_plan(plan); };
    if (drawn.plans.size() < limits.most_plans && plan_feasible(plan, drawn.spec).ok &&
        std::none_of(drawn.plans.begin(), drawn.plans.end(), same))
      drawn.plans.push_back(plan);
  };
  ParallelPlan plan = parse_plan("dp1");
  add(plan);
  for (int tried = 0; tried < 40 && drawn.plans.size() < limits.most_plans; ++tried) {
    if (limits.most_devices > 1 && draw.chance(0.7)) {
      plan = draw_plan(draw.source(), limits.most_devices, drawn.batch);
    } else {
      plan = parse_plan("dp1");
      if (draw.chance(0.8)) plan.accumulate = divisor(draw, drawn.batch);
      if (draw.chance(0.5)) plan.recompute = draw.whole(0, 2);
    }
    add(plan);
  }
}

using DrawLayers = void (*)(Draw&, double, const ModelLimits&, ModelSpec&);
struct Kind {
  std::string_view name;
  DrawLayers layers;
};
constexpr Kind kKinds[] = {{"mlp", draw_mlp},
                           {"recurrent", draw_recurrent},
                           {"encoder", draw_encoder},
                           {"decoder", draw_decoder},
                           {"convolutional", draw_convolutional}};

}  // namespace

RandomModel draw_model(uint64_t seed, const ModelLimits& limits) {
  Draw draw(seed);
  RandomModel drawn;
  const Kind& kind = kKinds[seed % std::size(kKinds)];
  drawn.kind = kind.name;
  ModelSpec& model = drawn.spec;
  do {  // what tables and outputs add may be too much
    model = {};
    model.name = fmt::format("{}-{}", kind.name, seed);
    if (draw.chance(0.4)) model.loss = LossKind::softmax_cross_entropy;
    kind.layers(draw, draw.log_scale(limits.least_parameters, limits.most_parameters), limits, model);
    if (!model.input_shape.empty()) {
      model.input_width = 1;
      for (const int64_t size : model.input_shape) model.input_width *= size;
    }
    if (model.loss == LossKind::softmax_cross_entropy && model.layers.back().kind == LayerKind::dense)
      model.layers.back().units = std::max<int64_t>(2, model.layers.back().units);
    model.validate();
  } while (static_cast<double>(model.num_parameters()) > limits.most_parameters ||
           step_flops(model, 1) > limits.most_flops);
  drawn.batch = draw.log_whole(1, static_cast<double>(limits.most_batch));
  const double most = limits.most_flops / step_flops(model, 1);
  drawn.batch = std::clamp<int64_t>(drawn.batch, 1, static_cast<int64_t>(std::min(most, 1e6)));
  add_plans(draw, limits, drawn);
  return drawn;
}

std::string line_of(const RandomModel& drawn) {
  std::string plans, model = model_to_json(drawn.spec);
  for (const ParallelPlan& plan : drawn.plans) plans += (plans.empty() ? "\"" : ", \"") + format_plan(plan) + '"';
  model.erase(std::remove(model.begin(), model.end(), '\n'), model.end());
  return fmt::format(R"({{"kind": "{}", "batch": {}, "plans": [{}], "model": {}}})", drawn.kind, drawn.batch, plans,
                     model);
}

}  // namespace amdahl::test

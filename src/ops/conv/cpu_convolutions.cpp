#include "ops/conv/cpu_convolutions.h"

#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.hpp>

namespace amdahl {
namespace {

using dnnl::memory;

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

/// The operands of a convolution as the model stores them, and its weights in a format that oneDNN chooses.
struct Operands {
  memory::desc x, y, stored_weights, weights;
  memory::dims strides, padding;

  explicit Operands(const ConvShape& s)
      : x({s.rows, s.in_channels, s.height, s.width}, memory::data_type::f32, memory::format_tag::nhwc),
        y({s.rows, s.out_channels, s.out_height(), s.out_width()}, memory::data_type::f32, memory::format_tag::nhwc),
        stored_weights(weight_dims(s), memory::data_type::f32, memory::format_tag::ohwi),
        weights(weight_dims(s), memory::data_type::f32, memory::format_tag::any),
        strides{s.stride, s.stride},
        padding{s.padding, s.padding} {}

  static memory::dims weight_dims(const ConvShape& s) { return {s.out_channels, s.in_channels, s.kernel, s.kernel}; }
};

dnnl::primitive_attr with_own_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

// oneDNN 3 makes a primitive's description in one step, oneDNN 2 in two; templates, so that only what the installed
// version has is compiled.
template <class Primitive = dnnl::convolution_forward>
auto describe_forward(const Operands& o) {
  if constexpr (requires { typename Primitive::desc; })
    return typename Primitive::primitive_desc(typename Primitive::desc(dnnl::prop_kind::forward_training, kDirect, o.x,
                                                                       o.weights, o.y, o.strides, o.padding, o.padding),
                                              with_own_scratchpad(), cpu_engine());
  else
    return typename Primitive::primitive_desc(cpu_engine(), dnnl::prop_kind::forward_training, kDirect, o.x, o.weights,
                                              o.y, o.strides, o.padding, o.padding, with_own_scratchpad());
}

template <class Primitive>
auto describe_backward(const Operands& o) {
  const auto forward = describe_forward(o);
  if constexpr (requires { typename Primitive::desc; })
    return typename Primitive::primitive_desc(
        typename Primitive::desc(kDirect, o.x, o.weights, o.y, o.strides, o.padding, o.padding), with_own_scratchpad(),
        cpu_engine(), forward);
  else
    return typename Primitive::primitive_desc(cpu_engine(), kDirect, o.x, o.weights, o.y, o.strides, o.padding,
                                              o.padding, forward, with_own_scratchpad());
}

/// Runs `work`, and says which convolution failed where oneDNN throws.
template <class Work>
void run_convolution(const ConvShape& s, const Work& work) {
  try {
    work();
  } catch (const dnnl::error& error) {
    const std::string what = fmt::format("a convolution of [{}, {}, {}, {}] by {} filters of {} x {}", s.rows, s.height,
                                         s.width, s.in_channels, s.out_channels, s.kernel, s.kernel);
    if (error.status == dnnl_out_of_memory)
      throw Error(Cause::out_of_memory, fmt::format("oneDNN has no memory for {}", what),
                  "a smaller batch or model, or a higher limit of memory (ulimit -v)");
    throw Error(Cause::internal, fmt::format("oneDNN refused {}: {}", what, error.what()));
  }
}

/// The values of a const operand: oneDNN's memory objects have no const.
void* values_of(const void* data) { return const_cast<void*>(data); }

/// Parts of scratch memory, each on a boundary of 64 bytes.
class Parts {
 public:
  size_t add(size_t bytes) {
    const size_t begin = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return begin;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

}  // namespace

struct CpuConvolutions::Primitive {
  dnnl::primitive run, reorder;  // reorder: of the weights, or of their gradient; empty where none is needed
  memory::desc x, y, stored_weights, weights, scratchpad;

  bool reorders() const { return weights != stored_weights; }
};

const CpuConvolutions::Primitive& CpuConvolutions::find(Product product, const ConvShape& s) {
  const Key key{product, s.rows, s.height, s.width, s.in_channels, s.out_channels, s.kernel, s.stride, s.padding};
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Primitive>& found = primitives_[key];
  if (found) return *found;
  const Operands operands(s);
  auto made = std::make_shared<Primitive>();
  made->x = operands.x, made->y = operands.y, made->stored_weights = operands.stored_weights;
  const auto keep = [&](const auto& description, auto primitive, const memory::desc& weights) {
    made->run = primitive;
    made->weights = weights;
    made->scratchpad = description.scratchpad_desc();
  };
  const bool to_stored = product == Product::backward_filter;
  if (product == Product::forward) {
    const auto description = describe_forward(operands);
    keep(description, dnnl::convolution_forward(description), description.weights_desc());
  } else if (product == Product::backward_data) {
    const auto description = describe_backward<dnnl::convolution_backward_data>(operands);
    keep(description, dnnl::convolution_backward_data(description), description.weights_desc());
  } else {
    const auto description = describe_backward<dnnl::convolution_backward_weights>(operands);
    keep(description, dnnl::convolution_backward_weights(description), description.diff_weights_desc());
  }
  if (made->reorders())
    made->reorder =
        dnnl::reorder(dnnl::reorder::primitive_desc(cpu_engine(), to_stored ? made->weights : made->stored_weights,
                                                    cpu_engine(), to_stored ? made->stored_weights : made->weights));
  found = std::move(made);
  return *found;
}

namespace {

/// The weights in the primitive's format: `stored`, or a copy of them at `copy`.
memory weights_in_format(const dnnl::stream& stream, const dnnl::primitive& reorder, const memory::desc& stored_format,
                         const memory::desc& format, const void* stored, void* copy) {
  memory original(stored_format, cpu_engine(), values_of(stored));
  if (!reorder) return original;
  memory reordered(format, cpu_engine(), copy);
  reorder.execute(stream, {{DNNL_ARG_FROM, original}, {DNNL_ARG_TO, reordered}});
  return reordered;
}

}  // namespace

void CpuConvolutions::forward(CpuStream& stream, const ConvForward& a) {
  run_convolution(a.shape, [&] {
    const Primitive& p = find(Product::forward, a.shape);
    Parts parts;
    const size_t weights = parts.add(p.weights.get_size()), scratchpad = parts.add(p.scratchpad.get_size());
    auto* scratch = static_cast<std::byte*>(stream.scratch(0, parts.bytes()));
    const dnnl::stream queue(cpu_engine());
    p.run.execute(queue, {{DNNL_ARG_SRC, memory(p.x, cpu_engine(), values_of(a.x))},
                          {DNNL_ARG_WEIGHTS,
                           weights_in_format(queue, p.reorder, p.stored_weights, p.weights, a.w, scratch + weights)},
                          {DNNL_ARG_DST, memory(p.y, cpu_engine(), a.y)},
                          {DNNL_ARG_SCRATCHPAD, memory(p.scratchpad, cpu_engine(), scratch + scratchpad)}});
  });
}

void CpuConvolutions::backward_data(CpuStream& stream, const ConvBackwardData& a) {
  run_convolution(a.shape, [&] {
    const Primitive& p = find(Product::backward_data, a.shape);
    Parts parts;
    const size_t weights = parts.add(p.weights.get_size()), scratchpad = parts.add(p.scratchpad.get_size());
    const size_t sum = parts.add(a.accumulate ? p.x.get_size() : 0);
    auto* scratch = static_cast<std::byte*>(stream.scratch(0, parts.bytes()));
    void* dx = a.accumulate ? scratch + sum : a.dx;
    const dnnl::stream queue(cpu_engine());
    p.run.execute(queue, {{DNNL_ARG_DIFF_DST, memory(p.y, cpu_engine(), values_of(a.dy))},
                          {DNNL_ARG_WEIGHTS,
                           weights_in_format(queue, p.reorder, p.stored_weights, p.weights, a.w, scratch + weights)},
                          {DNNL_ARG_DIFF_SRC, memory(p.x, cpu_engine(), dx)},
                          {DNNL_ARG_SCRATCHPAD, memory(p.scratchpad, cpu_engine(), scratch + scratchpad)}});
    if (a.accumulate)
      kernels_.add(static_cast<const float*>(dx), static_cast<float*>(a.dx),
                   static_cast<int64_t>(p.x.get_size() / sizeof(float)));
  });
}

void CpuConvolutions::backward_filter(CpuStream& stream, const ConvBackwardFilter& a) {
  run_convolution(a.shape, [&] {
    const Primitive& p = find(Product::backward_filter, a.shape);
    Parts parts;
    const size_t weights = parts.add(p.weights.get_size()), scratchpad = parts.add(p.scratchpad.get_size());
    const size_t sum = parts.add(a.accumulate ? p.stored_weights.get_size() : 0);
    auto* scratch = static_cast<std::byte*>(stream.scratch(0, parts.bytes()));
    void* dw = a.accumulate ? scratch + sum : static_cast<void*>(a.dw);
    const dnnl::stream queue(cpu_engine());
    const memory gradient(p.weights, cpu_engine(), p.reorder ? scratch + weights : dw);
    p.run.execute(queue, {{DNNL_ARG_SRC, memory(p.x, cpu_engine(), values_of(a.x))},
                          {DNNL_ARG_DIFF_DST, memory(p.y, cpu_engine(), values_of(a.dy))},
                          {DNNL_ARG_DIFF_WEIGHTS, gradient},
                          {DNNL_ARG_SCRATCHPAD, memory(p.scratchpad, cpu_engine(), scratch + scratchpad)}});
    if (p.reorder)
      p.reorder.execute(queue, {{DNNL_ARG_FROM, gradient}, {DNNL_ARG_TO, memory(p.stored_weights, cpu_engine(), dw)}});
    if (a.accumulate)
      kernels_.add(static_cast<const float*>(dw), a.dw,
                   static_cast<int64_t>(p.stored_weights.get_size() / sizeof(float)));
  });
}

}  // namespace amdahl

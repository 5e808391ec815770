#include "cpu_products.hpp"

#include "gpuhpc/base/error.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

namespace gpuhpc {

kernels::Activation kernel_activation(Activation activation) {
  switch (activation) {
    case Activation::gelu:
      return kernels::Activation::gelu;
    case Activation::gelu_tanh:
      return kernels::Activation::gelu_tanh;
    case Activation::relu:
      return kernels::Activation::relu;
  }
  throw internal_error("activation {} is unknown", static_cast<int>(activation));
}

using kernels::BFloat16;
using kernels::kPanel;

namespace {

// Panels of a packed matrix that stay in the second-level cache while all rows pass (the kernel
// itself keeps the rows in the first), and the longest sums that are added to fp32 results at once.
constexpr std::int64_t group_bytes = 5 << 18, longest_sum = 1536;

std::int64_t panels_a_group(std::int64_t depth) {
  return std::max<std::int64_t>(
      1, group_bytes / (depth * kPanel * static_cast<std::int64_t>(sizeof(BFloat16))));
}

// `count` rows as equal pieces of at most `longest`, each a multiple of 32.
std::int64_t piece_of(std::int64_t count, std::int64_t longest) {
  const std::int64_t pieces = (count + longest - 1) / longest;
  return kernels::round_up((count + pieces - 1) / pieces, 32);
}

// body(first, last) on blocks of 32 of `count`, spread over the threads.
template <typename Body>
void over_blocks(std::int64_t count, const Body& body) {
  at::parallel_for(0, (count + 31) / 32, 1, [&](std::int64_t first, std::int64_t last) {
    body(first * 32, std::min(last * 32, count));
  });
}

// The whole call, group by group of panels and piece by piece of k.
void accumulate_blocked(const kernels::EncoderKernels<BFloat16>& table,
                        kernels::AccumulateCall<BFloat16> call) {
  const std::int64_t k_count = call.weight->rows, piece = piece_of(k_count, longest_sum),
                     panels = call.weight->panels();
  const BFloat16* input = call.input;
  float* output = call.output;
  for (std::int64_t k = 0; k < k_count; k += piece) {
    call.overwrite = call.overwrite && k == 0;
    call.first_k = k;
    call.depth = std::min(piece, k_count - k);
    call.input = input + k / 32 * call.k_step;
    const std::int64_t group = panels_a_group(call.depth);
    for (std::int64_t p = 0; p < panels; p += group) {
      call.first_panel = p;
      call.panels = std::min(group, panels - p);
      call.output = output + p * kPanel;
      table.accumulate(call);
    }
  }
}

}  // namespace

std::int64_t Linears::outputs() const {
  std::int64_t sum = 0;
  for (const at::Tensor& weight : weights) sum += weight.size(0);
  return sum;
}

void CpuProducts<float>::linear(const at::Tensor& x, const Linears& linears, std::int64_t tokens,
                                const at::Tensor& out) {
  const bool one = linears.weights.size() == 1;
  const at::Tensor weight = one ? linears.weights[0] : at::cat(linears.weights);
  at::Tensor result = out.narrow(0, 0, tokens);
  if (linears.biases.empty())
    at::mm_out(result, x.narrow(0, 0, tokens), weight.t());
  else
    at::addmm_out(result, one ? linears.biases[0] : at::cat(linears.biases), x.narrow(0, 0, tokens),
                  weight.t());
}

void CpuProducts<float>::input_gradient(const at::Tensor& g, const Linears& linears,
                                        std::int64_t tokens, const at::Tensor& into) {
  std::int64_t column = 0;
  for (const at::Tensor& weight : linears.weights) {
    into.narrow(0, 0, tokens)
        .addmm_(g.narrow(0, 0, tokens).narrow(1, column, weight.size(0)), weight);
    column += weight.size(0);
  }
}

void CpuProducts<float>::input_product(const at::Tensor& g, const Linears& linears,
                                       std::int64_t tokens, const at::Tensor& out) {
  at::Tensor result = out.narrow(0, 0, tokens);
  at::mm_out(result, g.narrow(0, 0, tokens),
             linears.weights.size() == 1 ? linears.weights[0] : at::cat(linears.weights));
}

at::Tensor CpuProducts<float>::weight_gradient(const at::Tensor& g, const at::Tensor& x,
                                               std::int64_t tokens) {
  return at::mm(g.narrow(0, 0, tokens).t(), x.narrow(0, 0, tokens));
}

void CpuProducts<BFloat16>::shape(kernels::PackedMatrix<BFloat16>& packed, std::int64_t rows,
                                  std::int64_t columns) {
  packed.rows = rows;
  packed.columns = columns;
  packed.values.resize(rows * columns);
}

void CpuProducts<BFloat16>::linear(const at::Tensor& x, const Linears& linears, std::int64_t tokens,
                                   const at::Tensor& out) {
  const std::int64_t inputs = linears.inputs(), outputs = linears.outputs();
  shape(packed_, inputs, outputs);
  bias_.resize(outputs);
  std::int64_t column = 0;
  for (std::size_t i = 0; i < linears.weights.size(); ++i) {
    const std::int64_t count = linears.weights[i].size(0);
    const float* values = pointer<float>(linears.weights[i]);
    over_blocks(count, [&](std::int64_t first, std::int64_t last) {
      packing_.weight({values + first * inputs, last - first, inputs, packed_.values.data(), inputs,
                       0, (column + first) / kPanel});
    });
    std::copy_n(pointer<float>(linears.biases[i]), count, bias_.data() + column);
    column += count;
  }
  multiply(x, bias_.data(), tokens, out);
}

// out (T, packed columns) = x (T, packed rows) x packed matrix + bias.
void CpuProducts<BFloat16>::multiply(const at::Tensor& x, const float* bias, std::int64_t tokens,
                                     const at::Tensor& out) {
  const std::int64_t group = panels_a_group(packed_.rows), panels = packed_.panels();
  over_rows(table_, tokens, [&](std::int64_t first, std::int64_t last) {
    kernels::LinearCall<BFloat16> call;
    call.input = pointer<BFloat16>(x) + first * packed_.rows;
    call.input_stride = packed_.rows;
    call.rows = last - first;
    call.weight = &packed_;
    call.bias = bias;
    call.output_stride = packed_.columns;
    for (std::int64_t p = 0; p < panels; p += group) {
      call.first_panel = p;
      call.panels = std::min(group, panels - p);
      call.output = pointer<BFloat16>(out) + first * packed_.columns + p * kPanel;
      table_.linear(call);
    }
  });
}

void CpuProducts<BFloat16>::pack_by_rows(const Linears& linears) {
  const std::int64_t inputs = linears.inputs(), outputs = linears.outputs();
  shape(packed_, outputs, inputs);
  std::int64_t row = 0;
  for (const at::Tensor& weight : linears.weights) {
    const float* values = pointer<float>(weight);
    over_blocks(weight.size(0), [&](std::int64_t first, std::int64_t last) {
      packing_.weight_rows({values + first * inputs, last - first, inputs, packed_.values.data(),
                            outputs, row + first, 0});
    });
    row += weight.size(0);
  }
}

void CpuProducts<BFloat16>::input_product(const at::Tensor& g, const Linears& linears,
                                          std::int64_t tokens, const at::Tensor& out) {
  pack_by_rows(linears);
  bias_.resize(linears.inputs());
  std::fill_n(bias_.data(), linears.inputs(), 0.0F);
  multiply(g, bias_.data(), tokens, out);
}

void CpuProducts<BFloat16>::input_gradient(const at::Tensor& g, const Linears& linears,
                                           std::int64_t tokens, const at::Tensor& into) {
  const std::int64_t inputs = linears.inputs(), outputs = linears.outputs();
  pack_by_rows(linears);
  over_rows(table_, tokens, [&](std::int64_t first, std::int64_t last) {
    accumulate_blocked(table_, {pointer<BFloat16>(g) + first * outputs, outputs, last - first,
                                &packed_, pointer<float>(into) + first * inputs, inputs});
  });
}

at::Tensor CpuProducts<BFloat16>::weight_gradient(const at::Tensor& g, const at::Tensor& x,
                                                  std::int64_t tokens) {
  const std::int64_t outputs = g.size(1), inputs = x.size(1), chunk = piece_of(tokens, longest_sum),
                     chunks = (tokens + chunk - 1) / chunk;
  const std::int64_t blocks = (tokens + 31) / 32;
  if (std::ssize(chunks_) < chunks) chunks_.resize(static_cast<std::size_t>(chunks));
  turned_.resize(outputs * blocks * 32);
  for (std::int64_t c = 0; c < chunks; ++c)
    shape(chunks_[static_cast<std::size_t>(c)],
          kernels::round_up(std::min(chunk, tokens - c * chunk), 32), inputs);
  over_blocks(tokens, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t start = first; start < last; start = (start / chunk + 1) * chunk) {
      const std::int64_t c = start / chunk, rows = std::min(last, (c + 1) * chunk) - start;
      kernels::PackedMatrix<BFloat16>& packed = chunks_[static_cast<std::size_t>(c)];
      packing_.rows({pointer<BFloat16>(x) + start * inputs, rows, inputs, packed.values.data(),
                     packed.rows, start - c * chunk, 0});
      packing_.transpose(pointer<BFloat16>(g) + start * outputs, rows, outputs,
                         turned_.data() + start * 32, blocks);
    }
  });
  at::Tensor result = at::empty({outputs, inputs}, at::TensorOptions().dtype(at::kFloat));
  over_rows(table_, outputs, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t c = 0; c < chunks; ++c) {
      kernels::AccumulateCall<BFloat16> call{turned_.data() + (first * blocks + c * chunk) * 32,
                                             32,
                                             last - first,
                                             &chunks_[static_cast<std::size_t>(c)],
                                             pointer<float>(result) + first * inputs,
                                             inputs};
      call.overwrite = c == 0;
      call.k_step = 1024;
      call.row_step = 1024 * blocks;
      accumulate_blocked(table_, call);
    }
  });
  return result;
}

}  // namespace gpuhpc

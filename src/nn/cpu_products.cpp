#include "cpu_products.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

namespace gpuhpc {

using kernels::BFloat16;
using kernels::kPanel;

std::int64_t Linears::outputs() const {
  std::int64_t sum = 0;
  for (const at::Tensor& weight : weights) sum += weight.size(0);
  return sum;
}

void CpuProducts<float>::linear(const at::Tensor& x, const Linears& linears, std::int64_t tokens, const at::Tensor& out) {
  const bool one = linears.weights.size() == 1;
  const at::Tensor weight = one ? linears.weights[0] : at::cat(linears.weights);
  at::Tensor result = out.narrow(0, 0, tokens);
  at::addmm_out(result, one ? linears.biases[0] : at::cat(linears.biases), x.narrow(0, 0, tokens), weight.t());
}

void CpuProducts<float>::input_gradient(const at::Tensor& g, const Linears& linears, std::int64_t tokens, const at::Tensor& into) {
  std::int64_t column = 0;
  for (const at::Tensor& weight : linears.weights) {
    into.narrow(0, 0, tokens).addmm_(g.narrow(0, 0, tokens).narrow(1, column, weight.size(0)), weight);
    column += weight.size(0);
  }
}

void CpuProducts<float>::input_product(const at::Tensor& g, const Linears& linears, std::int64_t tokens, const at::Tensor& out) {
  at::Tensor result = out.narrow(0, 0, tokens);
  at::mm_out(result, g.narrow(0, 0, tokens), linears.weights.size() == 1 ? linears.weights[0] : at::cat(linears.weights));
}

at::Tensor CpuProducts<float>::weight_gradient(const at::Tensor& g, const at::Tensor& x, std::int64_t tokens) {
  return at::mm(g.narrow(0, 0, tokens).t(), x.narrow(0, 0, tokens));
}

void CpuProducts<BFloat16>::shape(kernels::PackedMatrix<BFloat16>& packed, std::int64_t rows, std::int64_t columns) {
  packed.rows = rows;
  packed.columns = columns;
  packed.values.resize(rows * columns);
}

void CpuProducts<BFloat16>::linear(const at::Tensor& x, const Linears& linears, std::int64_t tokens, const at::Tensor& out) {
  const std::int64_t inputs = linears.inputs(), outputs = linears.outputs();
  shape(packed_, inputs, outputs);
  bias_.resize(outputs);
  std::int64_t column = 0;
  for (std::size_t i = 0; i < linears.weights.size(); ++i) {
    const std::int64_t count = linears.weights[i].size(0);
    packing_.weight({pointer<float>(linears.weights[i]), count, inputs, packed_.values.data(), inputs, 0, column / kPanel});
    std::copy_n(pointer<float>(linears.biases[i]), count, bias_.data() + column);
    column += count;
  }
  multiply(x, bias_.data(), tokens, out);
}

// out (T, packed columns) = x (T, packed rows) x packed matrix + bias.
void CpuProducts<BFloat16>::multiply(const at::Tensor& x, const float* bias, std::int64_t tokens, const at::Tensor& out) {
  over_rows(table_, tokens, [&](std::int64_t first, std::int64_t last) {
    kernels::LinearCall<BFloat16> call;
    call.input = pointer<BFloat16>(x) + first * packed_.rows;
    call.input_stride = packed_.rows;
    call.rows = last - first;
    call.weight = &packed_;
    call.panels = packed_.panels();
    call.bias = bias;
    call.output = pointer<BFloat16>(out) + first * packed_.columns;
    call.output_stride = packed_.columns;
    table_.linear(call);
  });
}

void CpuProducts<BFloat16>::pack_by_rows(const Linears& linears) {
  const std::int64_t inputs = linears.inputs(), outputs = linears.outputs();
  shape(packed_, outputs, inputs);
  std::int64_t row = 0;
  for (const at::Tensor& weight : linears.weights) {
    packing_.weight_rows({pointer<float>(weight), weight.size(0), inputs, packed_.values.data(), outputs, row, 0});
    row += weight.size(0);
  }
}

void CpuProducts<BFloat16>::input_product(const at::Tensor& g, const Linears& linears, std::int64_t tokens, const at::Tensor& out) {
  pack_by_rows(linears);
  bias_.resize(linears.inputs());
  std::fill_n(bias_.data(), linears.inputs(), 0.0F);
  multiply(g, bias_.data(), tokens, out);
}

void CpuProducts<BFloat16>::input_gradient(const at::Tensor& g, const Linears& linears, std::int64_t tokens, const at::Tensor& into) {
  const std::int64_t inputs = linears.inputs(), outputs = linears.outputs();
  pack_by_rows(linears);
  over_rows(table_, tokens, [&](std::int64_t first, std::int64_t last) {
    kernels::AccumulateCall<BFloat16> call;
    call.input = pointer<BFloat16>(g) + first * outputs;
    call.input_stride = outputs;
    call.rows = last - first;
    call.weight = &packed_;
    call.output = pointer<float>(into) + first * inputs;
    call.output_stride = inputs;
    table_.accumulate(call);
  });
}

at::Tensor CpuProducts<BFloat16>::weight_gradient(const at::Tensor& g, const at::Tensor& x, std::int64_t tokens) {
  constexpr std::int64_t chunk = 512;  // tokens whose packed x stays in the second-level cache while all of g passes
  const std::int64_t outputs = g.size(1), inputs = x.size(1), padded = kernels::round_up(tokens, 32), chunks = (tokens + chunk - 1) / chunk;
  if (std::ssize(chunks_) < chunks) chunks_.resize(static_cast<std::size_t>(chunks));
  turned_.resize(outputs * padded);
  at::parallel_for(0, chunks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t c = first; c < last; ++c) {
      const std::int64_t start = c * chunk, rows = std::min(chunk, tokens - start);
      kernels::PackedMatrix<BFloat16>& packed = chunks_[static_cast<std::size_t>(c)];
      shape(packed, kernels::round_up(rows, 32), inputs);
      packing_.rows({pointer<BFloat16>(x) + start * inputs, rows, inputs, packed.values.data(), packed.rows, 0, 0});
      packing_.transpose(pointer<BFloat16>(g) + start * outputs, rows, outputs, outputs, turned_.data() + start, padded);
    }
  });
  at::Tensor result = at::zeros({outputs, inputs}, at::TensorOptions().dtype(at::kFloat));
  over_rows(table_, outputs, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t c = 0; c < chunks; ++c) {
      kernels::AccumulateCall<BFloat16> call;
      call.input = turned_.data() + first * padded + c * chunk;
      call.input_stride = padded;
      call.rows = last - first;
      call.weight = &chunks_[static_cast<std::size_t>(c)];
      call.output = pointer<float>(result) + first * inputs;
      call.output_stride = inputs;
      table_.accumulate(call);
    }
  });
  return result;
}

}  // namespace gpuhpc

#include "cpu_products.hpp"

#include "gpuhpc/base/error.hpp"

#include <ATen/ops/empty.h>

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

// Rows whose outer products go into a weight's gradient at once: what is packed for them stays
// small.
constexpr std::int64_t rows_a_chunk = 1536;

// How products are cut, so that what is read again and again stays near the processor.
template <typename T>
struct Cut;
// Panels that stay in the second-level cache while all rows pass; the kernels themselves keep the
// rows in the first.
template <>
struct Cut<BFloat16> {
  static constexpr std::int64_t longest_sum = 1536;
  static std::int64_t panels(std::int64_t depth) {
    return std::max<std::int64_t>(
        1, (5 << 18) / (depth * kPanel * static_cast<std::int64_t>(sizeof(BFloat16))));
  }
  static std::int64_t rows(std::int64_t /*depth*/) { return std::int64_t{1} << 40; }
};
// One panel, which stays in the first-level cache if it can, and a quarter of the second for the
// rows that pass by it, a few at a time.
template <>
struct Cut<float> {
  static constexpr std::int64_t longest_sum = 192;
  static std::int64_t panels(std::int64_t /*depth*/) { return 1; }
  static std::int64_t rows(std::int64_t depth) {
    return std::max<std::int64_t>(2, (1 << 17) / (depth * 4) / 12) * 12;
  }
};

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

// The whole call, piece by piece of k, block by block of rows and group by group of panels.
template <typename T>
void accumulate_blocked(const kernels::EncoderKernels<T>& table,
                        const kernels::AccumulateCall<T>& whole) {
  const std::int64_t k_count = whole.weight->rows, piece = piece_of(k_count, Cut<T>::longest_sum),
                     panels = whole.weight->panels(), group = Cut<T>::panels(piece),
                     block = Cut<T>::rows(piece);
  kernels::AccumulateCall<T> call = whole;
  for (std::int64_t k = 0; k < k_count; k += piece) {
    call.overwrite = whole.overwrite && k == 0;
    call.first_k = k;
    call.depth = std::min(piece, k_count - k);
    for (std::int64_t row = 0; row < whole.rows; row += block) {
      call.rows = std::min(block, whole.rows - row);
      call.input = whole.input + k / 32 * call.k_step + row * call.input_stride;
      for (std::int64_t p = 0; p < panels; p += group) {
        call.first_panel = p;
        call.panels = std::min(group, panels - p);
        call.output = whole.output + row * call.output_stride + p * kPanel;
        table.accumulate(call);
      }
    }
  }
}

}  // namespace

std::int64_t Linears::outputs() const {
  std::int64_t sum = 0;
  for (const at::Tensor& weight : weights) sum += weight.size(0);
  return sum;
}

bool has_cpu_products(at::ScalarType compute) {
  const kernels::Isa isa = kernels::best_isa();
  return (compute == at::kFloat && isa >= kernels::Isa::avx2) ||
         (compute == at::kBFloat16 && isa >= kernels::Isa::avx512_bf16);
}

template <typename T>
void CpuProducts<T>::shape(kernels::PackedMatrix<T>& packed, std::int64_t rows,
                           std::int64_t columns) {
  packed.rows = rows;
  packed.columns = columns;
  packed.values.resize(rows * columns);
}

template <typename T>
void CpuProducts<T>::linear(const at::Tensor& x, const Linears& linears, std::int64_t tokens,
                            const at::Tensor& out) {
  const std::int64_t inputs = linears.inputs(), outputs = linears.outputs();
  shape(packed_, inputs, outputs);
  bias_.resize(outputs);
  std::fill_n(bias_.data(), outputs, 0.0F);
  std::int64_t column = 0;
  for (std::size_t i = 0; i < linears.weights.size(); ++i) {
    const std::int64_t count = linears.weights[i].size(0);
    const float* values = pointer<float>(linears.weights[i]);
    over_blocks(count, [&](std::int64_t first, std::int64_t last) {
      packing_.weight({values + first * inputs, last - first, inputs, packed_.values.data(), inputs,
                       0, (column + first) / kPanel});
    });
    if (!linears.biases.empty())
      std::copy_n(pointer<float>(linears.biases[i]), count, bias_.data() + column);
    column += count;
  }
  multiply(x, tokens, out);
}

// out (T, packed columns) = x (T, packed rows) x packed matrix + bias.
template <typename T>
void CpuProducts<T>::multiply(const at::Tensor& x, std::int64_t tokens, const at::Tensor& out) {
  const std::int64_t group = Cut<T>::panels(packed_.rows), block = Cut<T>::rows(packed_.rows),
                     panels = packed_.panels();
  over_rows(table_, tokens, [&](std::int64_t first, std::int64_t last) {
    kernels::LinearCall<T> call;
    call.input_stride = packed_.rows;
    call.weight = &packed_;
    call.bias = bias_.data();
    call.output_stride = packed_.columns;
    for (std::int64_t row = first; row < last; row += call.rows) {
      call.input = pointer<T>(x) + row * packed_.rows;
      call.rows = std::min(block, last - row);
      for (std::int64_t p = 0; p < panels; p += group) {
        call.first_panel = p;
        call.panels = std::min(group, panels - p);
        call.output = pointer<T>(out) + row * packed_.columns + p * kPanel;
        table_.linear(call);
      }
    }
  });
}

template <typename T>
void CpuProducts<T>::pack_by_rows(const Linears& linears) {
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

template <typename T>
void CpuProducts<T>::input_product(const at::Tensor& g, const Linears& linears, std::int64_t tokens,
                                   const at::Tensor& out) {
  pack_by_rows(linears);
  bias_.resize(linears.inputs());
  std::fill_n(bias_.data(), linears.inputs(), 0.0F);
  multiply(g, tokens, out);
}

template <typename T>
void CpuProducts<T>::input_gradient(const at::Tensor& g, const Linears& linears,
                                    std::int64_t tokens, const at::Tensor& into) {
  const std::int64_t inputs = linears.inputs(), outputs = linears.outputs();
  pack_by_rows(linears);
  over_rows(table_, tokens, [&](std::int64_t first, std::int64_t last) {
    accumulate_blocked(table_, {pointer<T>(g) + first * outputs, outputs, last - first, &packed_,
                                pointer<float>(into) + first * inputs, inputs});
  });
}

// Chunk by chunk of rows, so that what is packed stays small.
template <typename T>
at::Tensor CpuProducts<T>::weight_gradient(const at::Tensor& g, const at::Tensor& x,
                                           std::int64_t tokens) {
  const std::int64_t outputs = g.size(1), inputs = x.size(1),
                     chunk = piece_of(tokens, rows_a_chunk);
  at::Tensor result = at::empty({outputs, inputs}, at::TensorOptions().dtype(at::kFloat));
  const kernels::Turned layout = kernels::turned<T>(chunk);
  turned_.resize(layout.place(0, outputs));
  for (std::int64_t start = 0; start < tokens; start += chunk) {
    const std::int64_t rows = std::min(chunk, tokens - start);
    shape(packed_, kernels::round_up(rows, 32), inputs);
    over_blocks(rows, [&](std::int64_t first, std::int64_t last) {
      packing_.rows({pointer<T>(x) + (start + first) * inputs, last - first, inputs,
                     packed_.values.data(), packed_.rows, first, 0});
      packing_.transpose(pointer<T>(g) + (start + first) * outputs, last - first, outputs,
                         turned_.data() + layout.place(first, 0), layout);
    });
    over_rows(table_, outputs, [&](std::int64_t first, std::int64_t last) {
      kernels::AccumulateCall<T> call{turned_.data() + layout.place(0, first),
                                      layout.input_stride,
                                      last - first,
                                      &packed_,
                                      pointer<float>(result) + first * inputs,
                                      inputs};
      call.overwrite = start == 0;
      call.k_step = layout.k_step;
      call.row_step = layout.row_step;
      accumulate_blocked(table_, call);
    });
  }
  return result;
}

template class CpuProducts<float>;
template class CpuProducts<BFloat16>;

}  // namespace gpuhpc

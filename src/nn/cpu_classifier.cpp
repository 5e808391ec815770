#include <algorithm>
#include <cmath>

#include "gpuhpc/base/error.hpp"
#include "gpuhpc/kernels/encoder_kernels.hpp"
#include "gpuhpc/nn/sequence_classifier.hpp"

namespace gpuhpc {
namespace {

using kernels::AlignedBuffer;
using kernels::kPanel;
using kernels::round_up;

// A linear layer in fp32, packed.
struct PackedLinear {
  PackedLinear(const at::Tensor& weight, const at::Tensor& bias)
      : outputs(weight.size(0)),
        matrix(kernels::pack_f32({weight.const_data_ptr<float>(), weight.size(0), weight.size(1)})),
        biases(bias.const_data_ptr<float>(), bias.const_data_ptr<float>() + outputs) {
    biases.resize(static_cast<std::size_t>(matrix.columns));
  }
  std::int64_t outputs;
  kernels::PackedMatrix<float> matrix;
  std::vector<float> biases;  // zeros behind up to whole panels
};

}  // namespace

struct CpuClassifier::Head {
  Head(const ClassificationHead& head, HeadActivation f, kernels::Isa isa)
      : table(kernels::encoder_kernels<float>(isa)),
        activation(f),
        dense(head.parameters()[0].value, head.parameters()[1].value),
        output(head.parameters()[2].value, head.parameters()[3].value) {}

  // (rows, inputs padded to 32) -> (rows, outputs padded to 32)
  AlignedBuffer<float> apply(const PackedLinear& linear, const AlignedBuffer<float>& input,
                             std::int64_t rows, kernels::Activation after) const {
    AlignedBuffer<float> result(round_up(rows, 32) * linear.matrix.columns);
    const kernels::KernelScope<float> scope(table);
    table.linear({input.data(), linear.matrix.rows, rows, &linear.matrix, 0, linear.matrix.panels(),
                  linear.biases.data(), after, result.data(), linear.matrix.columns});
    return result;
  }

  kernels::EncoderKernels<float> table;
  HeadActivation activation;
  PackedLinear dense, output;
};

CpuClassifier::CpuClassifier(const SequenceClassifier& classifier, CpuPrecision precision,
                             kernels::Isa isa)
    : encoder_(classifier.encoder(), precision, isa),
      head_(std::make_unique<Head>(classifier.head(), classifier.config().activation, isa)) {}
CpuClassifier::~CpuClassifier() = default;
CpuClassifier::CpuClassifier(CpuClassifier&&) noexcept = default;

std::int64_t CpuClassifier::labels() const { return head_->output.outputs; }

void CpuClassifier::logits(CpuWorkspace& workspace, const PackedIds& documents,
                           MutableMatrixView output) const {
  if (output.columns != labels() || output.rows != documents.size())
    throw internal_error("logits of {} x {} for {} documents and {} labels", output.rows,
                         output.columns, documents.size(), labels());
  const std::int64_t rows = documents.size(), hidden = encoder_.config().hidden_size,
                     width = head_->dense.matrix.rows;
  Matrix first_tokens(rows, hidden);
  encoder_.embed(workspace, documents, {.pooling = Pooling::cls}, first_tokens.view());
  AlignedBuffer<float> input(round_up(rows, 32) * width);
  for (std::int64_t b = 0; b < rows; ++b)
    std::copy_n(first_tokens.row(b).data(), hidden, input.data() + b * width);
  const bool tanh = head_->activation == HeadActivation::tanh;
  AlignedBuffer<float> middle = head_->apply(
      head_->dense, input, rows, tanh ? kernels::Activation::none : kernels::Activation::gelu);
  for (std::int64_t i = 0; tanh && i < rows * width; ++i)
    middle.data()[i] = std::tanh(middle.data()[i]);
  const AlignedBuffer<float> result =
      head_->apply(head_->output, middle, rows, kernels::Activation::none);
  for (std::int64_t b = 0; b < rows; ++b)
    std::copy_n(result.data() + b * head_->output.matrix.columns, labels(), output.row(b).data());
}

}  // namespace gpuhpc

#include "gpuhpc/nn/cpu_encoder.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "cpu_forward.hpp"
#include "gpuhpc/base/error.hpp"
#include "gpuhpc/nn/encoder.hpp"
#include "gpuhpc/nn/host_matrices.hpp"

namespace gpuhpc {
namespace {

constexpr std::array<std::string_view, 4> kPrecisions{"fp32", "tf32", "bf16", "int8"};

void check(const PackedIds& documents, const EncoderConfig& config, std::int64_t wanted,
           std::int64_t columns) {
  if (documents.offsets.empty() || documents.offsets.back() > std::ssize(documents.token_ids))
    throw internal_error("packed offsets do not fit the ids");
  if (!documents.segments.empty() && documents.segments.size() != documents.token_ids.size())
    throw internal_error("packed segment ids do not fit the ids");
  if (columns != wanted)
    throw internal_error("output has {} columns, the encoder {}", columns, wanted);
  for (std::int64_t b = 0; b < documents.size(); ++b)
    if (documents.length(b) < 1 || documents.length(b) > config.max_tokens())
      throw internal_error("document of {} tokens; the encoder takes 1 to {}", documents.length(b),
                           config.max_tokens());
}

// Whole documents in micro-batches of about `budget` tokens, a longer document alone: use(first
// document, last document).
template <typename Use>
void each_micro_batch(const PackedIds& documents, std::int64_t budget, Use use) {
  for (std::int64_t first = 0, last = 0; first < documents.size(); first = last) {
    std::int64_t tokens = 0;
    while (last < documents.size() && (last == first || tokens + documents.length(last) <= budget))
      tokens += documents.length(last++);
    use(first, last);
  }
}

void pool(const CpuForward& forward, Pooling pooling, CpuForward::Rows rows, std::int64_t first,
          std::int64_t count, std::span<float> vector) {
  const std::int64_t width = std::ssize(vector);
  switch (pooling) {
    case Pooling::cls:
      std::copy_n(rows.row(first), width, vector.begin());
      return;
    case Pooling::last:
      std::copy_n(rows.row(first + count - 1), width, vector.begin());
      return;
    case Pooling::pooler:
      forward.pooler(rows.row(first), vector.data());
      return;
    case Pooling::max:
      std::copy_n(rows.row(first), width, vector.begin());
      for (std::int64_t t = 1; t < count; ++t)
        for (std::int64_t i = 0; i < width; ++i)
          if (const float value = rows.row(first + t)[i];
              value > vector.data()[i] || std::isnan(value))  // a NaN stays one
            vector.data()[i] = value;
      return;
    case Pooling::mean:
      std::fill(vector.begin(), vector.end(), 0.0F);
      for (std::int64_t t = 0; t < count; ++t)
        for (std::int64_t i = 0; i < width; ++i) vector.data()[i] += rows.row(first + t)[i];
      for (float& value : vector) value /= static_cast<float>(count);
      return;
  }
}

}  // namespace

HostLinear::HostLinear(const at::Tensor& weight, const at::Tensor& bias)
    : inputs_(weight.size(1)),
      outputs_(weight.size(0)),
      weight_(to_matrix(weight.t()).values),
      bias_(bias.defined() ? to_matrix(bias).values
                           : std::vector<float>(static_cast<std::size_t>(outputs_))) {}

std::vector<float> HostLinear::operator()(const float* x) const {
  std::vector<double> sums(bias_.begin(), bias_.end());
  const float* row = weight_.data();
  for (std::int64_t k = 0; k < inputs_; ++k)
    for (double& sum : sums) sum += static_cast<double>(*row++) * x[k];
  return {sums.begin(), sums.end()};
}

CpuForward::CpuForward(const Encoder& encoder, CpuPrecision precision, kernels::Isa isa)
    : config_(encoder.config()), precision_(precision), isa_(isa) {
  if (encoder.has_pooler())
    pooler_ = {encoder.parameter("pooler.dense.weight"), encoder.parameter("pooler.dense.bias")};
  for (std::size_t i = 0; i < encoder.dense_count(); ++i) {
    const std::vector<NamedParameter> linear = encoder.dense(i);
    dense_.emplace_back(linear[0].value, linear.size() > 1 ? linear[1].value : at::Tensor());
  }
}

void CpuForward::pooler(const float* first_token, float* output) const {
  if (pooler_.empty())
    throw input_error(
        "the model pools with the pooler head, but its weights have none; use pooling mean or cls");
  for (const float value : pooler_(first_token)) *output++ = std::tanh(value);
}

std::vector<float> CpuForward::dense(std::vector<float> vector,
                                     const EmbeddingConfig& embedding) const {
  for (std::size_t i = 0; i < embedding.dense.size(); ++i) {
    if (embedding.dense[i].unit_inputs) gpuhpc::normalise(vector);
    vector = dense_.at(i)(vector.data());
    const DenseActivation activation = embedding.dense[i].activation;
    for (float& x : vector) {
      if (activation == DenseActivation::tanh) x = std::tanh(x);
      if (activation == DenseActivation::relu && x < 0) x = 0;  // a NaN stays one
      if (activation == DenseActivation::gelu) x *= .5F * (1 + std::erf(x * std::sqrt(.5F)));
    }
  }
  return vector;
}

std::string_view to_string(CpuPrecision precision) {
  return kPrecisions[static_cast<std::size_t>(precision)];
}

CpuPrecision parse_cpu_precision(std::string_view name) {
  const auto* const found = std::ranges::find(kPrecisions, name);
  if (found == kPrecisions.end())
    throw usage_error("`{}` is no precision; use fp32, tf32, bf16 or int8", name);
  return static_cast<CpuPrecision>(found - kPrecisions.begin());
}

CpuPrecision usable_cpu_precision(CpuPrecision wanted, kernels::Isa isa) {
  if (wanted == CpuPrecision::int8 && isa < kernels::Isa::avx512_bf16)
    throw configuration_error(
        "--infer.precision int8 takes AMX, or AVX-512 with VNNI and BF16, but the best CPU kernels "
        "here are those of {}; use --infer.precision fp32, or auto",
        kernels::to_string(isa));
  const kernels::Isa lowest = wanted == CpuPrecision::tf32   ? kernels::Isa::amx
                              : wanted == CpuPrecision::bf16 ? kernels::Isa::avx512_bf16
                                                             : kernels::Isa::generic;
  return isa >= lowest ? wanted : CpuPrecision::fp32;
}

CpuEncoder::CpuEncoder(const Encoder& encoder, CpuPrecision precision, kernels::Isa isa)
    : forward_(make_cpu_forward(encoder, precision, isa)) {}
CpuEncoder::~CpuEncoder() = default;
CpuEncoder::CpuEncoder(CpuEncoder&&) noexcept = default;
CpuEncoder& CpuEncoder::operator=(CpuEncoder&&) noexcept = default;

std::unique_ptr<CpuWorkspace> CpuEncoder::make_workspace() const {
  return forward_->make_workspace();
}
const EncoderConfig& CpuEncoder::config() const { return forward_->config(); }
CpuPrecision CpuEncoder::precision() const { return forward_->precision(); }
kernels::Isa CpuEncoder::isa() const { return forward_->isa(); }

void CpuEncoder::embed(CpuWorkspace& workspace, const PackedIds& documents,
                       const EmbeddingConfig& embedding, MutableMatrixView output) const {
  check(documents, config(), embedding.width(config().hidden_size), output.columns);
  std::vector<float> pooled(static_cast<std::size_t>(config().hidden_size));
  const bool first_tokens = reads_first_token(embedding.pooling);
  each_micro_batch(documents, forward_->rows_at_once(), [&](std::int64_t first, std::int64_t last) {
    const CpuForward::Rows rows =
        forward_->run(workspace, documents, first, last, config().layers, first_tokens);
    for (std::int64_t b = first, row = 0; b < last;
         row += first_tokens ? 1 : documents.length(b), ++b) {
      const std::span<float> vector = output.row(b),
                             target = embedding.dense.empty() ? vector : std::span(pooled);
      pool(*forward_, embedding.pooling, rows, row, documents.length(b), target);
      if (!embedding.dense.empty())
        std::ranges::copy(forward_->dense(pooled, embedding), vector.begin());
      if (embedding.normalise) normalise(output.row(b));
    }
  });
}

void CpuEncoder::hidden(CpuWorkspace& workspace, const PackedIds& documents, std::int64_t layers,
                        MutableMatrixView output) const {
  check(documents, config(), config().hidden_size, output.columns);
  if (layers < 0 || layers > config().layers)
    throw internal_error("hidden states after {} of {} layers", layers, config().layers);
  each_micro_batch(documents, forward_->rows_at_once(), [&](std::int64_t first, std::int64_t last) {
    const CpuForward::Rows rows = forward_->run(workspace, documents, first, last, layers, false);
    const std::int64_t begin = documents.offsets[static_cast<std::size_t>(first)],
                       end = documents.offsets[static_cast<std::size_t>(last)];
    for (std::int64_t t = begin; t < end; ++t)
      std::copy_n(rows.row(t - begin), output.columns, output.row(t).begin());
  });
}

}  // namespace gpuhpc

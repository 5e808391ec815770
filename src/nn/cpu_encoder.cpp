#include "gpuhpc/nn/cpu_encoder.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "cpu_forward.hpp"
#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

constexpr std::array<std::string_view, 3> kPrecisions{"fp32", "tf32", "bf16"};

void check(const PackedIds& documents, const EncoderConfig& config, std::int64_t columns) {
  if (documents.offsets.empty() || documents.offsets.back() > std::ssize(documents.token_ids))
    throw internal_error("packed offsets do not fit the ids");
  if (!documents.segments.empty() && documents.segments.size() != documents.token_ids.size())
    throw internal_error("packed segment ids do not fit the ids");
  if (columns != config.hidden_size)
    throw internal_error("output has {} columns, the encoder {}", columns, config.hidden_size);
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

std::string_view to_string(CpuPrecision precision) {
  return kPrecisions[static_cast<std::size_t>(precision)];
}

CpuPrecision parse_cpu_precision(std::string_view name) {
  const auto* const found = std::ranges::find(kPrecisions, name);
  if (found == kPrecisions.end())
    throw usage_error("`{}` is no precision; use fp32, tf32 or bf16", name);
  return static_cast<CpuPrecision>(found - kPrecisions.begin());
}

CpuPrecision usable_cpu_precision(CpuPrecision wanted, kernels::Isa isa) {
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
  check(documents, config(), output.columns);
  const bool first_tokens = reads_first_token(embedding.pooling);
  each_micro_batch(documents, forward_->rows_at_once(), [&](std::int64_t first, std::int64_t last) {
    const CpuForward::Rows rows =
        forward_->run(workspace, documents, first, last, config().layers, first_tokens);
    for (std::int64_t b = first, row = 0; b < last;
         row += first_tokens ? 1 : documents.length(b), ++b) {
      pool(*forward_, embedding.pooling, rows, row, documents.length(b), output.row(b));
      if (embedding.normalise) normalise(output.row(b));
    }
  });
}

void CpuEncoder::hidden(CpuWorkspace& workspace, const PackedIds& documents, std::int64_t layers,
                        MutableMatrixView output) const {
  check(documents, config(), output.columns);
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

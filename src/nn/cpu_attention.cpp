#include "cpu_attention.hpp"

#include <gpuhpc/kernels/dropout.hpp>
#include <gpuhpc/kernels/isa.hpp>

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "cpu_layer.hpp"
#include "cpu_products.hpp"
#include "documents.hpp"
#include "dropout.hpp"

namespace gpuhpc {
namespace {

using kernels::BFloat16;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Added to the score of a key that does not count: the kernels' own number for keys behind the end.
constexpr double lowest_score = -1e30;

struct AttentionState : torch::CustomClassHolder {
  std::vector<std::int32_t> queries, keys;  // offsets
  std::int64_t heads = 1, head_size = 1;
  double divisor = 1;
  bool causal = false;
  kernels::Dropout dropout;

  std::int64_t documents() const { return std::ssize(queries) - 1; }
  std::int64_t inner() const { return heads * head_size; }
  static std::int64_t first(const std::vector<std::int32_t>& offsets, std::int64_t b) {
    return offsets[static_cast<std::size_t>(b)];
  }
  static std::int64_t length(const std::vector<std::int32_t>& offsets, std::int64_t b) {
    return first(offsets, b + 1) - first(offsets, b);
  }
  // Of document b: no two share a counter.
  kernels::Dropout dropout_of(std::int64_t b) const {
    kernels::Dropout own = dropout;
    own.first = kernels::dropout_counters(heads * first(queries, b), longest(keys, 0, documents()));
    return own;
  }
};

c10::intrusive_ptr<AttentionState> state_of(const PackedOffsets& queries, const PackedOffsets& keys,
                                            std::int64_t heads, std::int64_t head_size,
                                            const AttentionOptions& options) {
  auto state = c10::make_intrusive<AttentionState>();
  state->queries = queries.offsets, state->keys = keys.offsets;
  state->heads = heads, state->head_size = head_size;
  state->divisor = options.divisor, state->causal = options.causal;
  state->dropout = drawn_dropout(options.dropout, options.generator);
  return state;
}

// The sum of rows (lots, ..), in their order.
at::Tensor total_of(const at::Tensor& lots) {
  const at::Tensor total = lots[0].clone();
  for (std::int64_t l = 1; l < lots.size(0); ++l) total.add_(lots[l]);
  return total;
}

// Self attention on the kernels. Columns of queries, keys and values begin on multiples of 32.
template <typename T>
class KernelAttention {
 public:
  explicit KernelAttention(const AttentionState& state)
      : s_(state), columns_(kernels::round_up(state.inner(), 32)) {}

  // (T, 3 A D) as the kernels read it; the same memory where it stands like that already.
  at::Tensor laid_out(const at::Tensor& qkv) const {
    const std::int64_t tokens = qkv.size(0), inner = s_.inner(), rows = padded_rows(tokens);
    if (columns_ == inner && qkv.is_contiguous() && qkv.storage_offset() == 0 &&
        static_cast<std::int64_t>(qkv.storage().nbytes()) >=
            rows * 3 * inner * static_cast<std::int64_t>(sizeof(T)))
      return qkv;
    const at::Tensor copy = empty_rows(tokens);
    copy.view({rows, 3, columns_})
        .narrow(0, 0, tokens)
        .narrow(2, 0, inner)
        .copy_(qkv.view({tokens, 3, inner}));
    return copy;
  }

  // What scores start from by distance, (A, 2 reach - 1); undefined: zeros.
  at::Tensor start_of(const at::Tensor& bias) const {
    if (!bias.defined() && !s_.causal) return {};
    const std::int64_t reach = bias_reach(longest(s_.queries, 0, s_.documents()));
    const at::Tensor start =
        at::zeros({s_.heads, 2 * reach - 1}, at::TensorOptions().dtype(at::kFloat));
    if (bias.defined()) {
      const std::int64_t known = std::min(reach, (bias.size(1) + 1) / 2);
      middle(start, known).copy_(middle(bias, known) * s_.divisor);
    }
    if (s_.causal) start.narrow(1, reach, reach - 1).fill_(lowest_score);
    return start;
  }

  at::Tensor forward(const at::Tensor& qkv, const at::Tensor& start) const {
    const std::int64_t inner = s_.inner();
    const at::Tensor out = at::empty({padded_rows(s_.queries.back()), columns_}, options());
    // The kernel of bf16 knows heads of multiples of 32 alone.
    const bool vectors =
        s_.dropout.threshold > 0 || (sizeof(T) < sizeof(float) && s_.head_size % 32 != 0);
    each_document(s_.queries, [&](std::int64_t first, std::int64_t last) {
      const kernels::KernelScope<T> scope(table_);
      const std::int64_t most = longest(s_.queries, first, last);
      kernels::AlignedBuffer<std::byte> scratch(
          vectors ? kernels::attention_gradient_scratch_bytes(most, s_.head_size)
                  : kernels::attention_scratch_bytes(most, s_.head_size));
      for (std::int64_t b = first; b < last; ++b) {
        const std::int64_t from = AttentionState::first(s_.queries, b);
        const kernels::AttentionCall<T> call{pointer<T>(qkv) + from * 3 * columns_,
                                             3 * columns_,
                                             columns_,
                                             2 * columns_,
                                             AttentionState::length(s_.queries, b),
                                             s_.heads,
                                             s_.head_size,
                                             scale(),
                                             pointer<T>(out) + from * columns_,
                                             columns_,
                                             scratch.data(),
                                             at_distance_0(start),
                                             -1,
                                             start_head(start)};
        if (vectors)
          training_.dropped_attention({call, s_.dropout_of(b)});
        else
          table_.attention(call);
      }
    });
    return out.narrow(0, 0, s_.queries.back()).narrow(1, 0, inner).contiguous();
  }

  // Gradients of qkv (T, 3 A D) and of the bias (A, 2 reach - 1).
  std::pair<at::Tensor, at::Tensor> backward(const at::Tensor& gradient, const at::Tensor& qkv,
                                             const at::Tensor& start,
                                             const at::Tensor& bias) const {
    const std::int64_t tokens = s_.queries.back(), inner = s_.inner();
    at::Tensor given = gradient;
    if (columns_ != inner) {
      given = at::empty({padded_rows(tokens), columns_}, options());
      given.narrow(0, 0, tokens).narrow(1, 0, inner).copy_(gradient);
    }
    given = given.contiguous();
    const at::Tensor result = empty_rows(tokens);
    const at::Tensor of_start = at::zeros(
        {document_lots(s_.queries), s_.heads, std::max<std::int64_t>(1, start_head(start))},
        at::TensorOptions().dtype(at::kFloat));
    each_lot_of_documents(s_.queries, [&](std::int64_t first, std::int64_t last, std::int64_t lot) {
      const kernels::KernelScope<T> scope(table_);
      kernels::AlignedBuffer<std::byte> scratch(kernels::attention_gradient_scratch_bytes(
          longest(s_.queries, first, last), s_.head_size));
      float* const own = pointer<float>(of_start) + lot * s_.heads * start_head(start);
      for (std::int64_t b = first; b < last; ++b) {
        const std::int64_t from = AttentionState::first(s_.queries, b);
        training_.attention_gradient(
            {pointer<T>(qkv) + from * 3 * columns_, 3 * columns_, columns_, 2 * columns_,
             AttentionState::length(s_.queries, b), s_.heads, s_.head_size, scale(),
             pointer<T>(given) + from * columns_, columns_,
             pointer<T>(result) + from * 3 * columns_, 3 * columns_, scratch.data(),
             at_distance_0(start), -1, start_head(start),
             start.defined() ? own + (start_head(start) - 1) / 2 : nullptr, s_.dropout_of(b)});
      }
    });
    return {result.narrow(0, 0, tokens)
                .view({tokens, 3, columns_})
                .narrow(2, 0, inner)
                .reshape({tokens, 3 * inner}),
            bias.defined() ? of_bias(total_of(of_start), bias) : at::Tensor()};
  }

 private:
  static at::TensorOptions options() { return at::TensorOptions().dtype(scalar_type<T>); }
  at::Tensor empty_rows(std::int64_t tokens) const {
    return at::empty({padded_rows(tokens), 3 * columns_}, options());
  }
  // Distances below `reach` of (A, 2 larger - 1).
  static at::Tensor middle(const at::Tensor& by_distance, std::int64_t reach) {
    return by_distance.narrow(1, (by_distance.size(1) + 1) / 2 - reach, 2 * reach - 1);
  }
  at::Tensor of_bias(const at::Tensor& of_start, const at::Tensor& bias) const {
    const std::int64_t reach = (of_start.size(1) + 1) / 2,
                       known = std::min(reach, (bias.size(1) + 1) / 2);
    if (s_.causal) of_start.narrow(1, reach, reach - 1).zero_();
    const at::Tensor result = at::zeros(bias.sizes(), bias.options().requires_grad(false));
    middle(result, known).copy_(middle(of_start, known) * s_.divisor);
    return result;
  }
  float scale() const { return static_cast<float>(1 / s_.divisor); }
  static std::int64_t start_head(const at::Tensor& start) {
    return start.defined() ? start.size(1) : 0;
  }
  static const float* at_distance_0(const at::Tensor& start) {
    return start.defined() ? pointer<float>(start) + (start.size(1) - 1) / 2 : nullptr;
  }

  const AttentionState& s_;
  std::int64_t columns_;
  kernels::EncoderKernels<T> table_ = kernels::encoder_kernels<T>(kernels::best_isa());
  kernels::TrainingKernels<T> training_ = kernels::training_kernels<T>(kernels::best_isa());
};

template <typename Body>
auto on_kernels(at::ScalarType type, const AttentionState& state, const Body& body) {
  if (type == at::kFloat) return body(KernelAttention<float>(state));
  return body(KernelAttention<BFloat16>(state));
}

struct SelfAttention : torch::autograd::Function<SelfAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv,
                            const std::optional<at::Tensor>& given,
                            const c10::intrusive_ptr<AttentionState>& state) {
    const at::Tensor bias = given.value_or(at::Tensor());
    context->saved_data["state"] = c10::IValue::make_capsule(state);
    return on_kernels(qkv.scalar_type(), *state, [&](const auto& kernel) {
      const at::Tensor rows = kernel.laid_out(qkv), start = kernel.start_of(bias);
      context->save_for_backward({rows, start, bias});
      return kernel.forward(rows, start);
    });
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto capsule = context->saved_data["state"].toCapsule();
    const auto& state = static_cast<const AttentionState&>(*capsule);
    return on_kernels(saved[0].scalar_type(), state, [&](const auto& kernel) {
      auto [of_qkv, of_bias] = kernel.backward(gradients[0], saved[0], saved[1], saved[2]);
      return variable_list{of_qkv, of_bias, {}};
    });
  }
};

// Elements of `shares` (A,Lq,Lk) zeroed or scaled, where they stand.
void drop_shares(const kernels::Dropout& dropout, const at::Tensor& shares) {
  if (dropout.threshold == 0) return;
  const std::int64_t rows = shares.size(0) * shares.size(1), keys = shares.size(2),
                     blocks = (keys + 31) / 32;
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(blocks));
  float* values = pointer<float>(shares);
  for (std::int64_t r = 0; r < rows; ++r, values += keys) {
    kernels::draw_kept(dropout, r * blocks, bits);
    for (std::int64_t k = 0; k < keys; ++k)
      values[k] =
          bits[static_cast<std::size_t>(k / 32)] >> k % 32 & 1 ? values[k] * dropout.scale : 0;
  }
}

// One document's operands, (A,L,D) fp32 each.
struct DocumentOperands {
  at::Tensor q, k, v;
};

// Attention document by document, on LibTorch's operators.
class DocumentAttention {
 public:
  DocumentAttention(const AttentionState& state, const at::Tensor& q, const at::Tensor& k,
                    const at::Tensor& v, const at::Tensor& bias)
      : s_(state), q_(q), k_(k), v_(v), bias_(bias) {}

  at::Tensor forward() const {
    const at::Tensor out = at::empty({q_.size(0), s_.heads, v_.size(2)}, plain(q_));
    each_document(s_.queries, [&](std::int64_t first, std::int64_t last) {
      const at::AutoDispatchBelowADInplaceOrView guard;
      for (std::int64_t b = first; b < last; ++b) {
        const DocumentOperands own = operands(b);
        const at::Tensor shares = shares_of(own);
        drop_shares(s_.dropout_of(b), shares);
        part(out, s_.queries, b).copy_(at::matmul(shares, own.v).transpose(0, 1));
      }
    });
    return out.reshape({q_.size(0), -1});
  }

  variable_list backward(const at::Tensor& gradient) const {
    const at::Tensor of_q = at::empty(q_.sizes(), plain(q_)),
                     of_k = at::empty(k_.sizes(), plain(k_)),
                     of_v = at::empty(v_.sizes(), plain(v_)),
                     given = gradient.reshape({q_.size(0), s_.heads, v_.size(2)});
    at::Tensor of_bias;
    if (bias_.defined())
      of_bias = at::zeros({document_lots(s_.queries), bias_.size(0), bias_.size(1)}, plain(bias_));
    each_lot_of_documents(s_.queries, [&](std::int64_t first, std::int64_t last, std::int64_t lot) {
      const at::AutoDispatchBelowADInplaceOrView guard;
      for (std::int64_t b = first; b < last; ++b) {
        const DocumentOperands own = operands(b);
        const kernels::Dropout dropout = s_.dropout_of(b);
        const at::Tensor shares = shares_of(own), used = shares.clone(),
                         g = part(given, s_.queries, b).transpose(0, 1).to(at::kFloat),
                         slopes = at::matmul(g, own.v.transpose(1, 2)).contiguous();
        drop_shares(dropout, used), drop_shares(dropout, slopes);
        // d softmax: dS = P (dP - rowsum(P dP))
        slopes.sub_((shares * slopes).sum(-1, /*keepdim=*/true)).mul_(shares);
        if (of_bias.defined()) add_by_distance(slopes, of_bias[lot]);
        part(of_q, s_.queries, b).copy_((at::matmul(slopes, own.k) / s_.divisor).transpose(0, 1));
        part(of_k, s_.keys, b).copy_(at::matmul(slopes.transpose(1, 2), own.q).transpose(0, 1));
        part(of_v, s_.keys, b).copy_(at::matmul(used.transpose(1, 2), g).transpose(0, 1));
      }
    });
    return {of_q, of_k, of_v, of_bias.defined() ? total_of(of_bias) : at::Tensor(), {}};
  }

 private:
  static at::TensorOptions plain(const at::Tensor& like) {
    return like.options().requires_grad(false);
  }
  static at::Tensor part(const at::Tensor& rows, const std::vector<std::int32_t>& offsets,
                         std::int64_t b) {
    return rows.narrow(0, AttentionState::first(offsets, b), AttentionState::length(offsets, b));
  }
  // Queries divided already.
  DocumentOperands operands(std::int64_t b) const {
    const auto floats = [&](const at::Tensor& rows, const std::vector<std::int32_t>& offsets) {
      return part(rows, offsets, b).transpose(0, 1).to(at::kFloat);
    };
    return {floats(q_, s_.queries) / s_.divisor, floats(k_, s_.keys), floats(v_, s_.keys)};
  }
  at::Tensor shares_of(const DocumentOperands& own) const {
    at::Tensor scores = at::matmul(own.q, own.k.transpose(1, 2));
    if (bias_.defined()) scores.add_(between(bias_, scores.size(1), scores.size(2)));
    if (s_.causal)
      scores.masked_fill_(
          at::ones({scores.size(1), scores.size(2)}, scores.options().dtype(at::kBool)).triu(1),
          -std::numeric_limits<double>::infinity());
    return at::softmax(scores, -1);
  }
  // What between() took from a bias, back to its places.
  static void add_by_distance(const at::Tensor& slopes, const at::Tensor& to) {
    const std::int64_t queries = slopes.size(1), keys = slopes.size(2),
                       reach = (to.size(1) + 1) / 2;
    const float* from = pointer<float>(slopes);
    for (std::int64_t head = 0; head < slopes.size(0); ++head)
      for (std::int64_t q = 0; q < queries; ++q, from += keys) {
        float* const row = pointer<float>(to) + head * to.size(1) + reach - 1 - q;
        for (std::int64_t k = 0; k < keys; ++k) row[k] += from[k];
      }
  }

  const AttentionState& s_;
  const at::Tensor &q_, &k_, &v_, &bias_;
};

struct PlainAttention : torch::autograd::Function<PlainAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                            const at::Tensor& v, const std::optional<at::Tensor>& given,
                            const c10::intrusive_ptr<AttentionState>& state) {
    const at::Tensor bias = given.value_or(at::Tensor());
    context->saved_data["state"] = c10::IValue::make_capsule(state);
    context->save_for_backward({q, k, v, bias});
    return DocumentAttention(*state, q, k, v, bias).forward();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto capsule = context->saved_data["state"].toCapsule();
    return DocumentAttention(static_cast<const AttentionState&>(*capsule), saved[0], saved[1],
                             saved[2], saved[3])
        .backward(gradients[0]);
  }
};

std::optional<at::Tensor> if_defined(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

}  // namespace

bool has_cpu_attention(const at::Tensor& qkv) {
  return qkv.is_cpu() && has_cpu_products(qkv.scalar_type());
}

at::Tensor cpu_self_attention(const at::Tensor& qkv, std::int64_t heads,
                              const PackedOffsets& offsets, const AttentionOptions& options) {
  return SelfAttention::apply(qkv, if_defined(options.bias),
                              state_of(offsets, offsets, heads, qkv.size(1) / 3 / heads, options));
}

at::Tensor cpu_plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const PackedOffsets& q_offsets, const PackedOffsets& k_offsets,
                               const AttentionOptions& options) {
  return PlainAttention::apply(q, k, v, if_defined(options.bias),
                               state_of(q_offsets, k_offsets, q.size(1), q.size(2), options));
}

at::Tensor between(const at::Tensor& bias, std::int64_t queries, std::int64_t keys) {
  const std::int64_t reach = (bias.size(1) + 1) / 2;
  return bias.narrow(1, reach - queries, queries + keys - 1).unfold(1, keys, 1).flip({1});
}

}  // namespace gpuhpc

#pragma once
// Losses of sentence embeddings. A column holds one vector per row of the batch, (B,W) fp32: the
// anchors, the positives, the negatives. Sums over the B rows, except where a batch has one value.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace gpuhpc {

using Columns = std::vector<at::Tensor>;

// Cross-entropy of each anchor's positive (column 1) among the positives and negatives of all rows
// (columns 1 and on), by scale x cosine (Henderson et al. 2017; van den Oord et al. 2018).
at::Tensor in_batch_negatives(const Columns& columns, double scale);
// The mean of that with every positive's anchor among all anchors. Two columns.
at::Tensor symmetric_in_batch_negatives(const Columns& columns, double scale);

enum class Distance { cosine, euclidean, manhattan };  // cosine: 1 - cosine
Distance parse_distance(const std::string& word);
// max(0, d(anchor, positive) - d(anchor, negative) + margin): Reimers and Gurevych 2019, section 3.
at::Tensor triplet_loss(const Columns& columns, Distance distance, double margin);

// Cosines of the rows of two columns; what AnglE puts in their place (Li and Li 2023, section 3.3:
// two halves of a vector as real and imaginary parts). (B).
at::Tensor row_cosines(const at::Tensor& a, const at::Tensor& b);
at::Tensor row_angles(const at::Tensor& a, const at::Tensor& b);

// (cosine - score)^2; scores (B).
at::Tensor cosine_loss(const Columns& columns, const at::Tensor& scores);
// One value per batch: log(1 + sum over pairs of rows with scores_i < scores_j of
// exp(scale (s_i - s_j))), s being row_cosines (CoSENT, Su 2022) or row_angles (AnglE).
at::Tensor ranking_loss(const at::Tensor& similarities, const at::Tensor& scores, double scale);
// ((anchor . positive - anchor . negative) - difference)^2, with the teacher's differences (B)
// (Hofstaetter et al. 2020).
at::Tensor margin_mse_loss(const Columns& columns, const at::Tensor& differences);
// Kullback-Leibler divergence of the anchor's dot products with the texts after it, as a
// distribution, from the teacher's scores (B, columns - 1) of these pairs, both divided by
// `temperature`, times its square (Hinton et al. 2015; Lin et al. 2020).
at::Tensor distillation_loss(const Columns& columns, const at::Tensor& scores, double temperature);
// Cross-entropy of the classes (B, numbers from 0) given [u; v; |u - v|] W^T + b: weight (C,3W),
// bias (C) (Reimers and Gurevych 2019, section 3).
at::Tensor softmax_logits(const Columns& columns, const at::Tensor& weight, const at::Tensor& bias);
at::Tensor softmax_loss(const at::Tensor& logits, const at::Tensor& classes);

// The first `dimensions` of every vector, at unit length (Matryoshka, Kusupati et al. 2022; the
// length as sentence-transformers' MatryoshkaLoss has it, at the full width too).
Columns first_dimensions(const Columns& columns, std::int64_t dimensions);

}  // namespace gpuhpc

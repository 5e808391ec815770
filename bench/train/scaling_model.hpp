#pragma once
// What a data parallel step should take: a model of the sum over ranks and of what hides behind the
// backward pass. Seconds, bytes, FLOPs.
#include <algorithm>
#include <string>

namespace gpuhpc {

struct Network {
  double base = 0, latency = 0,
         bandwidth = 0;  // seconds per sum, seconds per step of the ring, bytes/s each way
};

// Ring all-reduce of `bytes`: base + 2 (n - 1) latency + 2 (n - 1) / n x bytes / bandwidth.
inline double ring_seconds(const Network& network, int ranks, double bytes) {
  if (ranks == 1) return 0;
  const double n = ranks;
  return network.base + 2 * (n - 1) * network.latency + 2 * (n - 1) / n * bytes / network.bandwidth;
}

// Of the sum, the share `hidden` runs beside the backward pass of the last micro-batch (two thirds
// of its time), as long as that lasts.
inline double exposed_seconds(double sum, double micro_batch, double hidden) {
  return std::max((1 - hidden) * sum, sum - 2.0 / 3 * micro_batch);
}

struct EncoderShape {
  std::string name;
  double layers, hidden, feed_forward, parameters;
};

// A token of a document of `length`: 2 L (4 h^2 + 2 h f) + 4 L h s. Training takes three times
// that.
inline double forward_flops(const EncoderShape& e, double length) {
  return 2 * e.layers * (4 * e.hidden * e.hidden + 2 * e.hidden * e.feed_forward) +
         4 * e.layers * e.hidden * length;
}

struct Card {
  double flops, share, memory_bandwidth;  // peak FLOP/s, share of it that training reaches, bytes/s
};

struct Workload {
  EncoderShape encoder;
  double documents, length;  // of a micro-batch
  int accumulation;
};

struct Projected {
  double micro_batch = 0, update = 0, sum = 0, exposed = 0;
  double step = 0, efficiency = 0;
};

// AdamW reads weight, gradient and both moments and writes all but the gradient: 7 floats a
// parameter.
inline Projected project(const Workload& work, const Card& card, const Network& network, int ranks,
                         double bytes_a_gradient, double hidden) {
  Projected p;
  p.micro_batch = 3 * forward_flops(work.encoder, work.length) * work.documents * work.length /
                  (card.flops * card.share);
  p.update = 28 * work.encoder.parameters / card.memory_bandwidth;
  p.sum = ring_seconds(network, ranks, bytes_a_gradient * work.encoder.parameters);
  p.exposed = ranks == 1 ? 0 : exposed_seconds(p.sum, p.micro_batch, hidden);
  const double alone = work.accumulation * p.micro_batch + p.update;
  p.step = alone + p.exposed;
  p.efficiency = alone / p.step;
  return p;
}

}  // namespace gpuhpc

#include "gpuhpc/comm/collective.hpp"

#include <fmt/format.h>

namespace gpuhpc {
namespace {

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::none:
      return "nothing";
    case CollectiveKind::barrier:
      return "barrier";
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::broadcast:
      return "broadcast";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::all_gather_ragged:
      return "all_gather_ragged";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
  }
  return "?";
}

const char* name_of(DataType type) {
  switch (type) {
    case DataType::float32:
      return "float32";
    case DataType::float64:
      return "float64";
    case DataType::bfloat16:
      return "bfloat16";
    case DataType::float16:
      return "float16";
    case DataType::int32:
      return "int32";
    case DataType::int64:
      return "int64";
    case DataType::uint8:
      return "uint8";
  }
  return "?";
}

const char* name_of(Reduce reduce) {
  switch (reduce) {
    case Reduce::sum:
      return "sum";
    case Reduce::max:
      return "max";
    case Reduce::min:
      return "min";
    case Reduce::tree_sum:
      return "tree sum";
  }
  return "?";
}

std::string rank_on_host(std::size_t rank, std::span<const std::string> hosts) {
  return fmt::format("rank {} on {}", rank, hosts[rank]);
}

}  // namespace

std::string describe(const CollectiveCall& call) {
  if (call.kind == CollectiveKind::none) return "no collective";
  std::string details;
  if (call.kind != CollectiveKind::barrier)
    details = fmt::format("{} {}", call.count, name_of(call.type));
  if (call.kind == CollectiveKind::all_reduce || call.kind == CollectiveKind::reduce_scatter)
    details += fmt::format(", {}", name_of(call.reduce));
  if (call.kind == CollectiveKind::broadcast) details += fmt::format(" from rank {}", call.root);
  return fmt::format("{} number {}{}", name_of(call.kind), call.sequence,
                     details.empty() ? "" : " (" + details + ")");
}

std::optional<std::string> find_mismatch(std::span<const CollectiveCall> calls,
                                         std::span<const std::string> hosts) {
  for (std::size_t rank = 1; rank < calls.size(); ++rank)
    if (calls[rank] != calls[0])
      return fmt::format("the ranks went different ways: {} calls {} but {} calls {}",
                         rank_on_host(0, hosts), describe(calls[0]), rank_on_host(rank, hosts),
                         describe(calls[rank]));
  return std::nullopt;
}

std::string name_missing(const CollectiveCall& mine, double seconds, int rank,
                         std::span<const std::optional<CollectiveCall>> entered,
                         std::span<const std::string> hosts) {
  std::string missing;
  int named = 0;
  for (std::size_t peer = 0; peer < entered.size(); ++peer) {
    if (static_cast<int>(peer) == rank ||
        (entered[peer] && entered[peer]->sequence >= mine.sequence))
      continue;
    if (++named > 4) continue;
    missing += missing.empty() ? "" : ", and ";
    missing += rank_on_host(peer, hosts);
    missing += entered[peer] ? fmt::format(", which is alive but has not entered it (its last: {})",
                                           describe(*entered[peer]))
                             : ", which does not answer (dead, frozen or cut off)";
  }
  if (missing.empty()) return "";
  if (named > 4) missing += fmt::format(", and {} more", named - 4);
  return fmt::format("rank {} on {} waited {:.0f} s in {} for {}", rank,
                     hosts[static_cast<std::size_t>(rank)], seconds, describe(mine), missing);
}

}  // namespace gpuhpc

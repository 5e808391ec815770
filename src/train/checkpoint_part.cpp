#include "checkpoint_part.hpp"

#include <ATen/ops/from_blob.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "gpuhpc/base/error.hpp"

namespace gpuhpc {
namespace {

constexpr std::string_view magic = "GPUHPCC2";
constexpr std::size_t part_alignment = 64;

std::int64_t total(const std::vector<Range>& ranges) {
  return std::accumulate(ranges.begin(), ranges.end(), std::int64_t{0},
                         [](std::int64_t sum, const Range& r) { return sum + r.size(); });
}

Range overlap(const Range& a, const Range& b) {
  return {std::max(a.first, b.first), std::min(a.last, b.last)};
}

bool owns_everything(const CheckpointBuffers& buffers) {
  return buffers.owned.size() == 1 && buffers.owned[0].first == 0 &&
         buffers.owned[0].last == buffers.arena.capacity();
}

at::Tensor host_view(float* data, std::int64_t count) {
  return at::from_blob(data, {count}, at::TensorOptions().dtype(at::kFloat));
}

// Copies `source` over the arena's floats `from` .. on to `to`, whatever devices they are on.
void copy_floats(const at::Tensor& source, std::int64_t from, float* to, std::int64_t count) {
  host_view(to, count).copy_(source.narrow(0, from, count));
}

std::string header_text(const std::vector<Range>& ranges, std::int64_t step) {
  Json list = Json::array();
  for (const Range& range : ranges) list.push_back({range.first, range.last});
  std::string text = Json{{"step", step}, {"ranges", list}}.dump();
  text.resize((2 * sizeof(std::uint64_t) + text.size() + part_alignment - 1) / part_alignment *
                      part_alignment -
                  2 * sizeof(std::uint64_t),
              ' ');
  return text;
}

}  // namespace

void fill_part(std::vector<std::byte>& image, const CheckpointBuffers& buffers, std::int64_t step,
               int rank, int size) {
  const c10::NoGradGuard no_grad;
  const std::vector<Range> ranges = owns_everything(buffers)
                                        ? std::vector<Range>{buffers.arena.slice(rank, size)}
                                        : buffers.owned;
  const std::int64_t floats = total(ranges);
  const std::string header = header_text(ranges, step);
  const std::uint64_t header_bytes = header.size();
  const std::size_t data = 2 * sizeof(std::uint64_t) + header.size();
  image.resize(data + 3 * static_cast<std::size_t>(floats) * sizeof(float));
  std::memcpy(image.data(), magic.data(), magic.size());
  std::memcpy(image.data() + magic.size(), &header_bytes, sizeof header_bytes);
  std::memcpy(image.data() + 2 * sizeof(std::uint64_t), header.data(), header.size());
  float* place = reinterpret_cast<float*>(image.data() + data);
  std::int64_t done = 0, moments = 0;
  std::size_t next = 0;  // of owned: ranges lie inside owned ones, in the same order
  for (const Range& range : ranges) {
    if (range.size() == 0) continue;
    while (buffers.owned.at(next).last < range.last) moments += buffers.owned[next++].size();
    const std::int64_t moment = moments + range.first - buffers.owned[next].first;
    copy_floats(buffers.arena.parameters(), range.first, place + done, range.size());
    copy_floats(buffers.first_moment, moment, place + floats + done, range.size());
    copy_floats(buffers.second_moment, moment, place + 2 * floats + done, range.size());
    done += range.size();
  }
}

PartView view_part(std::span<const std::byte> image, const std::string& name) {
  const auto broken = [&] {
    return input_error("{}: not a part of a checkpoint of this version", name);
  };
  std::uint64_t header_bytes = 0;
  if (image.size() < 2 * sizeof(std::uint64_t) ||
      std::memcmp(image.data(), magic.data(), magic.size()) != 0)
    throw broken();
  std::memcpy(&header_bytes, image.data() + magic.size(), sizeof header_bytes);
  if (header_bytes > image.size() - 2 * sizeof(std::uint64_t)) throw broken();
  const std::size_t data = 2 * sizeof(std::uint64_t) + header_bytes;
  PartView part;
  try {
    const Json header = Json::parse(std::string_view(
        reinterpret_cast<const char*>(image.data()) + 2 * sizeof(std::uint64_t), header_bytes));
    for (const Json& range : header.at("ranges")) part.ranges.push_back({range.at(0), range.at(1)});
  } catch (const Json::exception&) {
    throw broken();
  }
  const auto floats = static_cast<std::size_t>(total(part.ranges));
  if (data % part_alignment != 0 || image.size() != data + 3 * floats * sizeof(float))
    throw broken();
  const float* place = reinterpret_cast<const float*>(image.data() + data);
  part.parameters = {place, floats};
  part.first_moment = {place + floats, floats};
  part.second_moment = {place + 2 * floats, floats};
  return part;
}

std::int64_t restore_part(const PartView& part, const std::vector<Range>& old_entries,
                          const CheckpointBuffers& buffers) {
  const c10::NoGradGuard no_grad;
  const auto& entries = buffers.arena.entries();
  const auto put = [](const at::Tensor& target, std::int64_t to, std::span<const float> source,
                      std::int64_t from, std::int64_t count) {
    target.narrow(0, to, count).copy_(host_view(const_cast<float*>(source.data()) + from, count));
  };
  std::int64_t found = 0, before = 0;  // floats of the part's earlier ranges
  for (const Range& range : part.ranges) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Range old = overlap(range, old_entries[i]);
      if (old.size() <= 0) continue;
      const std::int64_t shift = entries[i].range.first - old_entries[i].first,
                         from = before + old.first - range.first;
      put(buffers.arena.parameters(), old.first + shift, part.parameters, from, old.size());
      found += old.size();
      std::int64_t moments = 0;
      for (const Range& owned : buffers.owned) {
        const Range mine = overlap(owned, {old.first + shift, old.last + shift});
        if (mine.size() > 0) {
          const std::int64_t to = moments + mine.first - owned.first,
                             at = from + mine.first - shift - old.first;
          put(buffers.first_moment, to, part.first_moment, at, mine.size());
          put(buffers.second_moment, to, part.second_moment, at, mine.size());
        }
        moments += owned.size();
      }
    }
    before += range.size();
  }
  return found;
}

}  // namespace gpuhpc

#include "fuzz/worker/plans_differ.h"

#include <cstddef>
#include <cstring>
#include <utility>

namespace attnfuzz::worker {
namespace {

// Uses loops instead of strnlen() and memcmp(). A sanitizer's versions of these functions would
// check copies on a stack that an instrumented kernel has used before, and this code is not
// instrumented, so they could report a false error.
std::string path_of(const attn_plan& plan) {
  std::string path;
  for (size_t n = 0; n < sizeof plan.path && plan.path[n] != 0; ++n) path.push_back(plan.path[n]);
  return path;
}

bool same(const std::string& a, const std::string& b) {
  bool equal = a.size() == b.size();
  for (size_t n = 0; equal && n < a.size(); ++n) equal = a[n] == b[n];
  return equal;
}

// Clears the bytes that must not count: those behind a path's NUL.
attn_plan cleared(attn_plan plan) {
  const std::string path = path_of(plan);
  std::memset(plan.path, 0, sizeof plan.path);
  std::memcpy(plan.path, path.data(), path.size());
  return plan;
}

}  // namespace

std::string plans_differ(const PlanAnswer& first, const PlanAnswer& second) {
  const std::string twice = "asked the same twice, plan() ";
  const bool took = first.status == ATTN_OK, takes = second.status == ATTN_OK;
  if (took && !takes) return twice + "took the problem and then refused it";
  if (!took && takes) return twice + "refused the problem and then took it";
  if (first.status != second.status)
    return twice + "answered status " + std::to_string(first.status) + " and then " +
           std::to_string(second.status);
  if (!took) return "";
  const attn_plan a = cleared(first.plan), b = cleared(second.plan);
  if (!same(path_of(a), path_of(b)))
    return twice + "answered path '" + path_of(a) + "' and then '" + path_of(b) + "'";
  constexpr std::pair<const char*, int64_t attn_plan::*> kSizes[] = {
      {"tile_q", &attn_plan::tile_q},         {"tile_k", &attn_plan::tile_k},
      {"num_splits", &attn_plan::num_splits}, {"split_tiles", &attn_plan::split_tiles},
      {"rescales", &attn_plan::rescales},     {"merges", &attn_plan::merges}};
  for (const auto& [name, field] : kSizes) {
    if (a.*field != b.*field)
      return twice + "answered " + name + " " + std::to_string(a.*field) + " and then " +
             std::to_string(b.*field);
  }
  const auto *x = reinterpret_cast<const unsigned char*>(&a), *y = reinterpret_cast<const unsigned char*>(&b);
  for (size_t at = 0; at < sizeof(attn_plan); ++at) {
    if (x[at] != y[at]) return twice + "answered two plans, which differ in byte " + std::to_string(at);
  }
  return "";
}

}  // namespace attnfuzz::worker

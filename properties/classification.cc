#include <algorithm>
#include <cstdio>

#include "properties/generator.h"
#include "properties/geometry.h"
#include "properties/recipe.h"

namespace attnfuzz {
namespace {

constexpr char kThreeTiles[] = "kv tiles >= 3", kGqa[] = "gqa", kDeadRows[] = "dead rows";

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Rows looked at, at most: some, spread evenly, tell enough of a large case.
constexpr int64_t kRowsAsked = 512;

bool has_dead_row(const Case& c) {
  const Problem& p = c.problem;
  const int64_t rows = p.batch * p.heads_q * p.seq_q;
  const int64_t step = std::max<int64_t>(rows / kRowsAsked, 1);
  for (int64_t row = 0; row < rows; row += step) {
    const int64_t i = row % p.seq_q, h = row / p.seq_q % p.heads_q, b = row / p.seq_q / p.heads_q;
    bool dead = true;
    for (int64_t j = 0; dead && j < p.seq_k; ++j) dead = !sees(c, b, h, i, j);
    if (dead) return true;
  }
  return false;
}

// Whether an element lies further than 2^31 elements from the first.
bool is_far(const Case& c) {
  for (int n = 0; n < kTensorCount; ++n) {
    const auto t = static_cast<TensorId>(n);
    if (c.layout[static_cast<size_t>(n)].spread == 0 || t == TensorId::kWorkspace || !is_present(c, t))
      continue;
    const auto g = geometry(c, t);
    if (g && g->span_bytes / g->element_bytes > int64_t{1} << 31) return true;
  }
  return false;
}

bool is_at_page_end(const TensorLayout& layout) { return layout.placement == Placement::kPageEnd; }

}  // namespace

std::vector<std::string> features(const Case& c, int64_t tile_q, int64_t tile_k) {
  const Problem& p = c.problem;
  std::vector<std::string> names;
  const auto when = [&](bool condition, const char* name) {
    if (condition) names.emplace_back(name);
  };
  when(ceil_div(p.seq_k, tile_k) >= 3, kThreeTiles);
  when(ceil_div(p.seq_q, tile_q) >= 2, "query tiles >= 2");
  when(p.seq_k % tile_k != 0, "kv tail");
  when(p.seq_k > 0 && p.seq_k % tile_k == 0, "kv exact tiles");
  when(p.batch == 0 || p.seq_q == 0 || p.seq_k == 0, "zero length");
  when(p.seq_q != p.seq_k, "sq != sk");
  when(p.heads_q != p.heads_kv, kGqa);
  when(p.dim_qk != p.dim_v, "dv != dk");
  when(p.dim_qk % 8 != 0 || p.dim_v % 8 != 0, "d % 8 != 0");
  when(p.dtype == ATTN_BF16, "bf16");
  when(p.causal, "causal");
  when(p.causal && p.align == ATTN_BOTTOM_RIGHT, "causal bottom-right");
  when(p.window_left >= 0 || p.window_right >= 0, "window");
  when(p.softcap > 0, "softcap");
  when(p.scale <= 0, "scale <= 0");
  when(p.key_lengths.has_value(), "key lengths");
  when(p.bias.has_value(), "bias");
  when(p.bias && p.bias->finite.kind != PatternKind::kAll, "bias with -inf");
  when(p.mask.has_value(), "mask");
  when(has_dead_row(c), kDeadRows);
  when(c.q.kind == FillKind::kZero || p.scale == 0, "equal scores");
  when(std::max(p.seq_q, p.seq_k) >= 32768, "length >= 2^15");
  when(p.batch > 65535 || p.heads_q > 65535, "grid > 65535");
  when(p.num_splits > 1, "splits");
  when(p.num_splits > ceil_div(p.seq_k, tile_k), "splits > tiles");
  when(!c.planted.empty(), "planted NaN or Inf");
  when(c.nan_beyond_lengths, "NaN beyond lengths");
  when(std::ranges::any_of(c.layout, [](const TensorLayout& l) { return l != TensorLayout{}; }), "layout");
  when(std::ranges::any_of(c.layout, is_at_page_end), "page end");
  when(is_far(c), "offsets > 2^31");
  when(c.calls.size() > 1, "repeated calls");
  when(std::ranges::any_of(c.calls, [](const Call& call) { return call.dirty_workspace; }), "dirty workspace");
  when(c.env.schedule_seed != 0, "random schedule");
  when(c.env.variant != 1, "other variant");
  return names;
}

void Classification::add(const Case& c, int64_t tile_q, int64_t tile_k) {
  ++cases;
  for (const std::string& name : features(c, tile_q, tile_k)) ++counts[name];
}

void Classification::merge(const Classification& other) {
  cases += other.cases;
  rejected += other.rejected;
  uninformative += other.uninformative;
  for (const auto& [name, n] : other.counts) counts[name] += n;
}

std::vector<std::string> Classification::broken_floors() const {
  std::vector<std::string> broken;
  if (cases < 500) return broken;
  char text[128];
  const auto share = [&](uint64_t n) { return 100.0 * static_cast<double>(n) / static_cast<double>(cases); };
  const auto at_least = [&](const char* name, double floor) {
    const auto it = counts.find(name);
    const double percent = share(it == counts.end() ? 0 : it->second);
    if (percent >= floor) return;
    std::snprintf(text, sizeof text, "%s: %.1f %%, at least %.0f %% are due", name, percent, floor);
    broken.emplace_back(text);
  };
  const auto at_most = [&](const char* name, uint64_t n, double ceiling) {
    if (share(n) <= ceiling) return;
    std::snprintf(text, sizeof text, "%s: %.1f %%, at most %.0f %% are allowed", name, share(n), ceiling);
    broken.emplace_back(text);
  };
  at_least(kThreeTiles, 25);
  at_least(kGqa, 10);
  at_least(kDeadRows, 15);
  at_most("rejected", rejected, 5);
  at_most("uninformative", uninformative, 5);
  return broken;
}

std::string Classification::table() const {
  std::string text = "  drawn:";
  size_t column = text.size();
  const auto put = [&](const std::string& name, uint64_t n) {
    char item[96];
    std::snprintf(item, sizeof item, " %s %.1f %%;", name.c_str(),
                  cases == 0 ? 0.0 : 100.0 * static_cast<double>(n) / static_cast<double>(cases));
    if (column + std::char_traits<char>::length(item) > 108) {
      text += "\n        ";
      column = 9;
    }
    text += item;
    column += std::char_traits<char>::length(item);
  };
  for (const auto& [name, n] : counts) put(name, n);
  put("rejected", rejected);
  put("uninformative", uninformative);
  text.back() = '\n';
  return text;
}

}  // namespace attnfuzz

#include "properties/explain/explain.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

#include "base/printable.h"
#include "properties/case/features/feature.h"
#include "properties/case/places/geometry.h"
#include "properties/case/words.h"
#include "properties/data/tiles.h"
#include "properties/explain/cells.h"
#include "properties/explain/picture.h"
#include "properties/judge/judge.h"
#include "properties/reduce/reproducer.h"
#include "reference/call/row_space.h"

namespace attnfuzz {
namespace {

constexpr int kMargin = 10;  // characters left of a picture, and one spare

// True if queries see keys: they attend over them, or choose their blocks.
bool sees_keys(const Problem& p) { return attends(p.features) || p.chooses(); }

enum class Paint { kPlain, kBold, kDim, kRed, kGreen, kYellow };

class Page {
 public:
  Page(const Case& c, const attn_plan& plan, const ExplainOptions& options)
      : c_(c),
        p_(c.problem),
        options_(options),
        tile_q_(plan.tile_q > 0 ? plan.tile_q : 64),
        tile_k_(plan.tile_k > 0 ? plan.tile_k : 64) {}

  std::string take() { return std::move(text_); }

  void facts(const Reproducer& r) {
    heading("What was found");
    line(printable(r.message));
    const std::pair<const char*, std::string> facts[] = {
        {"kind", r.kind},         {"shape", r.shape},
        {"property", r.property}, {"kernel", r.kernel + (r.backend == ATTN_CUDA ? " (cuda)" : " (cpu)")},
        {"device", r.device},     {"build", r.build_hash},
        {"compiler", r.compiler}, {"flags", r.flags}};
    for (const auto& [name, what] : facts) fact(name, printable(what));
    for (const std::string& need : lines_of(r.needs)) line("- " + printable(need));
    if (!r.indifferent.empty()) line("- does not matter: " + printable(join(r.indifferent, ", ")));
  }

  void words(const attn_plan& plan) {
    heading("The case");
    line(sizes_line(p_));
    fact("batch", p_.batch == 1 ? "one entry" : cat(p_.batch, " entries"));
    fact("heads", p_.heads_q == p_.heads_kv
                      ? cat(p_.heads_q, p_.heads_q == 1 ? " head" : " heads, each with keys of its own")
                      : cat(p_.heads_q, " query heads share ", p_.heads_kv,
                            p_.heads_kv == 1 ? " KV head" : " KV heads"));
    fact("lengths", lengths());
    const auto masks = mask_words(p_);
    fact("masks", !masks.empty() ? join(masks, "; ") : sees_keys(p_) ? "none" : "");
    if (p_.causal || p_.window_left >= 0 || p_.window_right >= 0 || p_.slopes) fact("diagonal", diagonal());
    if (has_key_blocks(p_)) fact("positions", key_positions());
    if (attends(p_.features))
      fact("scale", number(p_.scale) + (p_.softcap != 0 ? ", softcap " + number(p_.softcap) : ""));
    for (const std::string& words : all_words(c_)) {
      if (p_.kv8 && words.starts_with("K, V in ")) fact("K and V", words.substr(8));
      for (const std::string name : {"sinks", "slopes"})
        if (words.starts_with(name + " ")) fact(name.c_str(), words.substr(name.size() + 1));
    }
    if (p_.latent) fact("V", "the first " + std::to_string(p_.dim_v) + " columns of K, in K's memory");
    if ((p_.features & ATTN_FEATURE_IN_PLACE) != 0)
      fact("in place", cat("O", c_.want_lse ? " and LSE take" : " takes", " the place of the first side"));
    fact("data", join(data_words(c_), "; "));
    const auto around = surroundings_words(c_);
    if (!around.empty()) fact("beside", join(around, "; "));
    fact("calls", calls_words(c_));
    const std::string path(plan.path, strnlen(plan.path, sizeof plan.path));
    fact("tiles",
         cat(tile_q_, " queries x ", tile_k_, " keys: ", tiles(p_.seq_q, tile_q_), " x ",
             tiles(p_.seq_k, tile_k_), path.empty() ? "" : ", path \"" + printable(path) + "\"",
             plan.num_splits > 1 ? cat(", ", plan.num_splits, " splits of ", plan.split_tiles, " tiles") : ""));
  }

  // Finds the dead rows over all heads; in very large cases, over some rows.
  void dead_rows() {
    const int64_t rows = RowSpace(p_).count();
    if (rows == 0 || p_.seq_k == 0) {
      fact("dead rows", rows == 0 ? "none: there is no query" : cat("all ", rows, ": there is no key"));
      return;
    }
    const int64_t most = std::max<int64_t>((int64_t{1} << 23) / p_.seq_k / (p_.batch * p_.heads_q), 1);
    const auto queries = samples(0, p_.seq_q, most);
    std::vector<std::pair<std::vector<int64_t>, std::vector<std::string>>>
        heads_of;  // the rows are dead in these heads
    for (int64_t b = 0; b < p_.batch; ++b) {
      for (int64_t h = 0; h < p_.heads_q; ++h) {
        const VisibilityCache visible(c_, b, h);
        std::vector<int64_t> dead;
        for (const int64_t i : queries) {
          if (i >= lengths_of(p_, b).queries) continue;  // packed entries may be shorter
          bool any = false;
          for (int64_t j = 0; j < p_.seq_k && !any; ++j) any = visible(i, j);
          if (!any) dead.push_back(i);
        }
        auto it = std::ranges::find(heads_of, dead, [](const auto& entry) { return entry.first; });
        if (it == heads_of.end()) it = heads_of.insert(it, {dead, {}});
        it->second.push_back(cat("(", b, ",", h, ")"));
      }
    }
    const char* of = static_cast<int64_t>(queries.size()) < p_.seq_q ? " of those looked at" : "";
    std::vector<std::string> parts;
    for (const auto& [dead, heads] : heads_of) {
      const std::string which = dead.empty() ? "none" : cat(dead.size(), of, ": ", ranges(dead));
      const bool everywhere = heads_of.size() == 1;
      std::vector<std::string> shown(
          heads.begin(), heads.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(heads.size(), 4)));
      if (shown.size() < heads.size()) shown.push_back("...");
      parts.push_back(everywhere ? which : which + " in " + join(shown, " "));
    }
    fact("dead rows", join(parts, "; "));
  }

  // The pictures of masks show the first head that fails.
  void choose_head(const std::vector<Compared>& outputs) {
    if (outputs.empty()) return;
    const Compared& output = first_wrong(outputs);
    const Head head = first_failing_head(p_, output);
    b_ = head.b;
    h_ = std::min(query_head(p_, output, head.h), std::max<int64_t>(p_.heads_q - 1, 0));
  }

  void mask() {
    if (p_.seq_q == 0 || p_.seq_k == 0) return;
    const VisibilityCache visible(c_, b_, h_);
    heading(cat("Visible keys", head_words(), ": queries down, keys across"));
    const Ruler rows = make_ruler(p_.seq_q, tile_q_, height()),
                columns = make_ruler(p_.seq_k, tile_k_, across());
    const auto glyph = [&](const Cell& cell) {
      const double seen = visible_share(visible, cell);
      return seen == 1   ? block(3, Paint::kGreen)
             : seen == 0 ? block(0, Paint::kDim)
                         : block(seen < 0.5 ? 1 : 2, Paint::kYellow);
    };
    text_ += draw(rows, columns, glyph, options_.ascii);
    line(cat(block(3, Paint::kGreen), " all visible  ", block(2, Paint::kYellow), block(1, Paint::kYellow),
             " some  ", block(0, Paint::kDim), " none", cell_words(rows, columns)));
  }

  void tile_states() {
    if (p_.seq_q == 0 || p_.seq_k == 0) return;
    const VisibilityCache visible(c_, b_, h_);
    const TileMap map = tile_map(c_, visible, tile_q_, tile_k_);
    heading(cat("Tiles", head_words(), ": query tiles down, KV tiles across", map.sampled ? " (sampled)" : ""));
    const Ruler rows = make_ruler(map.rows, 1, 2 * std::min<int64_t>(map.rows, height()) - 1),
                columns = make_ruler(map.columns, 1, across());
    // A cell of several tiles shows the state that most needs attention.
    const auto glyph = [&](const Cell& cell) {
      int worst = 0;
      constexpr int order[] = {1, 2, 4, 3, 0};  // of TileState
      TileState state = TileState::kSkipped;
      for (int64_t r = cell.row_begin; r < cell.row_end; ++r) {
        for (int64_t t = cell.column_begin; t < cell.column_end; ++t) {
          const int rank = order[static_cast<size_t>(map.at(r, t))];
          if (rank > worst) state = map.at(r, t);
          worst = std::max(worst, rank);
        }
      }
      return sign(state);
    };
    text_ += draw(unbordered(rows), unbordered(columns), glyph, options_.ascii);
    line(sign(TileState::kFull) + " live  " + sign(TileState::kPartly) + " partly masked  " +
         sign(TileState::kRowDead) + " partly masked, some query sees nothing of it  " +
         sign(TileState::kDead) + " dead through mask or bias  " + sign(TileState::kSkipped) +
         " skipped by position");
    for (int64_t r = 0, shown = 0; r < map.rows; ++r) {
      std::vector<int64_t> dead, row_dead;
      for (int64_t t = 0; t < map.columns; ++t) {
        if (map.at(r, t) == TileState::kDead || map.at(r, t) == TileState::kSkipped) dead.push_back(t);
        if (map.at(r, t) == TileState::kRowDead) row_dead.push_back(t);
      }
      if (dead.empty() && row_dead.empty()) continue;
      if (shown++ == 8) {
        line("...");
        break;
      }
      std::vector<std::string> parts;
      if (!dead.empty()) parts.push_back("fully masked KV tiles " + ranges(dead));
      if (!row_dead.empty()) parts.push_back("fully masked for some queries " + ranges(row_dead));
      line(cat("query tile ", r, ": ", join(parts, "; ")));
    }
  }

  // Shows the errors of the main output, and of each other output that is wrong.
  void errors(const Reference& reference, const std::vector<Compared>& outputs) {
    for (const Compared& output : outputs)
      if (&output == &outputs.front() || output.wrong()) errors(reference, output);
  }

 private:
  struct Errors {
    std::vector<uint8_t> bad;  // for each element: it is outside its bound
    int64_t count = 0, judged = 0, worst = -1;
    double most = -1;                                        // error/bound of the worst element
    std::map<std::pair<int64_t, int64_t>, int64_t> of_head;  // number of bad elements by (b, h)
  };

  void errors(const Reference& reference, const Compared& output) {
    const TensorSpec& spec = spec_of(output.due.tensor);
    const Errors errors = count_errors(output);
    Head head = {b_, h_};
    if (errors.count > 0 || !of_queries(spec)) head = first_failing_head(p_, output);
    heading(cat("Error of ", title_of(output.due.tensor), head_words(output, head), ": ", down_words(spec),
                " down, ", across_words(spec), " across"));
    line(cat(errors.count, " of ", errors.judged, " elements are outside their bound",
             errors.count > 0 ? ":" : ""));
    attn_plan tiles = {};
    tiles.tile_q = tile_q_, tiles.tile_k = tile_k_;
    const std::string shape =
        text_of(shape_of(reference, output.due, p_, tiles, output.got, nullptr, errors.bad));
    if (!shape.empty()) fact("shape", shape);
    worst_element(output, errors);
    errors_of_heads(output, errors);
    picture_of_errors(output, head);
  }

  Errors count_errors(const Compared& output) const {
    const RowSpace rows = rows_of(p_, output);
    const int64_t n = output.due.columns;
    Errors errors;
    errors.bad.resize(output.got.size());
    for (int64_t e = 0; e < static_cast<int64_t>(output.got.size()); ++e) {
      if (!output.judged(e / n, e % n)) continue;
      ++errors.judged;
      const double ratio = output.ratio(e / n, e % n);
      if (ratio > errors.most) errors.most = ratio, errors.worst = e;
      if (ratio <= 1) continue;
      errors.bad[static_cast<size_t>(e)] = 1;
      ++errors.count;
      const Row at = rows.at(e / n);
      ++errors.of_head[{at.b, at.h}];
    }
    return errors;
  }

  void worst_element(const Compared& output, const Errors& errors) {
    if (errors.worst < 0) return;
    const int64_t n = output.due.columns;
    const Row at = rows_of(p_, output).at(errors.worst / n);
    const auto w = static_cast<size_t>(errors.worst);
    fact("worst", cat("(", at.b, ",", at.h, ",", at.i, ",", errors.worst % n, "): got ", number(output.got[w]),
                      ", expected ", digits(output.due.value[w]), " +- ", digits(output.due.bound[w]),
                      ", error/bound ", digits(errors.most)));
  }

  void errors_of_heads(const Compared& output, const Errors& errors) {
    if (errors.of_head.size() <= 1 && p_.batch * p_.heads_q <= 1) return;
    std::vector<std::string> parts;
    for (const auto& [where, how_many] : errors.of_head) {
      if (parts.size() == 12) {
        parts.push_back("...");
        break;
      }
      parts.push_back(cat("(", where.first, ",", where.second, ") ", how_many));
    }
    if (!parts.empty()) fact(of_kv_heads(output) ? "by (b,g)" : "by (b,h)", join(parts, ", "));
  }

  void picture_of_errors(const Compared& output, Head head) {
    const int64_t n = output.due.columns;
    const auto size = logical_size(p_, output.due.tensor);
    const int64_t first = rows_of(p_, output).of(head.b, head.h, 0);
    const Ruler rows = make_ruler(size[2], tile_of(spec_of(output.due.tensor)), height()),
                columns = make_ruler(n, n, across());
    const auto glyph = [&](const Cell& cell) {
      const double ratio = worst_ratio(output, first, cell);
      if (ratio < 0) return std::string(" ");
      if (ratio <= 1) return paint(ratio <= 0.1 ? "." : ":", Paint::kDim);
      if (std::isinf(ratio)) return paint("!", Paint::kRed);
      const int decade = std::clamp(static_cast<int>(std::ceil(std::log10(ratio))), 1, 9);
      return paint(std::to_string(decade), Paint::kRed);
    };
    text_ += draw(rows, columns, glyph, options_.ascii);
    line(cat("largest error/bound of a cell: . <= 0.1   : <= 1   n <= 10^n   ! not a number, or none due",
             cell_words(rows, columns)));
  }

  int64_t tile_of(const TensorSpec& spec) const { return of_keys(spec) ? tile_k_ : tile_q_; }
  const char* down_words(const TensorSpec& spec) const {
    return of_keys(spec) ? "keys" : of_queries(spec) && sees_keys(p_) ? "queries" : "rows";
  }
  static const char* across_words(const TensorSpec& spec) {
    switch (spec.shape[3]) {
      case Size::kDimQk:
        return "columns of dim_qk";
      case Size::kDimV:
        return "columns of dim_v";
      case Size::kSeqK:
        return "keys";
      case Size::kBlocks:
        return "blocks of keys";
      default:
        return "columns";
    }
  }
  std::string head_words(const Compared& output, Head head) const {
    const auto size = logical_size(p_, output.due.tensor);
    if (size[0] * size[1] <= 1) return "";
    return cat(" of batch entry ", head.b, of_kv_heads(output) ? ", KV head " : ", head ", head.h);
  }
  static int64_t tiles(int64_t size, int64_t tile) { return (size + tile - 1) / tile; }
  int64_t across() const { return std::max(options_.width - kMargin, 8); }
  int64_t height() const { return std::max<int64_t>(across() / 3, 8); }

  // Omits borders, because every cell is one tile.
  static Ruler unbordered(Ruler ruler) {
    std::fill(ruler.border.begin(), ruler.border.end(), false);
    return ruler;
  }

  std::string paint(const std::string& what, Paint paint) const {
    if (!options_.color || paint == Paint::kPlain) return what;
    constexpr const char* codes[] = {"0", "1", "2", "31", "32", "33"};
    return cat("\x1b[", codes[static_cast<size_t>(paint)], "m", what, "\x1b[0m");
  }
  std::string block(size_t shade, Paint colour) const {
    constexpr const char* blocks[] = {"\u00b7", "\u2591", "\u2593", "\u2588"};
    constexpr const char* letters[] = {".", "-", "+", "#"};
    return paint(options_.ascii ? letters[shade] : blocks[shade], colour);
  }
  std::string sign(TileState state) const {
    switch (state) {
      case TileState::kFull:
        return block(3, Paint::kGreen);
      case TileState::kPartly:
        return block(2, Paint::kYellow);
      case TileState::kRowDead:
        return paint("!", Paint::kYellow);
      case TileState::kDead:
        return paint("x", Paint::kRed);
      case TileState::kSkipped:
        return block(0, Paint::kDim);
    }
    return " ";
  }
  static std::string digits(double x) {
    if (std::isnan(x)) return "nan";  // with either sign
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", x);
    return text;
  }
  std::string head_words() const {
    return p_.batch * p_.heads_q > 1 ? cat(" of batch entry ", b_, ", head ", h_) : std::string();
  }
  static std::string cell_words(const Ruler& rows, const Ruler& columns) {
    const auto largest = [](const Ruler& r) {
      int64_t most = 1;
      for (size_t i = 0; i + 1 < r.starts.size(); ++i) most = std::max(most, r.starts[i + 1] - r.starts[i]);
      return most;
    };
    const int64_t down = largest(rows), across = largest(columns);
    return down * across == 1 ? std::string() : cat("; a cell is ", down, " x ", across);
  }
  std::string lengths() const {
    const auto counted = [](int64_t n, const std::string& what, const char* more) {
      return cat(n, " ", what, n == 1 ? "" : more);
    };
    const std::string keys = ", " + counted(p_.seq_k, "key", "s");
    if (sees_keys(p_)) return (p_.seq_q == 1 ? "1 query" : cat(p_.seq_q, " queries")) + keys;
    if (p_.compresses()) return counted(p_.seq_q, "row", "s") + " of a block each" + keys;
    return counted(p_.seq_q, "row", "s") + (p_.seq_k > 0 ? keys : "");
  }
  std::string key_positions() const {
    const int64_t first = p_.key_offset;
    return cat("key j stands for position ", p_.key_step == 1 ? "j" : cat("j * ", p_.key_step),
               first == 0 ? "" : cat(" + ", first), ", the last of its block");
  }
  std::string diagonal() const {
    const std::string at = has_key_blocks(p_) ? "position" : "key";
    if (p_.align == ATTN_TOP_LEFT) return cat("query i stands at ", at, " i");
    if (p_.packed_q || p_.packed_k)
      return cat("query i stands at ", at, " i + ", at, "s - queries, those of its own packed entry");
    if (!p_.key_lengths) {
      const int64_t shift = most_positions(p_, p_.seq_k) - p_.seq_q;
      const std::string i = cat("query i stands at ", at, " i");
      return shift == 0  ? i
             : shift > 0 ? cat(i, " + ", shift)
                         : cat(i, " - ", -shift, ": the first ", -shift, " see nothing if causal");
    }
    return cat("query i stands at ", at, " i + key_lengths[b] - ", p_.seq_q);
  }

  void heading(const std::string& what) {
    if (!text_.empty()) text_ += "\n";
    text_ += paint(what, Paint::kBold) + "\n";
  }
  void line(const std::string& what) { text_ += "  " + what + "\n"; }
  void fact(const std::string& name, const std::string& what) {
    if (what.empty()) return;
    std::string label = name;
    label.resize(std::max<size_t>(label.size() + 1, 11), ' ');
    line(label + what);
  }

  const Case& c_;
  const Problem& p_;
  const ExplainOptions options_;
  const int64_t tile_q_, tile_k_;
  int64_t b_ = 0, h_ = 0;  // the head whose pictures are drawn
  std::string text_;
};

}  // namespace

std::string explain(const Case& c, const attn_plan& plan, const Reference* reference, const Outputs* got,
                    ExplainOptions options) {
  Page page(c, plan, options);
  if (options.reproducer != nullptr) page.facts(*options.reproducer);
  page.words(plan);
  if (writes_cache(c.problem.features)) return page.take();  // nothing is computed
  if (sees_keys(c.problem)) page.dead_rows();
  std::vector<Compared> outputs;
  if (reference != nullptr && got != nullptr) outputs = compared(*reference, *got);
  page.choose_head(outputs);
  if (sees_keys(c.problem)) {
    page.mask();
    page.tile_states();
  }
  if (!outputs.empty()) page.errors(*reference, outputs);
  return page.take();
}

}  // namespace attnfuzz

#include "properties/fault_class.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "properties/tiles.h"
#include "properties/words.h"

namespace attnfuzz {
namespace {

constexpr int64_t kMostPairs = int64_t{1} << 20;  // for a look at tiles
constexpr double kNearly = 0.6;                   // of the winner's points

// One vote a reason; the strongest reason speaks for its class.
class Ballot {
 public:
  void vote(FaultClass fault, double points, std::string why) {
    Candidate& c = candidates_[static_cast<size_t>(fault)];
    if (points > c.strongest) {
      c.strongest = points;
      c.why = std::move(why);
    }
    c.points += points;
  }

  FaultGuess count() const {
    FaultGuess guess;
    double most = 0;
    for (size_t i = 1; i < candidates_.size(); ++i) most = std::max(most, candidates_[i].points);
    if (most < 1.5) {
      guess.why = "nothing in the failure points to one class more than to another";
      return guess;
    }
    for (size_t i = 1; i < candidates_.size(); ++i) {
      if (candidates_[i].points != most || guess.likely != FaultClass::kUnknown) continue;
      guess.likely = static_cast<FaultClass>(i);
      guess.why = candidates_[i].why;
    }
    for (size_t i = 1; i < candidates_.size(); ++i) {
      const auto fault = static_cast<FaultClass>(i);
      if (fault != guess.likely && candidates_[i].points >= kNearly * most) guess.also.push_back(fault);
    }
    return guess;
  }

 private:
  struct Candidate {
    double points = 0, strongest = 0;
    std::string why;
  };
  std::array<Candidate, kFaultClasses> candidates_ = {};
};

bool has(std::string_view text, std::string_view what) { return text.find(what) != text.npos; }

class Detective {
 public:
  Detective(const Case& c, const Verdict& v, std::span<const std::string> needs, std::string_view lane)
      : c_(c), p_(c.problem), v_(v), needs_(needs), lane_(lane) {
    if (v.plan.tile_q > 0) tile_q_ = v.plan.tile_q;
    if (v.plan.tile_k > 0) tile_k_ = v.plan.tile_k;
    look_at_tiles();
  }

  FaultGuess guess() {
    how_it_ended();
    features();
    numbers();
    shape();
    return ballot_.count();
  }

 private:
  using Class = FaultClass;

  // How much a feature counts: fully if the failure needs it, half if nobody
  // asked, not at all if it was found not to matter.
  double weight(bool present, std::initializer_list<std::string_view> names) const {
    for (const std::string& need : needs_) {
      for (const std::string_view name : names) {
        // "needs batch other than 3": most values do, so it is not what the failure is about.
        if (subject(need).starts_with(name) && !has(need, " other than ")) return 1;
      }
    }
    return present && needs_.empty() ? 0.5 : 0;
  }
  static std::string_view subject(const std::string& need) {
    return std::string_view(need).substr(std::min<size_t>(6, need.size()));
  }
  bool needed(const std::string& what) const {
    return std::ranges::any_of(needs_,
                               [&](const std::string& need) { return subject(need).starts_with(what); });
  }
  // Whether the failure hangs on a length of 0. The smallest case has one also
  // where lengths do not matter.
  bool zero_matters() const {
    if (shortest() != 0) return false;
    if (needs_.empty()) return true;
    return needed("seq_k = 0") || needed("seq_q = 0") || needed("batch = 0") ||
           needed("the longest key length = 0") || (needed("key lengths") && p_.seq_k > 0);
  }
  void vote(Class fault, double points, std::string why) {
    if (points > 0) ballot_.vote(fault, points, std::move(why));
  }

  void look_at_tiles() {
    if (p_.seq_k < 1) dead_row_ = p_.seq_q > 0;
    if (p_.seq_q < 1 || p_.seq_k < 1 || p_.seq_q > kMostPairs / p_.seq_k) return;
    const int64_t b = v_.where ? std::clamp<int64_t>(v_.where->b, 0, p_.batch - 1) : 0;
    const int64_t h = v_.where ? std::clamp<int64_t>(v_.where->h, 0, p_.heads_q - 1) : 0;
    if (p_.batch < 1) return;
    const Sight sight(c_, b, h);
    const TileMap map = tile_map(c_, sight, tile_q_, tile_k_);
    for (const TileState state : map.states) {
      tile_unseen_ |= state == TileState::kRowDead || state == TileState::kDead;
    }
    const int64_t row = v_.where ? std::clamp<int64_t>(v_.where->q, 0, p_.seq_q - 1) : 0;
    bool any = false;
    for (int64_t j = 0; j < p_.seq_k && !any; ++j) any = sight(row, j);
    dead_row_ = !any;
  }

  void report() {
    const std::string what =
        "the back end reports: " + v_.fault->message.substr(0, v_.fault->message.find('\n'));
    const std::string& words = v_.fault->message;
    switch (v_.fault->kind) {
      case ATTN_REPORT_DEADLOCK:
      case ATTN_REPORT_DIVERGENCE:
      case ATTN_REPORT_ASYNC:
      case ATTN_REPORT_DISAGREEMENT:
      case ATTN_REPORT_RACE:
        return vote(Class::kRace, 6, what);
      case ATTN_REPORT_SHARED:
        return vote(Class::kTail, 5, what);
      case ATTN_REPORT_ADDRESS:
      case ATTN_REPORT_DEVICE:
        if (has(words, "after-free") || has(words, "after-return") || has(words, "after-scope")) {
          return vote(Class::kState, 6, what);
        }
        return vote(Class::kTail, 4, what);
      case ATTN_REPORT_ALIGNMENT:
        return vote(Class::kLayout, 5, what);
      case ATTN_REPORT_UNDEFINED:
        if (has(words, "overflow") || has(words, "shift") || has(words, "outside the range")) {
          return vote(Class::kOverflow, 6, what);
        }
        if (has(words, "align")) return vote(Class::kLayout, 6, what);
        return vote(Class::kTail, 3, what);
      case ATTN_REPORT_UNINITIALISED:
        vote(Class::kTail, 3, what);
        return vote(Class::kState, 2.5, what);
      case ATTN_REPORT_LAUNCH:
        vote(Class::kDispatch, 3, what);
        return vote(Class::kOverflow, 2, what);
      case ATTN_REPORT_STACK:
        return vote(Class::kDispatch, 2, what);
    }
  }

  void how_it_ended() {
    if (v_.fault) report();
    if (lane_ == "tsan" || lane_ == "racecheck" || lane_ == "synccheck") {
      vote(Class::kRace, 3, cat("it was found in the lane ", lane_));
    }
    const bool huge = largest_offset() > 0x1p31;
    switch (v_.kind) {
      case Kind::kHang:
        vote(Class::kRace, 4, "it hangs: a barrier or a wait that not everyone reaches");
        if (zero_matters()) vote(Class::kZeroLength, 5, "it hangs where a length is 0");
        break;
      case Kind::kCrash:
      case Kind::kGuard:
        vote(Class::kTail, 4,
             v_.kind == Kind::kGuard ? "memory outside a tensor was written" : "it crashed on an address");
        if (huge)
          vote(Class::kOverflow, 5, "an offset lies beyond 2^31 elements, and memory outside was touched");
        break;
      case Kind::kInputChanged:
        vote(Class::kState, 3, "an input was written: the caller's data are not what they were");
        vote(Class::kTail, 2, "an input was written");
        vote(Class::kLayout, 2, "an input was written");
        break;
      case Kind::kUnwritten:
        vote(Class::kTail, 2, "part of an output was never written");
        vote(Class::kDispatch, 1.5, "part of an output was never written");
        if (p_.batch * p_.heads_q > 65535)
          vote(Class::kOverflow, 5, "batch x heads is more than a grid's y or z may be");
        if (zero_matters()) vote(Class::kZeroLength, 5, "an output was left as it was where a length is 0");
        vote(Class::kOverflow, 4 * weight(false, {"shared memory limit"}),
             "a launch that the device refuses, and nobody looked");
        vote(Class::kState, 3.5 * weight(false, {"num_splits"}),
             "splits' results are read before they are written");
        break;
      case Kind::kDirty:
        vote(Class::kState, 5, "the same call gives another result: it depends on what was there before");
        break;
      case Kind::kRefusal:
        vote(Class::kDispatch, 3, "a legal case is refused, or an illegal one is not");
        if (zero_matters()) vote(Class::kZeroLength, 3, "a length of 0 is refused");
        break;
      case Kind::kNonFinite:
        if (tile_unseen_)
          vote(Class::kSoftmax, 5, "NaN or infinity, and a query sees no key of a tile: exp(-inf - -inf)");
        if (dead_row_) vote(Class::kSoftmax, 4, "NaN or infinity in a row that sees no key: 0 / 0");
        if (zero_matters()) vote(Class::kZeroLength, 3, "NaN or infinity where a length is 0");
        vote(Class::kState, 3.5 * weight(false, {"num_splits"}),
             "NaN or infinity with splits: their results may be read before they are written");
        if (!tile_unseen_ && !dead_row_ && p_.seq_k % tile_k_ != 0) {
          vote(Class::kTail, 3,
               "NaN or infinity, and the last tile is partly beyond the keys: what lies there is used");
        }
        if (large_values()) vote(Class::kNumerics, 3, "NaN or infinity from large scores or values");
        break;
      case Kind::kWrong:
      case Kind::kRelation:
        if (v_.where && v_.where->bound == 0 && v_.where->expected == 0 && dead_row_) {
          vote(Class::kSoftmax, 4, "a row that sees no key has a result");
        }
        break;
      default:
        break;
    }
    if (has(v_.message, "O is right")) only_lse();
  }

  // O says nothing where V is zero. With scores of zero an LSE counts keys.
  void only_lse() {
    if (c_.v.kind != FillKind::kZero) return vote(Class::kSplit, 3.5, "O is right, only the LSE is wrong");
    if (!v_.where || (c_.q.kind != FillKind::kZero && c_.k.kind != FillKind::kZero)) return;
    const double keys = std::exp(v_.where->got), due = std::exp(v_.where->expected);
    const double padded = std::ceil(due / static_cast<double>(tile_k_)) * static_cast<double>(tile_k_);
    if (!(keys > 1.01 * due) || !(keys < 1e15)) return;
    if (std::fabs(keys - padded) < 0.01 * padded) {
      vote(Class::kTail, 4,
           cat("the LSE counts ", std::lround(keys), " keys, a whole tile, for ", std::lround(due)));
    } else {
      vote(Class::kSoftmax, 3, cat("the LSE counts ", std::lround(keys), " keys for ", std::lround(due)));
    }
  }

  // What the case has besides its sizes.
  void features() {
    const auto feature = [&](Class fault, double points, bool present,
                             std::initializer_list<std::string_view> names,
                             const char* why) { vote(fault, points * weight(present, names), why); };
    const bool many_calls = c_.calls.size() > 1, dirty = std::ranges::any_of(c_.calls, &Call::dirty_workspace);
    feature(Class::kState, 5, many_calls, {"more calls"}, "it takes more than one call");
    for (const std::string& need : needs_) {
      if (has(need, " calls") && !has(need, "more calls"))
        vote(Class::kState, 5, "it takes more than one call");
    }
    feature(Class::kState, 5, dirty, {"a dirty workspace"}, "it takes a workspace that was used before");
    feature(Class::kState, 3, false, {"the prefill"}, "it depends on what memory held before");
    feature(Class::kRace, 5, c_.env.schedule_seed != 0, {"the schedule", "schedule"},
            "it depends on the order in which threads run or copies arrive");
    const bool layout =
        std::ranges::any_of(c_.layout, [](const TensorLayout& l) { return l != TensorLayout{}; });
    feature(Class::kLayout, 5, layout, {"the layout of"}, "it depends on strides, gaps or offsets");
    feature(Class::kSplit, 5, p_.num_splits > 1, {"num_splits"}, "it takes more than one split");
    feature(Class::kDispatch, 5, p_.heads_q != p_.heads_kv, {"grouped heads", "heads_q / heads_kv"},
            "it takes query heads that share a KV head");
    feature(Class::kDispatch, 3, c_.env.variant != 1, {"the variant", "variant 2", "variant 3", "variant 4"},
            "only one instantiation does it");
    feature(Class::kLayout, 2.5, p_.heads_kv > 1, {"heads_kv", "more KV heads"}, "it takes a second KV head");
    feature(Class::kLayout, 2.5, p_.batch > 1, {"batch"}, "it takes a second batch entry");
    feature(Class::kTail, 4, c_.nan_beyond_lengths, {"NaN beyond"}, "what lies beyond a length is used");
    feature(Class::kNumerics, 4, p_.softcap != 0, {"softcap"}, "it takes a softcap");
    feature(Class::kNumerics, 3, p_.scale != 1, {"scale", "the scale"}, "it takes a scale other than 1");
    feature(Class::kNumerics, 2, p_.dtype != ATTN_F16, {"bf16"}, "it takes bf16");
    // Among finite numbers they may only serve to single out one key.
    if (large_values())
      vote(Class::kNumerics, v_.kind == Kind::kNonFinite ? 3 : 1, "it takes large or tiny values");

    // Ways to hide keys: what they mean, unless a tile is hidden whole.
    struct Hiding {
      bool present;
      std::initializer_list<std::string_view> names;
      const char* why;
    };
    const Hiding all[] = {
        {p_.causal, {"causal"}, "it takes a causal mask"},
        {p_.window_left >= 0 || p_.window_right >= 0, {"window", "a window"}, "it takes a window"},
        {false, {"top-left alignment", "bottom-right alignment"}, "it depends on where the diagonal lies"},
        {p_.mask.has_value(), {"mask", "the mask's"}, "it takes a mask"},
        {p_.bias.has_value(), {"bias", "the bias's"}, "it takes a bias"},
        {p_.key_lengths.has_value(), {"key lengths", "the longest key length"}, "it takes key lengths"}};
    const bool numbers = v_.kind == Kind::kWrong || v_.kind == Kind::kRelation;
    for (const Hiding& hiding : all) {
      const double w = weight(hiding.present, hiding.names);
      if (numbers)
        vote(Class::kMask, 4 * w,
             std::string(hiding.why) + ", and keys of it are seen that should not be, or not seen");
      if (tile_unseen_)
        vote(Class::kSoftmax, (numbers ? 2 : 1) * w,
             std::string(hiding.why) + ", and a query sees no key of a tile");
    }
    if (zero_matters()) vote(Class::kZeroLength, 3, "it takes a length of 0");
  }

  // What sizes say: needed numbers beside tile borders, and beyond those of integers.
  void numbers() {
    for (const std::string& need : needs_) {
      const int64_t number = number_in(need);
      if (number > 32767) vote(Class::kOverflow, 5, std::string(subject(need)) + ": beyond 15 bits");
      if (has(need, "dim_") && !has(need, " other than ")) head_dims(need, number);
      if (has(need, "(mod "))
        vote(Class::kTail, 5, std::string(subject(need)) + ": at one place in the last tile");
    }
    const bool k_needed = weight(false, {"seq_k"}) > 0, q_needed = weight(false, {"seq_q"}) > 0;
    const bool plain = mask_words(p_).empty() && p_.num_splits <= 1;
    if (k_needed && p_.seq_k > tile_k_ && plain) {
      if (scores_matter()) {
        vote(Class::kNumerics, 2.5, "it takes scores that differ, in more than one tile");
        vote(Class::kSoftmax, 4,
             cat("it takes keys of a second tile (tiles have ", tile_k_,
                 ") and scores that differ: what the first tile left is not rescaled"));
      } else if (p_.seq_k % tile_k_ != 0) {
        vote(Class::kTail, 3, cat("it takes ", p_.seq_k % tile_k_, " key(s) in a last tile of ", tile_k_));
      }
    }
    if (k_needed && p_.seq_k > 1 && p_.seq_k < tile_k_ && plain && !scores_matter()) {
      vote(Class::kTail, 1.5, "a tile that is only partly filled");
      if (p_.seq_k % 8 == 1) {
        const std::string why =
            cat("it takes ", p_.seq_k, " keys, one more than fits some fragments of a tensor core");
        vote(Class::kLayout, 2, why);
        vote(Class::kRace, 1.3, why);
      }
    }
    if (q_needed && p_.seq_q > 8 && p_.seq_q <= 16) {
      vote(Class::kLayout, 2, "it takes more than 8 queries: the second of the rows that one thread holds");
      vote(Class::kSoftmax, 1.3,
           "it takes more than 8 queries: the state of the second row that one thread holds");
    }
    if (q_needed && p_.seq_q > tile_q_)
      vote(Class::kTail, 2, cat("it takes more queries than a tile has (", tile_q_, ")"));
    if (largest_offset() > 0x1p31) vote(Class::kOverflow, 4, "an offset lies beyond 2^31 elements");
    if (p_.batch * p_.heads_q > 65535) vote(Class::kOverflow, 3, "batch x heads is more than 65535");
  }

  void head_dims(const std::string& need, int64_t number) {
    // Random data may need their dims to fall into place.
    if (needed("values of q: ") || needed("values of k: ")) return;
    if (number % 8 == 0 && has(need, cat(" except ", number + 1))) {
      const std::string why = std::string(subject(need)) + ": only where rows are copied in pieces of 16 bytes";
      vote(Class::kRace, 2.5, why);
      return vote(Class::kLayout, 2.5, why);
    }
    vote(Class::kDispatch, 4, std::string(subject(need)) + ": some head dims only");
  }

  void shape() {
    const std::string& s = v_.shape;
    if (has(s, "last key's contribution is missing"))
      vote(Class::kTail, 2.5, "the last key's contribution is missing");
    if (has(s, "result of head")) vote(Class::kDispatch, 3, "a head holds the result of another");
    if (has(s, "result of batch")) vote(Class::kLayout, 3, "a batch entry holds the result of another");
    if (has(s, "result of row") || has(s, "result of tile"))
      vote(Class::kLayout, 2.5, "rows hold the results of others");
    if (has(s, "ln 2") || has(s, "ratio 1.44") || has(s, "ratio 0.693")) {
      vote(Class::kSplit, 3, "the error is that of a logarithm to another base: " + s);
    }
    if (has(s, "where nothing is visible")) vote(Class::kSoftmax, 4, "values where nothing is visible");
    if (has(s, "every other") || has(s, "i mod")) {
      vote(Class::kRace, 1, "the error follows the threads: " + s);
      vote(Class::kLayout, 1, "the error follows the fragments: " + s);
    }
    if (has(s, "columns >=")) vote(Class::kDispatch, 2, "only columns from a border on: " + s);
    if (has(s, "all zero") && has(v_.message, "of LSE")) {
      vote(Class::kTail, 1.6,
           "O and LSE are those of no key at all: a tile that is not visited, or not counted");
      vote(Class::kSoftmax, 1.5, "O and LSE are those of no key at all");
    }
    if (has(s, "grows with the row")) vote(Class::kNumerics, 1, "the error grows with the row");
  }

  int64_t shortest() const {
    int64_t least = std::min(p_.seq_q, p_.seq_k);
    if (p_.key_lengths) {
      for (const int64_t length : *p_.key_lengths) least = std::min(least, std::max<int64_t>(length, 0));
    }
    return std::min(least, p_.batch);
  }

  // The first number after a comparison, or 0.
  static int64_t number_in(const std::string& need) {
    const size_t at = need.find("= ");
    return at == need.npos ? 0 : std::strtoll(need.c_str() + at + 2, nullptr, 10);
  }

  bool large_values() const {
    for (const auto& [fill, name] :
         {std::pair{&c_.q, "values of q"}, {&c_.k, "values of k"}, {&c_.v, "values of v"}}) {
      const bool extreme =
          fill->kind == FillKind::kHuge || fill->kind == FillKind::kSubnormal || std::abs(fill->exponent) >= 4;
      if (extreme) return true;
      for (const std::string& need : needs_) {
        if (has(need, name) && has(need, "huge")) return true;
      }
    }
    return false;
  }

  // Whether the failure hangs on scores that differ from key to key.
  bool scores_matter() const {
    const auto random = [](const Fill& f) { return f.kind >= FillKind::kOneHot; };
    return weight(false, {"values of k", "values of q"}) > 0 && (random(c_.k) || random(c_.q));
  }

  double largest_offset() const {
    double most = 0;
    for (const TensorLayout& l : c_.layout)
      most = std::max(most,
                      static_cast<double>(l.spread) * static_cast<double>(std::max<int64_t>(p_.batch, 2) - 1));
    const double heads = static_cast<double>(p_.batch) * static_cast<double>(p_.heads_q);
    most = std::max(most,
                    heads * static_cast<double>(p_.seq_q) * static_cast<double>(std::max(p_.dim_qk, p_.dim_v)));
    if (p_.mask || p_.bias)
      most = std::max(most, heads * static_cast<double>(p_.seq_q) * static_cast<double>(p_.seq_k));
    return most;
  }

  const Case& c_;
  const Problem& p_;
  const Verdict& v_;
  const std::span<const std::string> needs_;
  const std::string_view lane_;
  int64_t tile_q_ = 64, tile_k_ = 64;
  bool tile_unseen_ = false, dead_row_ = false;
  Ballot ballot_;
};

}  // namespace

FaultGuess guess_fault(const Case& c, const Verdict& verdict, std::span<const std::string> needs,
                       std::string_view lane) {
  if (verdict.outcome != Outcome::kFail) {
    FaultGuess guess;
    guess.why = "it did not fail";
    return guess;
  }
  return Detective(c, verdict, needs, lane).guess();
}

}  // namespace attnfuzz

#include "properties/explain/fault_class.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "properties/case/words.h"
#include "properties/explain/fault_evidence.h"

namespace attnfuzz {
namespace {

constexpr double kNearly = 0.6;  // of the winner's points

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

class Detective {
 public:
  Detective(const Case& c, const Verdict& v, std::span<const std::string> needs, std::string_view lane)
      : evidence_(c, v, needs, lane), c_(c), p_(c.problem), v_(v) {}

  FaultGuess guess() {
    how_it_ended();
    features();
    numbers();
    shape();
    return ballot_.count();
  }

 private:
  using Class = FaultClass;

  void vote(Class fault, double points, std::string why) {
    if (points > 0) ballot_.vote(fault, points, std::move(why));
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
        if (mentions(words, "after-free") || mentions(words, "after-return") ||
            mentions(words, "after-scope")) {
          return vote(Class::kState, 6, what);
        }
        return vote(Class::kTail, 4, what);
      case ATTN_REPORT_ALIGNMENT:
        return vote(Class::kLayout, 5, what);
      case ATTN_REPORT_UNDEFINED:
        if (mentions(words, "overflow") || mentions(words, "shift") || mentions(words, "outside the range")) {
          return vote(Class::kOverflow, 6, what);
        }
        if (mentions(words, "align")) return vote(Class::kLayout, 6, what);
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
    if (evidence_.lane == "tsan" || evidence_.lane == "racecheck" || evidence_.lane == "synccheck") {
      vote(Class::kRace, 3, cat("it was found in the lane ", evidence_.lane));
    }
    const bool huge = evidence_.largest_offset() > 0x1p31;
    switch (v_.kind) {
      case Kind::kHang:
        vote(Class::kRace, 4, "it hangs: a barrier or a wait that not everyone reaches");
        if (evidence_.zero_matters()) vote(Class::kZeroLength, 5, "it hangs where a length is 0");
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
        if (evidence_.zero_matters())
          vote(Class::kZeroLength, 5, "an output was left as it was where a length is 0");
        vote(Class::kOverflow, 4 * evidence_.weight(false, {"shared memory limit"}),
             "a launch that the device refuses, and nobody looked");
        vote(Class::kState, 3.5 * evidence_.weight(false, {"num_splits"}),
             "splits' results are read before they are written");
        break;
      case Kind::kDirty:
        vote(Class::kState, 5, "the same call gives another result: it depends on what was there before");
        break;
      case Kind::kRefusal:
        vote(Class::kDispatch, 3, "a legal case is refused, or an illegal one is not");
        if (evidence_.zero_matters()) vote(Class::kZeroLength, 3, "a length of 0 is refused");
        break;
      case Kind::kNonFinite:
        if (evidence_.tile_unseen)
          vote(Class::kSoftmax, 5, "NaN or infinity, and a query sees no key of a tile: exp(-inf - -inf)");
        if (evidence_.dead_row) vote(Class::kSoftmax, 4, "NaN or infinity in a row that sees no key: 0 / 0");
        if (evidence_.zero_matters()) vote(Class::kZeroLength, 3, "NaN or infinity where a length is 0");
        vote(Class::kState, 3.5 * evidence_.weight(false, {"num_splits"}),
             "NaN or infinity with splits: their results may be read before they are written");
        if (!evidence_.tile_unseen && !evidence_.dead_row && p_.seq_k % evidence_.tile_k != 0) {
          vote(Class::kTail, 3,
               "NaN or infinity, and the last tile is partly beyond the keys: what lies there is used");
        }
        if (evidence_.large_values()) vote(Class::kNumerics, 3, "NaN or infinity from large scores or values");
        break;
      case Kind::kWrong:
      case Kind::kRelation:
        if (v_.where && v_.where->bound == 0 && v_.where->expected == 0 && evidence_.dead_row) {
          vote(Class::kSoftmax, 4, "a row that sees no key has a result");
        }
        break;
      default:
        break;
    }
    if (mentions(v_.message, "O is right")) only_lse();
  }

  // O says nothing where V is zero. With scores of zero an LSE counts keys.
  void only_lse() {
    if (c_.v.kind != FillKind::kZero) return vote(Class::kSplit, 3.5, "O is right, only the LSE is wrong");
    if (!v_.where || (c_.q.kind != FillKind::kZero && c_.k.kind != FillKind::kZero)) return;
    const double keys = std::exp(v_.where->got), due = std::exp(v_.where->expected);
    const double padded =
        std::ceil(due / static_cast<double>(evidence_.tile_k)) * static_cast<double>(evidence_.tile_k);
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
                             const char* why) { vote(fault, points * evidence_.weight(present, names), why); };
    const bool many_calls = c_.calls.size() > 1, dirty = std::ranges::any_of(c_.calls, &Call::dirty_workspace);
    feature(Class::kState, 5, many_calls, {"more calls"}, "it takes more than one call");
    for (const std::string& need : evidence_.needs) {
      if (mentions(need, " calls") && !mentions(need, "more calls"))
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
    if (evidence_.large_values())
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
      const double w = evidence_.weight(hiding.present, hiding.names);
      if (numbers)
        vote(Class::kMask, 4 * w,
             std::string(hiding.why) + ", and keys of it are seen that should not be, or not seen");
      if (evidence_.tile_unseen)
        vote(Class::kSoftmax, (numbers ? 2 : 1) * w,
             std::string(hiding.why) + ", and a query sees no key of a tile");
    }
    if (evidence_.zero_matters()) vote(Class::kZeroLength, 3, "it takes a length of 0");
  }

  // What sizes say: needed numbers beside tile borders, and beyond those of integers.
  void numbers() {
    for (const std::string& need : evidence_.needs) {
      const int64_t number = number_in(need);
      if (number > 32767) vote(Class::kOverflow, 5, std::string(subject(need)) + ": beyond 15 bits");
      if (mentions(need, "dim_") && !mentions(need, " other than ")) head_dims(need, number);
      if (mentions(need, "(mod "))
        vote(Class::kTail, 5, std::string(subject(need)) + ": at one place in the last tile");
    }
    const bool k_needed = evidence_.weight(false, {"seq_k"}) > 0,
               q_needed = evidence_.weight(false, {"seq_q"}) > 0;
    const bool plain = mask_words(p_).empty() && p_.num_splits <= 1;
    if (k_needed && p_.seq_k > evidence_.tile_k && plain) {
      if (evidence_.scores_matter()) {
        vote(Class::kNumerics, 2.5, "it takes scores that differ, in more than one tile");
        vote(Class::kSoftmax, 4,
             cat("it takes keys of a second tile (tiles have ", evidence_.tile_k,
                 ") and scores that differ: what the first tile left is not rescaled"));
      } else if (p_.seq_k % evidence_.tile_k != 0) {
        vote(Class::kTail, 3,
             cat("it takes ", p_.seq_k % evidence_.tile_k, " key(s) in a last tile of ", evidence_.tile_k));
      }
    }
    if (k_needed && p_.seq_k > 1 && p_.seq_k < evidence_.tile_k && plain && !evidence_.scores_matter()) {
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
    if (q_needed && p_.seq_q > evidence_.tile_q)
      vote(Class::kTail, 2, cat("it takes more queries than a tile has (", evidence_.tile_q, ")"));
    if (evidence_.largest_offset() > 0x1p31) vote(Class::kOverflow, 4, "an offset lies beyond 2^31 elements");
    if (p_.batch * p_.heads_q > 65535) vote(Class::kOverflow, 3, "batch x heads is more than 65535");
  }

  void head_dims(const std::string& need, int64_t number) {
    // Random data may need their dims to fall into place.
    if (evidence_.needed("values of q: ") || evidence_.needed("values of k: ")) return;
    if (number % 8 == 0 && mentions(need, cat(" except ", number + 1))) {
      const std::string why = std::string(subject(need)) + ": only where rows are copied in pieces of 16 bytes";
      vote(Class::kRace, 2.5, why);
      return vote(Class::kLayout, 2.5, why);
    }
    vote(Class::kDispatch, 4, std::string(subject(need)) + ": some head dims only");
  }

  void shape() {
    const std::string& s = v_.shape;
    if (mentions(s, "last key's contribution is missing"))
      vote(Class::kTail, 2.5, "the last key's contribution is missing");
    if (mentions(s, "result of head")) vote(Class::kDispatch, 3, "a head holds the result of another");
    if (mentions(s, "result of batch")) vote(Class::kLayout, 3, "a batch entry holds the result of another");
    if (mentions(s, "result of row") || mentions(s, "result of tile"))
      vote(Class::kLayout, 2.5, "rows hold the results of others");
    if (mentions(s, "ln 2") || mentions(s, "ratio 1.44") || mentions(s, "ratio 0.693")) {
      vote(Class::kSplit, 3, "the error is that of a logarithm to another base: " + s);
    }
    if (mentions(s, "where nothing is visible")) vote(Class::kSoftmax, 4, "values where nothing is visible");
    if (mentions(s, "every other") || mentions(s, "i mod")) {
      vote(Class::kRace, 1, "the error follows the threads: " + s);
      vote(Class::kLayout, 1, "the error follows the fragments: " + s);
    }
    if (mentions(s, "columns >=")) vote(Class::kDispatch, 2, "only columns from a border on: " + s);
    if (mentions(s, "all zero") && mentions(v_.message, "of LSE")) {
      vote(Class::kTail, 1.6,
           "O and LSE are those of no key at all: a tile that is not visited, or not counted");
      vote(Class::kSoftmax, 1.5, "O and LSE are those of no key at all");
    }
    if (mentions(s, "grows with the row")) vote(Class::kNumerics, 1, "the error grows with the row");
  }

  const FaultEvidence evidence_;
  const Case& c_;
  const Problem& p_;
  const Verdict& v_;
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

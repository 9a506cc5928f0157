// A right kernel, but for one thing: if keys of a packed batch entry hold NaN or 1.5 in their last column, in
// each head, the last bit of all results of one entry changes. Each result alone stays within its bound.
//
//   PackedLeak of_next(TensorId::kLse, kFeatures, LeakFrom::kNext);
//   expect_leaks_found(TensorId::kLse, kFeatures, "selected_future", [](uint64_t seed) { ... });
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "properties/judge/trial.h"
#include "tests/fuzz/batch/oracle_target.h"

namespace attnfuzz {

// The entry whose keys leak into the results of an entry.
enum class LeakFrom : uint8_t {
  kItself,    // also where a query does not see the keys
  kNext,      // the entry behind it
  kNextAlone  // the entry behind it, but only if the entry itself holds no such keys
};

class PackedLeak final : public OracleTarget {
 public:
  // `output`: in fp32, a row for each query.
  PackedLeak(TensorId output, uint64_t features, LeakFrom from)
      : OracleTarget(nullptr, features), output_(output), from_(from) {}
  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
               const attn_env& env, int stream) override {
    const RunReply reply = OracleTarget::run(stage, p, t, plan, env, stream);
    const attn_tensor to = view_of(t, spec_of(output_));
    if (p.ragged != (ATTN_RAGGED_QUERIES | ATTN_RAGGED_KEYS) || to.data == nullptr) return reply;
    const Sequences sequences(p, t);
    const int64_t shift = from_ == LeakFrom::kItself ? 0 : 1;
    for (int64_t b = 0; b + shift < p.batch; ++b) {
      if (!holds_changed(p, t.k, sequences, b + shift)) continue;
      if (from_ != LeakFrom::kNextAlone || !holds_changed(p, t.k, sequences, b)) change(p, to, sequences, b);
    }
    return reply;
  }

 private:
  static bool holds_changed(const attn_problem& p, const attn_tensor& k, const Sequences& sequences,
                            int64_t b) {
    for (int64_t j = 0; j < sequences.keys.length(b); ++j) {
      const StoredRow at = sequences.key_row(b, j);
      bool all = true;
      for (int64_t g = 0; g < p.heads_kv; ++g) {
        const double x = decode(p.dtype, k.data, offset_of(k, at.entry, g, at.row, p.dim_qk - 1));
        all = all && (std::isnan(x) || x == 1.5);
      }
      if (all) return true;
    }
    return false;
  }

  void change(const attn_problem& p, const attn_tensor& to, const Sequences& sequences, int64_t b) const {
    const auto [entries, heads, rows, columns] = stored_shape_of(spec_of(output_), p);
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < sequences.queries.length(b); ++i) {
        const StoredRow at = sequences.query_row(b, i);
        for (int64_t c = 0; c < columns; ++c) {
          float& x = static_cast<float*>(to.data)[offset_of(to, at.entry, h, at.row, c)];
          if (std::isfinite(x) && x != 0) x = std::bit_cast<float>(std::bit_cast<uint32_t>(x) ^ 1);
        }
      }
    }
  }

  const TensorId output_;
  const LeakFrom from_;
};

// Expects that the property finds each leak in some of 24 cases, all of which the property `reference` passes.
// The seed must be that of the data on which the relation's choice of keys depends.
inline void expect_leaks_found(TensorId output, uint64_t features, const char* property,
                               Case (*case_of)(uint64_t seed)) {
  for (const LeakFrom from : {LeakFrom::kItself, LeakFrom::kNext, LeakFrom::kNextAlone}) {
    PackedLeak target(output, features, from);
    int found = 0;
    for (uint64_t seed = 1; seed <= 24; ++seed) {
      const Case c = case_of(seed);
      ASSERT_EQ(illegal(c), std::nullopt) << *illegal(c);
      const Verdict reference = judge(c, *find_property("reference"), target, documented());
      ASSERT_EQ(reference.outcome, Outcome::kPass) << reference.message;
      const Verdict v = judge(c, *find_property(property), target, documented());
      if (v.outcome != Outcome::kFail) continue;
      EXPECT_EQ(v.kind, Kind::kRelation) << v.message;
      ++found;
    }
    EXPECT_GT(found, 0) << "leak " << static_cast<int>(from);
  }
}

}  // namespace attnfuzz

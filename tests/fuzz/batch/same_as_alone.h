// Compares a batch with cases one by one: the bytes that it lays out, and its verdicts.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/batch/batch_judge.h"
#include "fuzz/batch/prepare.h"
#include "properties/case/places/geometry.h"
#include "properties/case/words.h"
#include "properties/judge/property.h"
#include "properties/judge/trial.h"
#include "properties/memory/layout.h"
#include "tests/fuzz/batch/fake_batch_target.h"

namespace attnfuzz {

// Gives the case odd layouts: strided or transposed columns, negative strides, tensors spread over gigabytes or
// stored once.
inline Case laid_oddly(Case c, uint64_t n) {
  for (const TensorSpec& spec : kTensors) {
    if (!spec.strided()) continue;
    TensorLayout& layout = c.layout[static_cast<size_t>(spec.id)];
    layout.spread = 0;
    const uint64_t kind = n + static_cast<uint64_t>(spec.id);
    if (kind % 4 == 0) layout.step = 2 + static_cast<int64_t>(n % 3);
    if (kind % 4 == 1) layout.across = true;
    if (kind % 3 == 0) layout.backwards = 1 + static_cast<int64_t>(kind * 7 % 15);
    if (!layout.scattered() && kind % 4 > 1)
      layout.spread = (int64_t{1} << 31) + (n % 3 == 0 ? 0 : (1 << 20) + static_cast<int64_t>(n % 2));
    if (!geometry(c, spec.id)) layout.spread = 0;
  }
  c.once.k = {.batch = n % 3 == 1, .head = n % 2 == 0};
  c.once.v = {.batch = n % 4 == 1, .head = n % 3 == 0};
  c.once.q.head = n % 5 == 0;
  if (!c.planted.empty()) c.once = {};
  return c;
}

inline Verdict ordinary(const BatchCase& asked, Target& target) {
  return judge(asked.c, *asked.property, target, documented());
}

inline std::vector<BatchCase> by_reference(const std::vector<Case>& cases) {
  std::vector<BatchCase> asked;
  for (const Case& c : cases) asked.push_back({c, find_property("reference")});
  return asked;
}

// Checks that a batch has laid out the bytes of LaidOut. `base`: where the call's offsets begin, by tensor.
inline void expect_laid(const batch::Call& call, const Case& c, const LaidOut& laid, Arena& arena,
                        std::byte* const* base) {
  uint64_t until[batch::kTensors] = {};  // bytes of each tensor that are compared so far
  for (const MemoryRange& range : laid.ranges()) {
    const TensorId id = range.tensor;
    const auto tensor = std::ranges::find(batch::kIds, id) - std::begin(batch::kIds);
    const batch::TensorSlot& place = call.tensor[tensor];
    uint64_t& at = until[tensor];
    const uint64_t bytes = range.end - range.begin;
    if (at == 0) {
      at = place.begin;
      const attn_tensor view = view_of(laid.tensors(), spec_of(id));
      ASSERT_EQ(static_cast<const std::byte*>(view.data) - static_cast<const std::byte*>(arena.at(range.begin)),
                static_cast<ptrdiff_t>(place.data - place.begin) + call.first[tensor] * place.element_bytes);
      if (spec_of(id).strided())
        ASSERT_TRUE(std::ranges::equal(view.stride, place.given_stride)) << name_of(id);
    }
    const uint64_t address = address_of(place, at);
    ASSERT_LE(at + bytes, place.end) << name_of(id) << ": " << describe(c);
    ASSERT_EQ(address_of(place, at + bytes - 1), address + bytes - 1) << name_of(id) << ": " << describe(c);
    ASSERT_EQ(std::memcmp(base[tensor] + address, arena.at(range.begin), bytes), 0)
        << name_of(id) << ": " << describe(c);
    at += bytes;
  }
  for (int t = 0; t < batch::kTensors; ++t) {
    ASSERT_EQ(until[t], call.tensor[t].end) << name_of(batch::kIds[t]);
    ASSERT_EQ(until[t] > 0, is_present(c, batch::kIds[t])) << name_of(batch::kIds[t]);
  }
}

// Checks that a batch has the same verdicts as the cases one by one. Returns the number of failures.
inline int expect_equal_verdicts(const std::vector<Case>& some, FakeTarget& fake) {
  FakeBatchTarget device(fake);
  const Calibration calibration = documented();
  BatchJudge batch_judge(device, fake, calibration);
  const std::vector<BatchCase> cases = by_reference(some);
  const std::vector<Verdict> verdicts = batch_judge.judge(cases);
  int failures = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Verdict v = ordinary(cases[i], fake);
    EXPECT_EQ(verdicts[i].outcome, v.outcome)
        << verdicts[i].message << " / " << v.message << describe(cases[i].c);
    EXPECT_EQ(verdicts[i].kind, v.kind) << verdicts[i].message << " / " << v.message;
    EXPECT_EQ(verdicts[i].rows, v.rows);
    failures += v.outcome == Outcome::kFail;
    if (v.outcome == Outcome::kFail) continue;  // the batch doubted it, so a trial gave the rest of the verdict
    EXPECT_NEAR(verdicts[i].worst, v.worst, 1e-5);
    EXPECT_EQ(verdicts[i].sampled, v.sampled);
    EXPECT_EQ(verdicts[i].dead_rows, v.dead_rows);
    EXPECT_EQ(verdicts[i].uninformative_rows, v.uninformative_rows);
    EXPECT_EQ(verdicts[i].unconstrained_rows, v.unconstrained_rows);
    EXPECT_EQ(verdicts[i].assumptions, v.assumptions);
  }
  EXPECT_TRUE(batch_judge.use().left.empty()) << words(batch_judge.use());
  if (failures == 0) EXPECT_EQ(batch_judge.use().doubted, 0u) << words(batch_judge.use());
  return failures;
}

// Each relation with the case adapted to it.
inline std::vector<BatchCase> relations_on(const Case& c, const KernelInfo& kernel) {
  std::vector<BatchCase> asked;
  for (const Property* property : properties()) {
    std::string why;
    Case adapted = c;
    if (!of_its_operation(*property, kernel)) continue;
    if (!property->asks_target && property->adapt(adapted, kernel, &why)) asked.push_back({adapted, property});
  }
  return asked;
}

// Checks that a batch judges the case by each property of its operation as a trial does. Returns their number.
inline size_t expect_equal_relations(const Case& c, FakeTarget& fake) {
  FakeBatchTarget device(fake);
  const Calibration calibration = documented();
  BatchJudge batch_judge(device, fake, calibration);
  const std::vector<BatchCase> asked = relations_on(c, fake.info());
  const std::vector<Verdict> verdicts = batch_judge.judge(asked);
  for (size_t i = 0; i < asked.size(); ++i) {
    const Verdict v = ordinary(asked[i], fake);
    const char* name = asked[i].property->name;
    EXPECT_EQ(verdicts[i].outcome, v.outcome) << name << ": " << verdicts[i].message << " / " << v.message;
    EXPECT_EQ(verdicts[i].property, v.property);
    EXPECT_NEAR(verdicts[i].worst, v.worst, 1e-5) << name;
    EXPECT_EQ(verdicts[i].ratios.size(), v.ratios.size()) << name;
    EXPECT_EQ(verdicts[i].rows, v.rows) << name;
    EXPECT_EQ(verdicts[i].dead_rows, v.dead_rows) << name;
  }
  EXPECT_EQ(batch_judge.use().cleared, asked.size()) << words(batch_judge.use());
  return asked.size();
}

}  // namespace attnfuzz

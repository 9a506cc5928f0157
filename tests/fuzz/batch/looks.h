// Kernels that compare a batch with a trial: Looks compares the memory that the kernel gets, and Keeps what the
// oracle says of it.
//
//   Looks looks(ATTN_FEATURE_SELECTED | ATTN_FEATURE_NO_FORWARD);
//   FakeBatchTarget device(looks);
//   looks.look(c, device);           // fails the test if they differ
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/batch/given.h"
#include "fuzz/batch/prepare.h"
#include "properties/case/codec/as_contract.h"
#include "properties/memory/layout.h"
#include "properties/operations/operation.h"
#include "reference/agreement.h"
#include "reference/call/sequences.h"
#include "reference/numbers/formats.h"
#include "tests/fuzz/batch/fake_batch_target.h"
#include "tests/fuzz/batch/oracle_target.h"
#include "tests/fuzz/batch/same_as_alone.h"

namespace attnfuzz {

class Looks : public OracleTarget {
 public:
  explicit Looks(uint64_t features) : OracleTarget(nullptr, features) {}

  // Lays the case out in a batch of one, and compares. Returns its call.
  batch::Call look(const Case& c, FakeBatchTarget& device) {
    std::string why;
    std::vector<Assumption> assumptions;
    std::optional<batch::Call> call = batch::prepare(c, ATTN_CPU, &why);
    EXPECT_TRUE(call) << why;
    if (!call) return {};
    batch::Result result;
    EXPECT_EQ(device.plan({&*call, 1}, {&result, 1}), "");
    EXPECT_TRUE(batch::add_plan(c, result.plan, documented(), &*call, &assumptions, &why)) << why;
    case_ = &c, call_ = &*call;
    EXPECT_EQ(device.run({&*call, 1}, {&result, 1}), "");
    return *call;
  }

  RunReply run(Stage, const attn_problem&, const attn_tensors& t, const attn_plan& plan, const attn_env&,
               int) override {
    LaidOut laid(*case_, arena());
    laid.follow(plan);
    const auto compare = [&](TensorId id, const std::vector<std::byte>& host) {
      const std::vector<std::byte> mine = dense(t, id);
      ASSERT_EQ(mine.size(), host.size());
      const int32_t dtype = id == TensorId::kSavedO ? case_->problem.dtype : int32_t{ATTN_F32};
      const size_t numbers = mine.size() / static_cast<size_t>(element_bytes(case_->problem, id));
      for (size_t n = 0; n < numbers; ++n) {
        const auto at = static_cast<int64_t>(n);
        const double x = decode(dtype, mine.data(), at), y = decode(dtype, host.data(), at);
        // The two oracles may round a sum in another way.
        if (std::isfinite(y)) EXPECT_NEAR(x, y, 1e-6 * std::abs(y) + 1e-12) << name_of(id);
        if (!std::isfinite(y)) EXPECT_TRUE(x == y || (std::isnan(x) && std::isnan(y))) << name_of(id);
      }
      values += numbers;
      other_bits += mine != host;
      laid.derive(id, mine);
    };
    const Operation& operation = operation_of(case_->problem.features);
    if (operation.prepare) operation.prepare(laid.problem(), laid.tensors(), plan, compare);
    std::byte* base[batch::kTensors];
    for (int n = 0; n < batch::kTensors; ++n) {
      const batch::TensorSlot& place = call_->tensor[n];
      const attn_tensor view = view_of(t, spec_of(batch::kIds[n]));
      base[n] = static_cast<std::byte*>(view.data) - place.data - call_->first[n] * place.element_bytes;
    }
    expect_laid(*call_, *case_, laid, arena(), base);
    return {};
  }

  size_t values = 0, other_bits = 0;  // of saved tensors

 private:
  // The elements of a saved tensor, as derive() takes them: 0 for queries that no entry has.
  std::vector<std::byte> dense(const attn_tensors& t, TensorId id) const {
    const attn_problem p = problem_of(case_->problem);
    const auto [batch, heads, queries, columns] = logical_size(case_->problem, id);
    const attn_tensor view = view_of(t, spec_of(id));
    const auto bytes = static_cast<size_t>(element_bytes(case_->problem, id));
    const Sequences sequences(p, t);
    std::vector<std::byte> elements(static_cast<size_t>(batch * heads * queries * columns) * bytes);
    const RowSpace rows(p);
    for (int64_t row = 0; row < rows.count(); ++row) {
      const Row at = rows.at(row);
      if (at.i >= sequences.queries.length(at.b)) continue;
      const StoredRow stored = sequences.query_row(at.b, at.i);
      for (int64_t d = 0; d < columns; ++d)
        std::memcpy(&elements[static_cast<size_t>(row * columns + d) * bytes],
                    static_cast<const std::byte*>(view.data) +
                        offset_of(view, stored.entry, at.h, stored.row, d) * static_cast<int64_t>(bytes),
                    bytes);
    }
    return elements;
  }

  const Case* case_ = nullptr;
  const batch::Call* call_ = nullptr;
};

// A kernel that keeps what the CPU's oracle says of the inputs that it gets.
class Keeps : public OracleTarget {
 public:
  explicit Keeps(uint64_t features) : OracleTarget(nullptr, features) {}

  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
               const attn_env& env, int stream) override {
    due = operation_of(p.features).evaluate(p, t, plan, documented(), {}, true);
    return OracleTarget::run(stage, p, t, plan, env, stream);
  }

  // Judges the case in a batch of one, and compares its oracle with the CPU's. `change` may change the plan.
  // Returns the call.
  batch::Call compare_with(const Case& c, FakeBatchTarget& device, void (*change)(attn_plan&) = nullptr) {
    std::string why;
    std::vector<Assumption> assumptions;
    std::optional<batch::Call> call = batch::prepare(c, ATTN_CPU, &why);
    EXPECT_TRUE(call) << why;
    if (!call) return {};
    batch::Result result;
    EXPECT_EQ(device.plan({&*call, 1}, {&result, 1}), "");
    if (change) change(result.plan);
    EXPECT_TRUE(batch::add_plan(c, result.plan, documented(), &*call, &assumptions, &why)) << why;
    call->readback_at = 0, call->readback_all = 1;
    EXPECT_EQ(device.run({&*call, 1}, {&result, 1}), "");
    const auto given = batch::given_run(c, *call, result, {}, device.readback());
    EXPECT_TRUE(given) << describe(c);
    if (!given) return *call;
    EXPECT_EQ(not_of(operation_of(c.problem.features), given->run.reference), "");
    EXPECT_EQ(compare(call->problem, given->run.reference, due).difference, "") << describe(c);
    return *call;
  }

  Reference due;
};

}  // namespace attnfuzz

#include "fuzz/batch/shared_target.h"

#include <stdexcept>
#include <utility>

namespace attnfuzz {
namespace {

BatchTarget& batches_of(Target& target) {
  if (auto* batches = dynamic_cast<BatchTarget*>(&target)) return *batches;
  throw std::runtime_error(target.info().name + " judges no batches: leave --batch out");
}

}  // namespace

class SharedTarget::Share final : public Target, public BatchTarget {
 public:
  explicit Share(SharedTarget& of) : of_(of), info_(of.target_->info()) {
    oracles = of.target_->oracles;
    peer = of.target_->peer;
    terms = of.target_->terms;
  }

  Turn turn() override { return of_.turns_.take(); }
  const KernelInfo& info() const override { return info_; }
  Arena& arena() override { return in_turn().arena(); }
  void memory(std::span<const MemoryRange> ranges) override { in_turn().memory(ranges); }
  void watch(Watch watch) override { in_turn().watch(watch); }
  void renew() override { in_turn().renew(); }
  void probe(const std::optional<ProbeRequest>& request) override { in_turn().probe(request); }
  std::span<const uint8_t> coverage() const override { return in_turn().coverage(); }
  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    return in_turn().plan(problem, tensors, env);
  }
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    return in_turn().run(stage, problem, tensors, plan, env, stream);
  }
  std::optional<attn_partials> partials(const attn_problem& problem, const attn_plan& plan,
                                        std::string* why) override {
    return in_turn().partials(problem, plan, why);
  }

  std::string why_no_batch() override { return batches_in_turn().why_no_batch(); }
  std::string plan(std::span<const batch::Call> calls, std::span<batch::Result> results) override {
    return batches_in_turn().plan(calls, results);
  }
  std::string run(std::span<const batch::Call> calls, std::span<batch::Result> results) override {
    return batches_in_turn().run(calls, results);
  }
  std::span<const std::byte> readback() override { return batches_in_turn().readback(); }

 private:
  Target& in_turn() const {
    if (!of_.turns_.mine()) throw std::logic_error("a shared target is used without a turn");
    return *of_.target_;
  }
  BatchTarget& batches_in_turn() const {
    in_turn();
    return of_.batches_;
  }

  SharedTarget& of_;
  const KernelInfo info_;  // a copy: the target writes its own when it replaces a worker
};

SharedTarget::SharedTarget(std::unique_ptr<Target> target)
    : target_(std::move(target)), batches_(batches_of(*target_)) {}

SharedTarget::~SharedTarget() = default;

std::unique_ptr<Target> SharedTarget::share() { return std::make_unique<Share>(*this); }

}  // namespace attnfuzz

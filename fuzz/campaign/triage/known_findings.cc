#include "fuzz/campaign/triage/known_findings.h"

#include "properties/judge/trial.h"

namespace attnfuzz {

std::vector<KnownFinding> recall(const std::string& dir, const std::vector<CampaignTarget>& targets,
                                 const CampaignTarget& target, Target& worker) {
  std::vector<KnownFinding> all;
  for (const Finding& f : read_findings(dir).findings) {
    if (f.repeats != Repeats::kAlways || !f.reduced || is_of_sequences(f)) continue;
    const CampaignTarget* owner = find_target(targets, f.target);
    if (owner == nullptr || owner->folder != target.folder) continue;
    const auto read = read_reproducer(dir + "/findings/" + f.name + ".attn.json", kInFolder);
    const auto* r = std::get_if<Reproducer>(&read);
    if (r == nullptr || r->property != "reference") continue;
    KnownFinding known = {.name = f.name,
                          .tolerated = !f.tolerated.empty(),
                          .need = needed_parts(r->c, r->needs),
                          .c = r->c,
                          .verdict = {}};
    known.c.build_kind = target.record.build_kind;
    known.verdict = judge(known.c, *find_property("reference"), worker, target.calibration);
    known.need.tile_q = known.verdict.plan.tile_q;
    known.need.tile_k = known.verdict.plan.tile_k;
    all.push_back(std::move(known));
  }
  return all;
}

}  // namespace attnfuzz

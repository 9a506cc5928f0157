// Long rows: sizes that only a GPU can afford.
//
// A kernel may take another path from 1,024, 2,048, 8,192 or 16,384 keys on, together with a number of columns,
// heads, splits or batch entries. Small cases never get there, and the usual draw has such lengths with one
// head, few columns and few features. Where the cases of a batch stay on a GPU, one case in ten has a long
// row instead of the sizes that were drawn for it: 1,024 to 131,072 keys and a little more, together with up to
// 256 columns, 64 heads and 200 splits. Queries and batch entries get what the budget leaves. All other
// features are drawn as for any case.
//
//   GeneratorConfig config = config_for(target, options);  // config.device_work > 0
//   draw_long_rows(with_device_work(config), rng, c);
#pragma once

#include "properties/draw/draw.h"

namespace attnfuzz {

// The usual GeneratorConfig::device_work: some milliseconds of an H100, most of them the oracle's.
inline constexpr int64_t kDeviceWork = int64_t{1} << 29;

// The configuration for a case with a long row: its work is device_work, and its tensors may be larger.
GeneratorConfig with_device_work(const GeneratorConfig& config);

// Replaces the sizes. `config` comes from with_device_work().
void draw_long_rows(const GeneratorConfig& config, Rng& rng, Case& c);

}  // namespace attnfuzz

// Memory for the page-end tensors of a batch on a GPU. Each stretch has its own range of addresses.
// Only the end of the range has memory, as much as the batches have needed so far. The granule
// behind the range is never mapped, so an access beyond a tensor faults.
#pragma once

#include <memory>
#include <string>

#include "fuzz/batch/device/device.h"

namespace attnfuzz::worker {

// nullptr, with a reason, if this driver cannot map memory in this way.
std::unique_ptr<batch::PageEnds> open_page_ends(int device, std::string* why);

}  // namespace attnfuzz::worker

// Copies of boxes between global and shared memory, and the order between threads' writes to shared memory and
// the reads of the async proxy (hopper.h).
#include <string.h>

#include <algorithm>

#include "kernels/executor/threads/block.h"

namespace simt {
namespace {

constexpr int kRowBytes = 128;

// One row of a box. Its bytes [begin, end) are within the tensor. A store writes [begin, stored): the engine
// writes whole chunks of 16 bytes, and a tensor's rows begin at multiples of 16 bytes.
struct Row {
  unsigned char* tensor;  // the address of byte 0, which may lie outside of the tensor
  int begin, end, stored;
};

Row row_of(const TensorCopy& copy, uint32_t row) {
  const TensorMap& map = copy.map;
  const int64_t at[4] = {copy.at[0], int64_t{copy.at[1]} + row, copy.at[2], copy.at[3]};
  int64_t offset = at[0] * map.element;
  for (int d = 1; d < 4; ++d) {
    if (at[d] < 0 || at[d] >= map.dim[d]) return {nullptr, 0, 0, 0};
    offset += at[d] * map.stride[d - 1];
  }
  const int64_t begin = std::clamp<int64_t>(-at[0] * map.element, 0, kRowBytes);
  const int64_t last = (map.dim[0] - at[0]) * map.element, gap = -(map.dim[0] * map.element) & 15;
  const int64_t end = std::clamp<int64_t>(last, begin, kRowBytes);
  const int64_t stored = end > begin ? std::clamp<int64_t>(last + gap, end, kRowBytes) : end;
  // Computed in integers, because byte 0 may lie before the tensor.
  const auto tensor = reinterpret_cast<uintptr_t>(map.base) + static_cast<uintptr_t>(offset);
  return {reinterpret_cast<unsigned char*>(tensor), static_cast<int>(begin), static_cast<int>(end),
          static_cast<int>(stored)};
}

// The part of a row's bytes [begin, end) that lies in a chunk of 16 bytes of shared memory. `end` is Row::end
// or Row::stored.
template <class Visit>
void visit_chunks(const TensorCopy& copy, uint32_t row, int Row::* end_of, Visit visit) {
  const Row line = row_of(copy, row);
  for (int first = 0; first < kRowBytes; first += 16) {
    unsigned char* chunk = swizzled128(copy.shared + row * kRowBytes + first);
    const int begin = std::max(line.begin, first), end = std::min(line.*end_of, first + 16);
    visit(chunk, chunk + (begin - first), line.tensor + begin, std::max(end - begin, 0));
  }
}

void check_box(const TensorCopy& copy, const char* word, int Row::* end_of) {
  const Thread* me = &self().thread;
  const size_t bytes = size_t{copy.map.rows} * kRowBytes;
  if (copy.map.columns * copy.map.element != kRowBytes || copy.map.rows < 1 || copy.map.rows > 256) {
    fault(ATTN_REPORT_ASYNC, me, copy.here, "%s of a box of %u x %u elements of %u bytes: rows have 128 bytes",
          word, copy.map.columns, copy.map.rows, copy.map.element);
  }
  if (reinterpret_cast<uintptr_t>(copy.shared) % kRowBytes != 0) {
    fault(ATTN_REPORT_ALIGNMENT, me, copy.here, "%s at shared address %p: not a multiple of 128", word,
          static_cast<void*>(copy.shared));
  }
  if (!is_shared(running(), copy.shared, bytes)) {
    fault(ATTN_REPORT_SHARED, me, copy.here, "%s of %zu bytes at %p: not within an array of shared memory",
          word, bytes, static_cast<void*>(copy.shared));
  }
  for (uint32_t row = 0; row < copy.map.rows; ++row) {
    const Row line = row_of(copy, row);
    if (line.begin == line.end) continue;
    if (sanitizer::forbidden(line.tensor + line.begin, line.end - line.begin)) {
      fault(ATTN_REPORT_ADDRESS, me, copy.here,
            "%s of a tensor that is not where its map says: at %p, row %u of the box", word,
            static_cast<void*>(line.tensor + line.begin), row);
    }
    if (const int past = line.*end_of - line.end; sanitizer::forbidden(line.tensor + line.end, past)) {
      fault(ATTN_REPORT_ADDRESS, me, copy.here,
            "%s writes the last 16 bytes of row %u of the box whole, %d bytes of them past the tensor's row",
            word, row, past);
    }
  }
}

void land(const TensorCopy& load) {
  for (uint32_t row = 0; row < load.map.rows; ++row) {
    const auto fill = [](unsigned char* chunk, unsigned char* to, const unsigned char* from, int bytes) {
      if (bytes < 16) {
        memset(chunk, 0, 16);
        sanitizer::carry(chunk, nullptr, 16);
      }
      if (bytes == 0) return;
      sanitizer::copy(to, from, bytes);
      sanitizer::carry(to, from, bytes);
    };
    visit_chunks(load, row, &Row::end, fill);
  }
}

void write_out(const TensorCopy& store) {
  sanitizer::reads(store.shared, size_t{store.map.rows} * kRowBytes);
  for (uint32_t row = 0; row < store.map.rows; ++row) {
    const auto write = [](unsigned char*, const unsigned char* from, unsigned char* to, int bytes) {
      if (bytes == 0) return;
      sanitizer::copy(to, from, bytes);
      sanitizer::carry(to, from, bytes);
      sanitizer::writes(to, bytes);
    };
    visit_chunks(store, row, &Row::stored, write);
  }
}

bool is_poison(const unsigned char* begin, size_t bytes) {
  return std::all_of(begin, begin + bytes, [](unsigned char byte) { return byte == 0xFF; });
}

void check_untouched(const TensorCopy& load, size_t bytes) {
  if (is_poison(load.shared, bytes)) return;
  fault(ATTN_REPORT_ASYNC, &running().lane(load.thread).thread, load.here,
        "shared memory at %p was written while a load to it was under way", static_cast<void*>(load.shared));
}

TensorCopy take(std::vector<TensorCopy>& loads, size_t at) {
  const sanitizer::Unseen books;
  const TensorCopy load = loads[at];
  loads.erase(loads.begin() + static_cast<ptrdiff_t>(at));
  return load;
}

size_t chunk_of(const void* shared) {
  return static_cast<size_t>(static_cast<const unsigned char*>(shared) - shared_base()) / 16;
}

// An entry of generic_writes: a thread, and how often it had fenced.
uint32_t write_mark(const Lane& lane) { return (lane.thread.linear + 1) << 20 | (lane.proxy_fences & 0xFFFFF); }

}  // namespace

void tma_load(void* shared, const TensorMap& map, void* barrier, const int32_t (&at)[4], Place here) {
  Block& b = running();
  MBarrier& m = mbarrier_at(b, barrier, "tma_load", here);
  if (!m.fenced) {
    fault(ATTN_REPORT_ASYNC, &self().thread, here,
          "a load to the barrier initialised at %s:%d, whose thread has not called mbarrier_init_fence",
          m.here.file, m.here.line);
  }
  if (b.dependent && !b.waited) {
    fault(ATTN_REPORT_ASYNC, &self().thread, here,
          "a load of a dependent launch before anyone of its block has called grid_dependency_wait()");
  }
  const TensorCopy load{
      map,
      {at[0], at[1], at[2], at[3]},
      static_cast<unsigned char*>(shared),
      static_cast<uint32_t>(std::ranges::find(b.mbarriers, barrier, &MBarrier::address) - b.mbarriers.begin()),
      m.phase,
      0,
      self().thread.linear,
      here};
  const size_t bytes = size_t{map.rows} * kRowBytes;
  check_box(load, "tma_load", &Row::end);
  check_proxy(b, shared, bytes, "the destination of a load", here);
  for (uint32_t row = 0; row < map.rows; ++row) {
    const Row line = row_of(load, row);
    sanitizer::reads(line.tensor + line.begin, static_cast<size_t>(line.end - line.begin));
  }
  sanitizer::writes(shared, bytes);
  sanitizer::release(&m.order_tags[m.phase % 2]);
  if (b.geometry.copies_early) {
    land(load);
    land_bytes(b, load, static_cast<int64_t>(bytes));
    return;
  }
  sanitizer::fill(shared, 0xFF, bytes);
  sanitizer::undefine(shared, bytes);
  const sanitizer::Unseen books;
  b.loads.push_back(load);
}

bool land_load(Block& b) {
  if (b.loads.empty()) return false;
  const size_t last = b.loads.size() - 1;
  const size_t next = b.order == Order::kAscending    ? 0
                      : b.order == Order::kDescending ? last
                                                      : b.random.next() % (last + 1);
  const TensorCopy load = take(b.loads, next);
  const size_t bytes = size_t{load.map.rows} * kRowBytes;
  check_untouched(load, bytes);
  land(load);
  land_bytes(b, load, static_cast<int64_t>(bytes));
  return true;
}

void check_loads(Block& b) {
  if (b.loads.empty()) return;
  const TensorCopy& load = b.loads.front();
  record_fault(b, ATTN_REPORT_ASYNC, b.lane(load.thread).thread.index, load.here,
               "the block ended with %zu loads under way that nobody waited for", b.loads.size());
}

void tma_store(const TensorMap& map, const void* shared, const int32_t (&at)[4], Place here) {
  Block& b = running();
  Lane& me = self();
  TensorCopy store{map,
                   {at[0], at[1], at[2], at[3]},
                   static_cast<unsigned char*>(const_cast<void*>(shared)),
                   0,
                   0,
                   me.stores.open_group,
                   me.thread.linear,
                   here};
  const size_t bytes = size_t{map.rows} * kRowBytes;
  check_box(store, "tma_store", &Row::stored);
  check_proxy(b, shared, bytes, "what a store reads", here);
  sanitizer::reads(shared, bytes);
  b.asynchronous = true;
  if (b.geometry.copies_early) write_out(store);
  me.stores.stores.push_back(store);
}

void bulk_commit(Place) { ++self().stores.open_group; }

void bulk_wait_read(uint32_t groups_left, Place) {
  Lane& me = self();
  auto& stores = me.stores.stores;
  auto store = stores.begin();
  for (; store != stores.end() && store->group + groups_left < me.stores.open_group; ++store) {
    // For ThreadSanitizer this is a read of the source, whenever the copy was made.
    if (me.thread.geometry->copies_early) {
      sanitizer::reads(store->shared, size_t{store->map.rows} * kRowBytes);
    } else {
      write_out(*store);
    }
  }
  stores.erase(stores.begin(), store);
}

void check_stores(Block& b, Lane& lane) {
  const TensorCopy& store = lane.stores.stores.front();
  record_fault(b, ATTN_REPORT_ASYNC, lane.thread.index, store.here,
               "the thread ended with %zu stores of boxes that it never waited for%s",
               lane.stores.stores.size(), store.group == lane.stores.open_group ? ", nor committed" : "");
}

void fence_proxy_async(Place) { ++self().proxy_fences; }

void note_generic_write(const void* shared, const Lane& writer) {
  Block& b = running();
  const size_t chunk = chunk_of(shared);
  if (chunk >= kSharedCapacity / 16)
    return;  // a static array, or in tests one of the host: no proxy reads these
  if (chunk >= b.generic_writes.size()) {
    const sanitizer::Unseen books;
    b.generic_writes.resize(chunk + 1024);
  }
  b.generic_writes[chunk] = write_mark(writer);
}

void generic_write16(const void* shared, int lane) {
  Block& b = running();
  b.asynchronous = true;
  note_generic_write(shared, b.lane(self().warp->number * kWarpSize + static_cast<uint32_t>(lane)));
}

void check_proxy(Block& b, const void* shared, size_t bytes, const char* what, Place here) {
  const size_t first = chunk_of(shared), end = std::min(first + bytes / 16, b.generic_writes.size());
  for (size_t chunk = first; chunk < end; ++chunk) {
    const uint32_t mark = b.generic_writes[chunk];
    if (!mark) continue;
    const Lane& writer = b.lane((mark >> 20) - 1);
    if (mark != write_mark(writer)) continue;
    const Index thread = writer.thread.index;
    fault(ATTN_REPORT_ASYNC, &self().thread, here,
          "%s at %p was written by thread (%u,%u,%u), which has not called fence_proxy_async since", what,
          static_cast<void*>(shared_base() + chunk * 16), thread.x, thread.y, thread.z);
  }
}

}  // namespace simt

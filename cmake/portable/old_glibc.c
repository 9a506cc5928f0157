// Functions that the static C++ runtime takes from glibc 2.35 and 2.36, for machines that have an older one: Ubuntu
// 22.04 has 2.35, RHEL 9 has 2.34. Every program and library is linked with them (AttnfuzzBundle.cmake), hidden, so
// that none asks the C library for a version above 2.34. tests/python/wheel.sh reads the versions.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#define HIDDEN __attribute__((visibility("hidden")))

// std::random_device of libstdc++ calls it.
HIDDEN uint32_t arc4random(void) {
  uint32_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number) abort();
  return number;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
// libgcc finds an object's unwind table with it. The C library's own version takes no lock. If
// there is none, this one searches the loaded objects.
static int (*of_the_c_library)(void*, struct dl_find_object*);

__attribute__((constructor)) static void find_the_c_librarys(void) {
  *(void**)&of_the_c_library = dlsym(RTLD_DEFAULT, "_dl_find_object");
}

struct Search {
  uintptr_t address;
  struct dl_find_object* found;
};

static int visit(struct dl_phdr_info* object, size_t size, void* argument) {
  (void)size;
  const struct Search* search = argument;
  const ElfW(Phdr)* holds = NULL;
  const ElfW(Phdr)* unwinding = NULL;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD && search->address - begin < part->p_memsz) holds = part;
    if (part->p_type == PT_GNU_EH_FRAME) unwinding = part;
  }
  if (holds == NULL || unwinding == NULL) return 0;
  struct dl_find_object* found = search->found;
  *found = (struct dl_find_object){0};
  found->dlfo_map_start = (void*)(object->dlpi_addr + holds->p_vaddr);
  found->dlfo_map_end = (void*)(object->dlpi_addr + holds->p_vaddr + holds->p_memsz);
  found->dlfo_eh_frame = (void*)(object->dlpi_addr + unwinding->p_vaddr);
  return 1;
}

HIDDEN int _dl_find_object(void* address, struct dl_find_object* found) {
  if (of_the_c_library != NULL) return of_the_c_library(address, found);
  struct Search search = {(uintptr_t)address, found};
  return dl_iterate_phdr(visit, &search) == 1 ? 0 : -1;
}
#endif

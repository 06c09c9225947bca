/* elf.h: weights inside a shared library as a load segment of their own.
 *
 * The linker places the small section `.cresset.weights` far above everything else, which gives it a segment of its
 * own. Making that segment longer afterwards and putting its bytes at the end of the file needs no room anywhere else,
 * costs one write of the weights, and survives strip and objcopy because the section says the same as the segment. */
#ifndef CR_ELF_H
#define CR_ELF_H

#include "base/base.h"

#define CR_ELF_SECTION ".cresset.weights"
enum { CR_ELF_WEIGHTS_AT = 0x1000000, CR_ELF_MOST_ALIGNMENT = 0x10000 };

/* Where in a file the section's bytes and the fields that state its place and size are; what a page of the target is at
 * most. */
typedef struct cr_elf_spot { uint64_t bytes, size, segment, section, alignment; } cr_elf_spot;

/* False: no 64-bit little-endian library with that section alone in the last segment (another linker's idea of it). Any
 * bytes are safe. */
bool cr_elf_find(const uint8_t *data, size_t size, cr_elf_spot *out);
/* The spot alone in its segment is not needed for this: only where the section's bytes are. */
bool cr_elf_find_section(const uint8_t *data, size_t size, cr_elf_spot *out);
/* Patches the fields in `data` so that the section is `bytes` bytes at `offset`. */
void cr_elf_grow(uint8_t *data, const cr_elf_spot *spot, uint64_t offset, uint64_t bytes);

#endif

/* elf.c: see elf.h. Field offsets are those of the 64-bit ELF header, program header and section header. */
#include "emit/elf.h"

enum {
    HEADER = 64, SEGMENT = 56, SECTION = 64, LOAD = 1,
    E_PHOFF = 32, E_SHOFF = 40, E_PHENTSIZE = 54, E_PHNUM = 56, E_SHENTSIZE = 58, E_SHNUM = 60, E_SHSTRNDX = 62,
    P_OFFSET = 8, P_VADDR = 16, P_FILESZ = 32, P_MEMSZ = 40, P_ALIGN = 48, S_ADDR = 16, S_OFFSET = 24, S_SIZE = 32,
};

static uint64_t number(const uint8_t *at, int bytes) {
    uint64_t n = 0;
    for (int i = 0; i < bytes; i++) n |= (uint64_t)at[i] << (8 * i);
    return n;
}

static void store(uint8_t *at, uint64_t n) {
    for (int i = 0; i < 8; i++) at[i] = (uint8_t)(n >> (8 * i));
}

/* Entries of `each` bytes at `at` that lie in the file. */
static bool inside(size_t size, uint64_t at, uint64_t count, uint64_t each) {
    return at <= size && count <= (size - at) / each;
}

bool cr_elf_find_section(const uint8_t *data, size_t size, cr_elf_spot *out) {
    static const char name[] = CR_ELF_SECTION;
    static const uint8_t magic[] = { 0x7f, 'E', 'L', 'F', 2, 1 };
    if (size < HEADER || memcmp(data, magic, sizeof magic)) return false;
    uint64_t at = number(data + E_SHOFF, 8), count = number(data + E_SHNUM, 2), names = number(data + E_SHSTRNDX, 2);
    if (number(data + E_SHENTSIZE, 2) != SECTION || !inside(size, at, count, SECTION) || names >= count) return false;
    uint64_t text = number(data + at + names * SECTION + S_OFFSET, 8),
             texts = number(data + at + names * SECTION + S_SIZE, 8);
    if (!inside(size, text, texts, 1)) return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t section = at + i * SECTION, called = number(data + section, 4);
        if (called > texts || texts - called < sizeof name || memcmp(data + text + called, name, sizeof name)) continue;
        *out = (cr_elf_spot){ number(data + section + S_OFFSET, 8), number(data + section + S_SIZE, 8), 0, section, 0 };
        return inside(size, out->bytes, out->size, 1);
    }
    return false;
}

bool cr_elf_find(const uint8_t *data, size_t size, cr_elf_spot *out) {
    if (!cr_elf_find_section(data, size, out)) return false;
    uint64_t at = number(data + E_PHOFF, 8), count = number(data + E_PHNUM, 2),
             address = number(data + out->section + S_ADDR, 8);
    if (number(data + E_PHENTSIZE, 2) != SEGMENT || !inside(size, at, count, SEGMENT)) return false;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t segment = at + i * SEGMENT;
        if (number(data + segment, 4) != LOAD) continue;
        uint64_t start = number(data + segment + P_VADDR, 8);
        if (start > address) return false;
        if (start + number(data + segment + P_MEMSZ, 8) <= address) continue;
        if (start != address || number(data + segment + P_FILESZ, 8) != out->size ||
            number(data + segment + P_MEMSZ, 8) != out->size)
            return false;
        out->segment = segment;
        out->alignment = number(data + segment + P_ALIGN, 8);
    }
    uint64_t a = out->alignment;
    return out->segment && a && a <= CR_ELF_MOST_ALIGNMENT && !(a & (a - 1)) && !(address & (a - 1));
}

void cr_elf_grow(uint8_t *data, const cr_elf_spot *spot, uint64_t offset, uint64_t bytes) {
    store(data + spot->segment + P_OFFSET, offset);
    store(data + spot->segment + P_FILESZ, bytes);
    store(data + spot->segment + P_MEMSZ, bytes);
    store(data + spot->section + S_OFFSET, offset);
    store(data + spot->section + S_SIZE, bytes);
}

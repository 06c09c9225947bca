/* pickle_internal.h: the machine of the pickle reader, shared by pickle.c (opcodes), pickle_names.c (what names may
 * build), pickle_check.c (the finished value) and pickle_torch.c (torch.save files). */
#ifndef CR_PICKLE_INTERNAL_H
#define CR_PICKLE_INTERNAL_H

#include "archive/pickle.h"

/* A value while it is built. Containers grow at their end only and never change an entry, so that a value made of
 * another's items (set([1, 2])) borrows them as they are at that time. */
typedef struct cr__pickle_value {
    cr_pickle pub;       /* first: public pointers are pointers to this */
    uint32_t cap;        /* of pub.u.items; 0 with n > 0: borrowed, never grows */
    uint16_t height;     /* levels below, itself included; known when state is CR__PICKLE_CHECKED */
    uint8_t state;
    uint64_t weight;     /* of the value written out: one each value, and its texts */
    const struct cr__pickle_name *name; /* pub.kind CR__PICKLE_NAME */
} cr__pickle_value;
enum { CR__PICKLE_NAME = CR_PICKLE_KIND_COUNT }; /* a class or function of the table: never part of a result */
enum { CR__PICKLE_NEW, CR__PICKLE_ACTIVE, CR__PICKLE_CHECKED };

typedef struct cr__pickle_machine {
    cr_arena *arena;
    const uint8_t *data, *operand; /* operand: fixed bytes of the opcode that runs */
    size_t size, pos, at;          /* next byte; byte of the opcode that runs */
    const char *opcode;            /* its name */
    CR_VEC(cr__pickle_value *) stack;
    CR_VEC(size_t) marks;          /* stack heights */
    CR_VEC(cr__pickle_value *) memo;
    size_t memo_count;
    CR_VEC(const cr_pickle_storage *) storages;
    cr_map storage_keys;           /* key -> index in storages */
    uint64_t weight_limit;
    cr__pickle_value *result;
} cr__pickle_machine;

/* A name that a pickle may use. `call` makes a value from the arguments (a TUPLE) of REDUCE; NULL: can only be
 * mentioned. */
typedef struct cr__pickle_name {
    const char *module, *name;
    cr_status (*call)(cr__pickle_machine *m, const struct cr__pickle_name *self, const cr__pickle_value *args,
                      cr__pickle_value **out);
    int data;
} cr__pickle_name;

/* Its value is `code` itself, so that the compiler sees that it is no success. */
#define CR__PICKLE_FAIL(m, code, ...)                                                                                  \
    ((void)cr_error_context(CR_FAIL((code), __VA_ARGS__), "byte %zu (%s)", (m)->at, (m)->opcode), (code))

/* NULL: out of memory. */
cr__pickle_value *cr__pickle_new(cr__pickle_machine *m, int kind);
cr__pickle_value *cr__pickle_text(cr__pickle_machine *m, int kind, const char *text, size_t n);
/* A name of the table, or the value it stands for (torch.float32). CR_EUNSUPPORTED names what is not there. */
CR_NODISCARD cr_status cr__pickle_resolve(cr__pickle_machine *m, const char *module, size_t module_n, const char *name,
                                          size_t name_n, cr__pickle_value **out);
/* What a persistent id stands for: torch's storages. */
CR_NODISCARD cr_status cr__pickle_persistent(cr__pickle_machine *m, const cr__pickle_value *id, cr__pickle_value **out);
/* The finished value: no cycles, bounded depth and weight, hashable keys that differ, no bare names. */
CR_NODISCARD cr_status cr__pickle_check(cr__pickle_machine *m, cr__pickle_value *root);
/* cr_pickle_parse, and the storages in order of their index, in `arena`. */
CR_NODISCARD cr_status cr__pickle_parse(cr_arena *arena, const void *data, size_t size, const cr_pickle **out,
                                        const cr_pickle_storage *const **storages, size_t *nstorages);

#endif

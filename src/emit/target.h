/* target.h: what a kind of machine is to the compiler.
 *
 * One cr_target for each kind, in a file of its own (target_x86.c, target_arm64.c, ...), all listed in target.c.
 * Whatever differs between machines is data or a function here: nothing else in src/emit, src/lower or src/cli asks
 * which machine it is. Processors share most of it (target_cpu.c). A *build* is what one compilation takes of a
 * target.
 *
 *     cr_build b;
 *     CR_TRY(cr_build_parse("aarch64-linux-gnu", &b));
 *     b.target->print_choices(&text, &b, &lowered->model);
 *
 * src/emit/README.md says what a device would put into each field. */
#ifndef CR_EMIT_TARGET_H
#define CR_EMIT_TARGET_H

#include "lower/lower.h"

struct cr_build;
enum { CR_ROW_NAME = 64, CR_MOST_ISAS = 4, CR_MOST_FLAGS = 8 };

/* An instruction set that kernels are compiled for. */
typedef struct cr_isa {
    const char *name;  /* "portable", "avx2": part of kernels' names, and what CRESSET_ISA may say */
    const char *level; /* its place in rt_rows.fn */
    const char *loops; /* how the runtime's tables of loops end: rt__block_base, rt__post_base */
    const char *files; /* how the runtime's files end that are compiled for it; NULL: all that are for no other one */
    uint32_t needs;    /* RT_CPU_* */
    const char *flags[CR_MOST_FLAGS]; /* of the compiler; ends with NULL */
} cr_isa;

/* The memory that buffers live in. */
typedef struct cr_space {
    const char *section; /* of the weights in a library; the linker gives it a segment of its own (elf.h) */
    int alignment;       /* of the weights and of every block that a run asks for */
} cr_space;

/* What kernels are written in and who compiles it. Lists of flags end with NULL. */
typedef struct cr_language {
    const char *suffix; /* of the file of a unit */
    /* The header with the words of row kernels; W in it is how many elements a step of a loop takes. */
    const char *vocabulary;
    const char *const *flags, *const *kernel_flags, *const *link_flags; /* tables and kernels; kernels; the library */
    /* The functions of all row kernels, equal ones once. names: one per kernel of l. */
    cr_status (*print_kernels)(const cr_lowered *l, cr_str *out, char (*names)[CR_ROW_NAME]);
    /* The compiler: `given`, or the usual one. Caller frees. CR_ETOOLCHAIN says what to install. */
    cr_status (*find_compiler)(const char *given, const char *triple, char **out);
} cr_language;

typedef struct cr_target {
    const char *name;          /* "x86-64" */
    const char *triples;       /* how its triples begin: "x86_64-"; NULL: those that nobody else knows */
    const char *macro;         /* that its C compilers define; NULL: none is needed */
    int machine;               /* ELF's number; 0: any */
    bool is_here;              /* what this library runs on */
    bool flags_decide;         /* whoever compiles the text chooses the instructions */
    const cr_isa *const *isas; /* narrowest first; ends with NULL */
    const cr_space *memory;
    const cr_language *language;
    const cr_fuse_limits *fuse; /* what one kernel may hold */
    /* How steps reach row kernels: declarations, and ROWS(name), which initialises rt_rows.fn. `apart`: kernels are
     * units of their own, once for each instruction set. */
    void (*print_launches)(cr_str *out, const struct cr_build *b, char (*names)[CR_ROW_NAME], size_t n, bool apart);
    /* The runtime's choices (RT_CHOICE) for this model. */
    void (*print_choices)(cr_str *out, const struct cr_build *b, const rt_model *model);
    /* What this machine's processor has, for `cresset doctor`: words, each with a space before it; NULL: nothing. */
    void (*describe)(cr_str *out);
} cr_target;

/* All targets, ends with NULL; the last takes every triple. */
extern const cr_target *const cr_targets[];
extern const cr_target cr_target_x86, cr_target_arm64, cr_target_riscv, cr_target_other;
/* C source: no more than every processor has, unless its compiler is told so. */
extern const cr_target cr_target_source;
const cr_target *cr_target_here(void);

/* What one compilation takes of a target. */
typedef struct cr_build {
    const cr_target *target;
    char name[64];                    /* as the api says it: "x86-64", "x86-64+avx512", or the triple */
    const char *triple;               /* of a cross compiler; NULL: this machine's kind */
    const cr_isa *isas[CR_MOST_ISAS]; /* vector code is compiled once for each; the last is the widest */
    int nisas;
    uint32_t needs; /* RT_CPU_*: without these it refuses to start */
} cr_build;
/* "multi" (NULL: the same; any processor of this machine's kind), "native" (processors like this one), or a triple such
 * as aarch64-linux-gnu. CR_EVALUE: nothing of that. */
CR_NODISCARD cr_status cr_build_parse(const char *text, cr_build *out);
void cr_build_source(cr_build *out);
/* What lowering must know of the target that `text` names. */
CR_NODISCARD cr_status cr_build_lowering(const char *text, cr_lower_options *out);

/* The set that a file of the runtime is compiled for; NULL: any. */
const cr_isa *cr__isa_of_file(const char *file);
bool cr__target_has(const cr_target *t, const cr_isa *isa);

/* ---- of processors (target_cpu.c, choices.c) ---- */
extern const cr_isa cr__isa_portable;
extern const cr_isa *const cr__isas_portable[]; /* it alone */
extern const cr_space cr__memory_host;
extern const cr_language cr__language_c;
void cr__cpu_print_launches(cr_str *out, const cr_build *b, char (*names)[CR_ROW_NAME], size_t n, bool apart);
void cr__cpu_print_choices(cr_str *out, const cr_build *b, const rt_model *model);
#define CR__CPU                                                                          \
    .memory = &cr__memory_host, .language = &cr__language_c, .fuse = &cr_fuse_processor, \
    .print_launches = cr__cpu_print_launches, .print_choices = cr__cpu_print_choices

#endif

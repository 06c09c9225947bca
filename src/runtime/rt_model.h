/* rt_model.h: a compiled model as tables, and what runs them.
 *
 * The host program of a model is data, not code: a table of steps over views of buffers, with every size a *number
 * slot*. The tables are constant, position-independent but for kernel addresses, and shared by all instances and
 * threads; `-o x.c` prints exactly these structs. The same tables run in the process that made them, which is how
 * lowering is tested.
 *
 * Numbers: one 64-bit slot each, integers and bools as they are, floats as their bits. The first `nconstants` come from
 * a table, then those bound from the inputs' sizes, then what NUMBERS steps compute and kernels count. A buffer is an
 * input, a weight, a mutable buffer, scratch of the call's arena, or a result; a view is a window on one, its sizes,
 * strides and offset being slots. Views of views cost nothing at run time: only the tables know. */
#ifndef CRESSET_RT_MODEL_H
#define CRESSET_RT_MODEL_H

#include "cresset/abi.h"
#include "runtime/rt.h"
#include "runtime/rt_block.h"
#include "runtime/rt_rows.h"

/* ---- numbers ---- */
#define RT_NUMBER_OPS(X)                                                                                               \
    X(ADD) X(SUB) X(MUL) X(FLOORDIV) X(MOD) X(CEILDIV) X(TRUNCDIV) X(CMOD) X(POW) X(MIN) X(MAX) X(ABS)                 \
    X(EQ) X(NE) X(LT) X(LE) X(AND) X(OR) X(NOT) X(WHERE) X(BITAND) X(BITOR)                                           \
    X(TOFLOAT) X(FADD) X(FSUB) X(FMUL) X(FDIV) X(FPOW) X(FMIN) X(FMAX) X(FSQRT) X(FEQ) X(FNE) X(FLT) X(FLE)            \
    X(FFLOORDIV) X(FMOD) X(FLOOR) X(CEIL) X(TRUNC) X(ROUND)
typedef enum rt_number_kind {
#define X(ID) RT_N_##ID,
    RT_NUMBER_OPS(X)
#undef X
    RT_NUMBER_KIND_COUNT
} rt_number_kind;
typedef struct rt_number { uint8_t kind; int32_t out, a, b, c; } rt_number;

/* ---- memory ---- */
#define RT_BUFFERS(X) X(INPUT) X(WEIGHT) X(STATE) X(SCRATCH) X(RESULT)
enum {
#define X(ID) RT_BUFFER_##ID,
    RT_BUFFERS(X)
#undef X
};
typedef struct rt_buffer {
    uint8_t kind;
    /* SCRATCH, RESULT: its size is known only after some step: allocated there, not in the arena */
    bool late;
    int32_t index;        /* which input, state entry or output */
    int32_t bytes;        /* slot; SCRATCH and RESULT */
    int32_t first, last;  /* SCRATCH: steps between which it lives, inclusive */
    uint64_t offset;      /* WEIGHT: in the file of weights */
} rt_buffer;
/* dims: rank sizes, then rank strides, in method->dims */
typedef struct rt_window { int32_t buffer, offset, dims; uint8_t dtype, rank; } rt_window;

/* ---- steps ---- */
#define RT_OPERANDS(X)                                                                                                 \
    X(NONE) X(WINDOW) X(WINDOWS) X(INT) X(FLOAT) X(COMPLEX) X(INTS) X(FLOATS) X(STR) X(GENERATOR)
enum {
#define X(ID) RT_A_##ID,
    RT_OPERANDS(X)
#undef X
};
/* An argument of a kernel: `at` is a window, a slot, or the first of `n` entries of method->lists (windows, -1 =
 * absent; slots) or a text of method->texts. */
typedef struct rt_operand_ref { uint8_t kind; uint32_t n; int32_t at; } rt_operand_ref;
/* Enumerator, and what u holds of it.
 *   KERNEL   u.kernel(args) -> outs
 *   COUNT    the same kernel's count phase: writes `nout` slots, listed at `outs`
 *   BLOCK    u.program over windows args[0 .. nin), constants args[nin ..) (slots) -> outs
 *   COPY     outs[0] = args[0], converting
 *   NUMBER   the kernel's number result -> slot outs[0]
 *   NUMBERS  u.numbers[0 .. nargs)
 *   FILL     window outs[0] = slot args[0]
 *   CHECK    fails with text args[1] unless slot args[0] is true
 *   ROWS     u.rows over windows args, then outs, all of the domain's sizes
 *   CUSTOM   host->ops[ncarried](args) -> outs, which are row-major; an INT argument with n = 1 is a bool
 *   COND     u.bodies[0] if slot args[0], else u.bodies[1]; operands args[1 ..); results to outs. A window's `n` has a
 *            bit for each dimension whose slot the result gives
 *   WHILE    while u.bodies[0](carried) do carried = u.bodies[1](carried); carried args[0 .. nout), captured
 *            args[nout ..); results to outs
 *   SCAN     u.bodies[0] over slices of dimension 0: args are ncarried carried ones, nslices to cut, the rest captured;
 *            the body gives the carried ones and a slice of every further result
 *   FOLD     out[0] = args[0], out[i] = u.bodies[0](out[i - 1], args[i]), by slices of dimension 0: nslices args to
 *            cut, the rest captured */
#define RT_STEPS(X)                                                                                                    \
    X(KERNEL, kernel) X(COUNT, kernel) X(BLOCK, program) X(COPY, nothing) X(NUMBER, kernel) X(NUMBERS, numbers)        \
    X(FILL, nothing) X(CHECK, nothing) X(ROWS, rows) X(CUSTOM, nothing)                                                \
    X(COND, bodies) X(WHILE, bodies) X(SCAN, bodies) X(FOLD, bodies)
enum {
#define X(ID, member) RT_STEP_##ID,
    RT_STEPS(X)
#undef X
};
/* how many u.bodies has */
#define RT_STEP_BODIES(kind) ((kind) < RT_STEP_COND ? 0 : (kind) < RT_STEP_SCAN ? 2 : 1)
struct rt_method;
typedef struct rt_step {
    uint8_t kind;
    uint16_t nargs, nout;
    uint16_t ncarried, nslices; /* SCAN, FOLD */
    int32_t args;   /* in method->args */
    /* in method->lists: windows (slots for COUNT and NUMBER); of COND, WHILE and SCAN: rt_operand_ref in method->args
     * at outs */
    int32_t outs;
    int32_t origin; /* in method->origins: graph node, source line */
    union {
        rt_kernel *kernel;
        const rt_program *program;
        const rt_rows *rows;
        const rt_number *numbers;
        const struct rt_method *const *bodies;
    } u;
    /* COND: numbers that follow from the sizes of its results, computed before these are stored */
    const rt_number *after;
    int32_t nafter;
} rt_step;

/* What an input must be like and which slots it binds. */
typedef struct rt_input {
    uint8_t kind;            /* CRESSET_TENSOR, INT, ... */
    int32_t window;          /* TENSOR: its expected layout; other strides are copied in at entry */
    int32_t slot;            /* INT, FLOAT, BOOLEAN: where the number goes */
    bool is_constant;        /* must equal slot (numbers), text (strings), or be None */
    bool written;            /* TENSOR: steps write it; what was copied in is copied back */
    int32_t text;
} rt_input;
/* Binds slot `slot` to size `dim` of input `input` (dim -1: the number itself), or, when `bound` already, checks that
 * they agree. */
typedef struct rt_bind { int32_t input, dim, slot; bool check; int64_t min, max; } rt_bind;
typedef struct rt_output { uint8_t kind; int32_t at; } rt_output; /* CRESSET_TENSOR: window; numbers: slot; NONE */

typedef struct rt_method {
    const cresset_method_info *info;      /* NULL: a body */
    int32_t nslots, nconstants;
    const int64_t *constants;
    const rt_input *inputs;    int32_t ninputs;
    const rt_bind *binds;      int32_t nbinds;
    const rt_number *entry;    int32_t nentry;   /* computed from the bound slots before the first step */
    const rt_buffer *buffers;  int32_t nbuffers;
    const rt_window *windows;  int32_t nwindows;
    const int32_t *dims;
    const rt_operand_ref *args;
    const int32_t *lists;
    const char *const *texts;
    const rt_step *steps;      int32_t nsteps;
    const rt_output *outputs;  int32_t noutputs;
    bool writes_state;                           /* runs of one instance exclude each other */
    const char *const *origins;
} rt_method;

/* A file of weights: these 8 bytes, the model's id in 56 more, the weights. */
#define RT_WEIGHTS_MAGIC { 'C', 'R', 'S', 'T', 'W', 'G', 'T', '1' }

/* offset RT_STATE_ZERO: it starts as zeros, of which no bytes are stored. */
#define RT_STATE_ZERO UINT64_MAX
typedef struct rt_state { const char *name; uint64_t offset, bytes; uint8_t dtype; bool is_mutable; } rt_state;
typedef struct rt_model {
    const rt_method *const *methods; int32_t nmethods;
    const rt_state *states;          int32_t nstates;   /* mutable ones start as copies of their weights */
    const uint8_t *weights;          uint64_t weight_bytes; /* NULL: in a file beside, checked against `id` */
    const char *id;
    uint32_t isa;                    /* RT_CPU_*: what the processor must have; 0: anything */
    const cresset_op_need *ops;      int32_t nops; /* what CUSTOM steps call */
} rt_model;

/* Computes the numbers in order. RT_ERUNTIME: a division by zero or an overflow. */
int rt_numbers_run(const rt_ctx *ctx, const rt_number *numbers, int32_t n, int64_t *slots);

/* What a run needs besides its method: an instance fills it, a test may. */
typedef struct rt_host {
    const uint8_t *weights;
    uint8_t *const *state;     /* one per rt_state that is mutable, else NULL */
    rt_generator *generator;
    struct rt_layouts *layouts; /* kept arena plans; NULL: planned in every run */
    /* NULL: nobody watches */
    void (*profile)(void *user, int32_t method, int32_t step, const char *origin, double seconds);
    void *profile_user;
    int32_t method;             /* for `profile` */
    const cresset_op_function *ops; /* one per rt_model.ops */
} rt_host;
/* Checks the inputs, runs the steps, gives the outputs; see abi.h. */
int rt_method_run(const rt_ctx *ctx, const rt_method *method, const rt_host *host, const cresset_value *inputs,
                  int32_t ninputs, cresset_value *outputs, int32_t noutputs);
void rt_value_release(const rt_ctx *ctx, cresset_value *value);

/* What a caller of abi.h hands over (rt_values.c): RT_EVALUE and a message unless it can be what it says. */
int rt_value_check_struct(const rt_ctx *ctx, const char *role, const char *name, const cresset_value *v);
int rt_value_check_alignment(const rt_ctx *ctx, const char *role, const char *name, int dtype, const void *data);
/* Sizes, strides and address of an input tensor whose dtype and rank are right. */
int rt_value_check_memory(const rt_ctx *ctx, const char *name, const cresset_value *v);
/* Bytes from the first element to the end of the last one (0: no elements); false when these, or those of all elements
 * side by side, are more than 63 bits say. stride NULL: row-major. */
bool rt_bytes_reached(int dtype, int rank, const int64_t *size, const int64_t *stride, int64_t *bytes);

/* The last few arena plans of a method, by the sizes that were bound. Thread-safe. */
typedef struct rt_layouts rt_layouts;
rt_layouts *rt_layouts_create(const rt_ctx *ctx, int32_t nmethods);
void rt_layouts_after_fork(rt_layouts *l); /* in the child, before it is used: its lock may be nobody's */
void rt_layouts_release(const rt_ctx *ctx, rt_layouts *l);

/* The functions of cresset_api. */
int rt_api_create(const cresset_api *api, const cresset_options *options, cresset_instance **out, char *message,
                  size_t room);
void rt_api_destroy(cresset_instance *instance);
int rt_api_run(cresset_instance *instance, int32_t method, const cresset_value *inputs, int32_t ninputs,
               cresset_value *outputs, int32_t noutputs, char *message, size_t room);
void rt_api_release(cresset_instance *instance, cresset_value *value);
int rt_api_get_state(cresset_instance *instance, const char *name, void *data, size_t capacity, char *message,
                     size_t room);
int rt_api_set_state(cresset_instance *instance, const char *name, const void *data, size_t size, char *message,
                     size_t room);
void rt_api_seed(cresset_instance *instance, uint64_t seed);
void rt_api_profile(cresset_instance *instance,
                    void (*step)(void *user, int32_t method, int32_t step, const char *origin, double seconds),
                    void *user);
/* Of a library that trains (rt_checkpoint.c). */
int rt_api_save(cresset_instance *instance, const char *path, int32_t what, char *message, size_t room);
int rt_api_load(cresset_instance *instance, const char *path, char *message, size_t room);
int rt_api_get_random(cresset_instance *instance, void *bytes, size_t capacity, char *message, size_t room);
int rt_api_set_random(cresset_instance *instance, const void *bytes, size_t size, char *message, size_t room);
/* The part of a cresset_api that is the same for every model. */
#define RT_API_FUNCTIONS                                                                              \
    .struct_size = sizeof(cresset_api), .major = CRESSET_ABI_MAJOR, .minor = CRESSET_ABI_MINOR,       \
    .create = rt_api_create, .destroy = rt_api_destroy, .run = rt_api_run, .release = rt_api_release, \
    .get_state = rt_api_get_state, .set_state = rt_api_set_state, .seed = rt_api_seed, .profile = rt_api_profile
/* And of one that trains, or whose generator somebody else keeps. */
#define RT_API_DRAWS .get_random = rt_api_get_random, .set_random = rt_api_set_random
#define RT_API_TRAINS .save = rt_api_save, .load = rt_api_load, RT_API_DRAWS
/* How an api finds its tables: emitted code makes one of these, with the api first. */
typedef struct rt_library { cresset_api api; const rt_model *model; } rt_library;

#endif

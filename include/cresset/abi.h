/* abi.h: how a program calls a model that `cresset compile` made. Stands alone: C99 or C++, nothing of Cresset is
 * needed.
 *
 *     #include "cresset/abi.h"                                          // link with libmodel.so, or dlopen it
 *     const cresset_api *api = cresset_model(CRESSET_ABI_MAJOR);        // NULL: made for another major version
 *     cresset_instance *model;
 *     char message[256];
 *     if (api->create(api, NULL, &model, message, sizeof message)) return fail(message);
 *     int64_t size[] = { 1, 8, 8 };
 *     cresset_value x = { .struct_size = sizeof x, .kind = CRESSET_TENSOR, .dtype = CRESSET_F32, .rank = 3,
 *                         .size = size, .data = pixels };
 *     cresset_value y[2] = { { .struct_size = sizeof x }, { .struct_size = sizeof x } }; // data NULL: it allocates
 *     if (api->run(model, 0, &x, 1, y, 2, message, sizeof message)) return fail(message);
 *     use(y[1].data, y[1].size);
 *     api->release(model, &y[0]);
 *     api->release(model, &y[1]);
 *     api->destroy(model);
 *
 * Every function returns CRESSET_OK or a code, and writes one line to `message` when it fails (truncated to the given
 * room; NULL is allowed). Null pointers, structs of another size, wrong dtypes, ranks, sizes outside the exported
 * range, strides that are negative or reach beyond the address space, data that is not aligned to its elements, too
 * little room for an output and unknown methods are refused with such a message, before anything is written. Structs
 * that a caller fills start with their size: a cresset_value has exactly this one, options may be longer (a later minor
 * version's).
 *
 * A library may be closed (dlclose) while it has instances: it stays loaded until the last of them is destroyed.
 *
 * Threads: an instance may be run from several threads at a time. Runs of one instance that keep state (mutable
 * buffers) wait for each other; instances never do. Instances of one library share the weights. After fork, a child may
 * use the instances it inherited. */
#ifndef CRESSET_ABI_H
#define CRESSET_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CRESSET_ABI_MAJOR 1
#define CRESSET_ABI_MINOR 3

enum {
    CRESSET_OK = 0,
    CRESSET_OUT_OF_MEMORY = 1,
    CRESSET_BAD_ARGUMENT = 2, /* a null pointer, a wrong count, an unknown method or name */
    CRESSET_BAD_INPUT = 3,    /* an input of another kind, dtype, rank or size than the model takes */
    CRESSET_RUN_FAILED = 4,   /* an index out of range, an assertion of the model, a division by zero */
    CRESSET_BAD_WEIGHTS = 5,  /* the file of weights is missing, damaged or another model's, or cannot be written */
    CRESSET_BAD_CPU = 6       /* compiled for instructions that this machine does not have */
};

/* Element types. */
enum {
    CRESSET_U8, CRESSET_I8, CRESSET_I16, CRESSET_I32, CRESSET_I64, CRESSET_F16, CRESSET_F32, CRESSET_F64, CRESSET_C32,
    CRESSET_C64, CRESSET_C128, CRESSET_BOOL, CRESSET_BF16, CRESSET_U16, CRESSET_U32, CRESSET_U64, CRESSET_F8E4M3FN,
    CRESSET_F8E5M2, CRESSET_F8E4M3FNUZ, CRESSET_F8E5M2FNUZ, CRESSET_F8E8M0FNU
};

enum { CRESSET_NONE, CRESSET_TENSOR, CRESSET_INT, CRESSET_FLOAT, CRESSET_BOOLEAN, CRESSET_STRING };

/* One input or output. */
typedef struct cresset_value {
    size_t struct_size;      /* sizeof(cresset_value): also in outputs, before the call */
    int32_t kind;            /* of an output: written by the call */
    int32_t dtype, rank;
    void *data;              /* first element; of an output: NULL, and the library allocates, or room for the result */
    const int64_t *size;     /* `rank` numbers */
    const int64_t *stride;   /* in elements; NULL: row-major */
    int64_t integer;         /* CRESSET_INT, CRESSET_BOOLEAN */
    double number;           /* CRESSET_FLOAT */
    size_t capacity;         /* of an output with room: bytes at `data` */
    void *owner;             /* the library's; not to be touched */
} cresset_value;

/* Since 1.2. A call of a custom operator: what its functions get (library.h says how they are registered with Cresset;
 * a model takes `run` functions through its options). */
enum { CRESSET_OP_MAX_RANK = 16, CRESSET_OP_MAX_ARGS = 40, CRESSET_OP_MAX_RESULTS = 8 };
typedef struct cresset_op_result {
    int32_t dtype, rank;                 /* written by `shape` */
    int64_t size[CRESSET_OP_MAX_RANK];
    void *data;                          /* in `run`: memory for the result, row-major */
} cresset_op_result;
typedef struct cresset_op_call {
    size_t struct_size;
    const char *op;                      /* "mylib::extended" */
    /* one per parameter, defaults filled in; an optional tensor that is not there is CRESSET_NONE. In `shape`, tensors
     * have no data */
    const cresset_value *args;
    int32_t nargs;
    cresset_op_result *results;
    int32_t nresults;
    void *user;                          /* of the registration */
    char *message;                       /* where a function that fails says why */
    size_t room;
    /* In `shape`, a size may be unknown: a number of the library's own, to be handed on or computed with, never looked
     * at. */
    int64_t (*add)(struct cresset_op_call *call, int64_t a, int64_t b);
    int64_t (*subtract)(struct cresset_op_call *call, int64_t a, int64_t b);
    int64_t (*multiply)(struct cresset_op_call *call, int64_t a, int64_t b);
    int64_t (*divide)(struct cresset_op_call *call, int64_t a, int64_t b); /* rounds down */
    void *owner;                         /* the library's */
} cresset_op_call;
/* What computes an operator: fills the results, whose dtypes, sizes and memory are set; 0, or a code above and a
 * message. May be called from several threads at a time, and keeps no pointer of the call's. */
typedef struct cresset_op_function {
    const char *op;
    int (*run)(cresset_op_call *call);
    void *user;
} cresset_op_function;
/* An operator that a model calls, and its schema. */
typedef struct cresset_op_need { const char *op, *schema; } cresset_op_need;

/* A dimension: fixed (min == max), or a symbol or expression between min and max (INT64_MAX: no upper bound). */
typedef struct cresset_dim { const char *text; int64_t min, max; } cresset_dim;
typedef struct cresset_value_info {
    const char *name;
    int32_t kind, dtype, rank;
    const cresset_dim *dims;
    /* an input that must have this value (3, true, "mean", None), or an output that always has; else NULL */
    const char *constant;
} cresset_value_info;
typedef struct cresset_method_info {
    const char *name;        /* "forward", or the archive's name for it */
    const cresset_value_info *inputs, *outputs;
    int32_t ninputs, noutputs;
    const char *in_spec, *out_spec; /* pytree texts: how PyTorch nests arguments and results */
} cresset_method_info;
typedef struct cresset_state_info {
    const char *name;
    int32_t dtype, rank;
    const int64_t *size;
    int32_t is_mutable;
} cresset_state_info;

/* Since 1.3. What a library that trains keeps: names are those of `cresset_api.state`. */
typedef struct cresset_parameter_info {
    const char *name, *gradient;         /* the parameter; what `backward` adds to and `update` clears */
    const char *const *moments;          /* of the optimizer */
    int32_t nmoments;
} cresset_parameter_info;
typedef struct cresset_weight_info {
    const char *name, *state;            /* in files, as state_dict() has it; tied weights are one state */
} cresset_weight_info;
typedef struct cresset_train_info {
    size_t struct_size;
    const char *optimizer;               /* "adamw" */
    /* Methods. step(inputs..., lr): forward, backward and update in one. backward(inputs...): adds to the gradients.
     * update(lr): applies them and clears them. step leaves gradients that were added as they are. The learning rate is
     * a CRESSET_FLOAT, the last input; results are the loss program's. */
    int32_t step, backward, update;
    int32_t loss;                        /* which result of step and backward it is */
    const char *counter;                 /* one float32: updates so far */
    const cresset_parameter_info *parameters;
    int32_t nparameters;
    const cresset_weight_info *weights;
    int32_t nweights;
} cresset_train_info;
/* Of `save`. */
enum {
    CRESSET_SAVE_WEIGHTS = 1,            /* parameters and buffers: what PyTorch's load_state_dict takes */
    CRESSET_SAVE_ALL = 2                 /* and gradients, moments, counter and the generator's state: training goes on
                                          * from it to the bit */
};

typedef struct cresset_instance cresset_instance;

typedef struct cresset_options {
    size_t struct_size;
    int32_t threads; /* 0: as many as the process may use; 1: none but the caller's; at most 4096, and no more run
                                * than the process may use */
    const char *weights;       /* path, for models compiled with --weights beside; NULL: beside the library */
    /* for results and working memory: 64-byte aligned, or NULL; both or none */
    void *(*alloc)(void *user, size_t size);
    void (*free)(void *user, void *p);
    void *user;
    /* since 1.2: functions for the operators in cresset_api.ops; read by `create` alone */
    const cresset_op_function *ops;
    int32_t nops;
} cresset_options;

typedef struct cresset_api {
    size_t struct_size;
    uint32_t major, minor;
    const char *name, *id;     /* the model's name; a digest of program and weights */
    const cresset_method_info *methods;
    int32_t nmethods;
    const cresset_state_info
        *state; /* buffers that runs change, and parameters and buffers that are stored as they were: one that
                                      * compilation folded or packed into something else is not here, and get_state does
                                      * not know it */
    int32_t nstate;
    const char *target;        /* "x86-64", "x86-64+avx512", ... */
    /* api: the pointer that cresset_model gave, no copy. On failure *out is NULL. */
    int (*create)(const struct cresset_api *api, const cresset_options *options, cresset_instance **out, char *message,
                  size_t room);
    void (*destroy)(cresset_instance *instance); /* NULL is legal */
    /* Inputs and outputs are flat, in the order of the method's info. All or nothing: on failure no output is written
     * and no state has changed, except that a failure inside the model (CRESSET_RUN_FAILED, CRESSET_OUT_OF_MEMORY) may
     * leave its mutable buffers half-way. Room given for an output whose size depends on data is checked after the run;
     * a method that changes state or inputs takes such room only when it is enough for the largest size. */
    int (*run)(cresset_instance *instance, int32_t method, const cresset_value *inputs, int32_t ninputs,
               cresset_value *outputs, int32_t noutputs, char *message, size_t room);
    /* Gives back what a run of this instance allocated for an output; harmless on others. Before `destroy`. */
    void (*release)(cresset_instance *instance, cresset_value *value);
    /* Copies a parameter or buffer out of, or a mutable buffer into, the instance. */
    int (*get_state)(cresset_instance *instance, const char *name, void *data, size_t capacity, char *message,
                     size_t room);
    int (*set_state)(cresset_instance *instance, const char *name, const void *data, size_t size, char *message,
                     size_t room);
    /* Seeds the generator of random ops (torch.manual_seed). */
    void (*seed)(cresset_instance *instance, uint64_t seed);
    /* Since 1.1. From now on `step` is called after every step of every run: what it computed ("aten::linear ->
     * linear_1 (net.py:12)") and in how many seconds. NULL ends that. Not while the instance runs. */
    void (*profile)(cresset_instance *instance,
                    void (*step)(void *user, int32_t method, int32_t step, const char *origin, double seconds),
                    void *user);
    /* Since 1.2. Custom operators that the model calls: `create` needs a function for each, in its options. */
    const cresset_op_need *ops;
    int32_t nops;
    /* Since 1.3. Of a library that trains (cresset compile --train); of any other the following are NULL. Weights then
     * belong to the instance: those in the library are what it begins with. */
    const cresset_train_info *train;
    /* Writes a safetensors file: whole and then in its place, or not at all. */
    int (*save)(cresset_instance *instance, const char *path, int32_t what, char *message, size_t room);
    /* Reads such a file, ours or PyTorch's: every weight has to be there, with its dtype and sizes. One that has more
     * is what CRESSET_SAVE_ALL wrote, and is taken whole. All or nothing. */
    int (*load)(cresset_instance *instance, const char *path, char *message, size_t room);
    /* The generator of random ops as the 5056 bytes of torch.get_rng_state(); other libraries may be compiled to have
     * it, too. */
    int (*get_random)(cresset_instance *instance, void *bytes, size_t capacity, char *message, size_t room);
    int (*set_random)(cresset_instance *instance, const void *bytes, size_t size, char *message, size_t room);
} cresset_api;

/* The one symbol of a compiled model. NULL when `major` is not the version it was made for. */
const cresset_api *cresset_model(uint32_t major);

#ifdef __cplusplus
}
#endif
#endif

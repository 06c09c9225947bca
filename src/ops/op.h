/* op.h: the op table. One op is one row; everything else follows from the row.
 *
 * A row gives the ATen schema text, tags, how output dtypes and shapes follow from the inputs (functions over symbolic
 * sizes), and one way to compute: `.scalar` (pointwise text), `.kernel` (a runtime function), `.view` (no code), or
 * `.decomp` (other ops). In-place and out variants, the fake rule, functionalisation, saved-for-backward sets, tests,
 * stubs and docs are derived. Rows live in src/ops/table/FAMILY.inc; read docs/adding-an-op.md first.
 *
 * One call path serves everyone (src/ops/call.c):
 *
 *     bind -> rule -> [fake: done] -> allocate or make views -> kernel -> bump versions -> [recorder]
 *
 * The rule decides every output's dtype, sizes, strides and aliasing; the kernel only fills. */
#ifndef CR_OP_H
#define CR_OP_H

#include "cresset/ops.h"
#include "ops/facts.h"
#include "tensor/tensor.h"

/* ---- arguments ---- */
/* cr_arg: cresset/arg.h. u.i of an INT is a cr_dim, so possibly symbolic. */
/* The meta behind a TENSOR or META argument, else NULL. */
static inline const cr_meta *cr_arg_meta(const cr_arg *a) {
    return a->kind == CR_ARG_TENSOR ? &a->u.t->meta : a->kind == CR_ARG_META ? a->u.meta : NULL;
}
/* Without an environment there are no tags: every integer is a plain number, however low. */
static inline bool cr_arg_is_symbolic(const cr_env *env, const cr_arg *a) {
    return a->kind == CR_ARG_SYM || (env && a->kind == CR_ARG_INT && !cr_dim_is_plain(a->u.i));
}
/* A symbolic number becomes the plain one of the example, and the program is guarded to be for it; CR_EDATADEP: there
 * is none. */
CR_NODISCARD cr_status cr_arg_settle(cr_env *env, cr_arg *a);
rt_scalar cr_arg_scalar(const cr_arg *a); /* of a number (not symbolic) */
int cr_arg_number_dtype(const cr_arg *a); /* i64, f64, bool, c128: how a number promotes */
void cr_arg_print(cr_env *env, const cr_arg *a, cr_str *out);

/* ---- schemas (schema.c) ---- */
typedef enum cr_type {
    CR_T_TENSOR, CR_T_SCALAR, CR_T_INT, CR_T_FLOAT, CR_T_BOOL, CR_T_STR, CR_T_DTYPE, CR_T_LAYOUT, CR_T_DEVICE,
    CR_T_FORMAT, CR_T_GENERATOR, CR_T_GRAPH, CR_T_ANY, CR_T_COUNT
} cr_type;
typedef struct cr_param {
    const char *name;   /* "" for unnamed returns */
    uint8_t type;       /* cr_type of the value or list element */
    bool symbolic;      /* SymInt, SymBool, SymFloat */
    bool list, optional, item_optional; /* Tensor?[] has item_optional, Tensor[]? has optional */
    bool keyword_only, has_default;
    bool writes;        /* (a!) */
    char alias;         /* 'a'.. or 0 */
    const char *alias_also; /* "|b": further sets, or NULL */
    bool alias_wild;    /* (a -> *) */
    int32_t list_size;  /* int[2]: 2; 0: any */
    cr_arg fallback;    /* the default */
} cr_param;
typedef struct cr_schema {
    const char *ns, *name, *overload; /* "aten", "add", "Tensor"; overload "" = default */
    const char *text;                 /* canonical text, prints back exactly */
    cr_param *params, *returns;
    uint16_t nparams, nreturns, npositional;
    bool varargs_returns;             /* "-> ..." (higher-order ops) */
} cr_schema;
/* All memory in the arena. CR_EFORMAT with line and column. */
CR_NODISCARD cr_status cr_schema_parse(cr_arena *arena, const char *text, cr_schema *out);
void cr_schema_print(const cr_schema *schema, cr_str *out);

/* A symbol for an INT, FLOAT or BOOL that depends on data which a fake run does not have. NULL: out of memory. */
cr_sym cr_unknown_number(cr_env *env, cr_type type);

/* ---- rows ---- */
/* Tags, in groups. */
enum {
    /* Which set it belongs to. */
    CR_TAG_CORE = 1 << 0,         /* in the core ATen set */
    CR_TAG_COMPOSITE = 1 << 1,    /* CompositeImplicitAutograd in PyTorch: always decomposes; implied by .decomp only */
    CR_TAG_HIGHER_ORDER = 1 << 2, /* takes graphs */
    CR_TAG_INTERNAL = 1 << 3,     /* passes put it into graphs for native code; not for users, so not in the docs */
    CR_TAG_CUSTOM = 1 << 4,       /* registered at run time by whoever embeds the library (custom.h) */

    /* How it computes. */
    CR_TAG_POINTWISE = 1 << 5, /* implied by .scalar */
    CR_TAG_REDUCTION = 1 << 6,
    CR_TAG_DATA_DEPENDENT = 1 << 7,  /* sizes depend on data: the kernel has a count phase */
    CR_TAG_ANY_LAYOUT = 1 << 8,      /* its kernel reads any strides well, and its values do not depend on them */
    CR_TAG_COPIES_0D = 1 << 9,       /* a 0-d tensor is its own result, whatever its dtype (kthvalue, cummax) */
    CR_TAG_KEEPS_INTEGERS = 1 << 10, /* copies integers, into a row-major tensor if out must be resized (nan_to_num) */
    CR_TAG_KEEPS_REAL = 1 << 11,     /* leaves a real tensor alone: in place nothing is written (conj_physical) */

    /* What it shares, and what it writes or does besides its results. */
    CR_TAG_VIEW = 1 << 12,       /* outputs may alias the first argument (.shape decides) */
    CR_TAG_PLAIN_VIEW = 1 << 13, /* a view with a kernel of its own in PyTorch: writes through it are undone as such,
                                  * before it becomes another view in the core dialect */
    CR_TAG_SHARES = 1 << 14,     /* a result may be an argument or a view of one, though neither schema nor VIEW says so
                                  * (dropout, einsum) */
    CR_TAG_UPDATES = 1 << 15,    /* kernel edits out[0] in place, which starts as a copy of argument 0 (scatter) */
    CR_TAG_SAME_VALUE = 1 << 16, /* writes one value everywhere: elements written may share memory (fill, zero) */
    CR_TAG_STATISTICS = 1 << 17, /* writes running_mean and running_var, while the bool behind them, if there is one,
                                  * is true, though the schema does not say so (batch_norm) */
    CR_TAG_METADATA = 1 << 18,   /* changes only metas of its first argument (resize_); .shape gives the new one */
    CR_TAG_RANDOM = 1 << 19,     /* draws from a generator, for some arguments at least: ask cr_op_draws of a call */
    CR_TAG_ASSERT = 1 << 20,     /* has an effect: never dead code */

    /* Its arguments, and its in-place and out forms. */
    CR_TAG_NUMBERS = 1 << 21,      /* a number may stand in its Tensor slots when overloads are chosen (add, mul) */
    CR_TAG_INPLACE_VIEW = 1 << 22, /* the in-place form changes the meta only (t_, squeeze_) */
    CR_TAG_ANY_CAST = 1 << 23,     /* in-place and out results are stored with any cast (copy_) */
    CR_TAG_EMPTY_CAST = 1 << 24,   /* in place, an empty or 0-d tensor takes a result of any dtype (cumsum) */
    CR_TAG_SAME_DTYPE = 1 << 25,   /* in place only where the result has the tensor's own dtype (float_power) */
    CR_TAG_DENSE_OUT = 1 << 26,    /* an out tensor that must be resized becomes row-major, whatever the functional
                                     * layout; UPDATES implies it */
    CR_TAG_COMPLEX_DENSE_OUT = 1 << 27, /* DENSE_OUT for complex inputs (fft_ifft) */
    CR_TAG_POINTWISE_OUT = 1 << 28, /* ... is laid out like the inputs of its shape, whatever the functional layout */
};
/* Their kernels also run where an op has none for the dtype, if an input is empty: then they only move and fill. */
#define CR_TAGS_RUN_IDLE (CR_TAG_REDUCTION | CR_TAG_UPDATES | CR_TAG_DATA_DEPENDENT)
enum { /* variants to derive */
    CR_VARIANT_INPLACE = 1, CR_VARIANT_OUT = 2,
    CR_VARIANT_METHOD = 4, CR_VARIANT_FUNCTION = 8, /* where Python shows it; 0 of both = both */
};
typedef struct cr_rule cr_rule;
typedef cr_status cr_rule_fn(cr_rule *r);
struct cr_emitter;
struct cr_op;
/* Escape hatch: computes results by calling other ops through the emitter. */
typedef cr_status cr_expand_fn(struct cr_emitter *e, const struct cr_op *op, const cr_arg *args, cr_arg *results);

/* docs/adding-an-op.md explains every column. */
typedef struct cr_row {
    const char *schema;
    uint32_t tags, variants;
    const char *names;      /* override of derived names: "inplace=dropout_(self) out=max.dim_max(max, max_values)";
                             * "(p=0.5)" gives a default, " unnamed" leaves the out form's results without names */
    /* What the results are. */
    cr_rule_fn *dtype;      /* sets r->common and r->result; NULL with .scalar: promote */
    cr_rule_fn *shape;      /* sets r->out[]; NULL with .scalar: broadcast */
    /* How they are computed. */
    const char *scalar;     /* pointwise text in the formula language */
    rt_kernel *kernel;
    const char *decomp;     /* formula over argument names */
    cr_expand_fn *decomp_fn;
    const char *core;       /* the same for PyTorch's core dialect, where that is another text (docs/formulas.md);
                             * "keep": the op stays in it */
    cr_expand_fn *core_fn;
    uint8_t draws_arg;      /* 1 + a parameter: where its float is not 0, numbers are drawn (by the decomposition, in
                             * spite of a kernel), unless a bool `train` behind it is false */
    const char *strided;    /* the op that draws into memory of given strides (its second parameter), where that is not
                             * drawing in their order */
    const char *train;      /* what stands for the op on a gradient path, where .decomp does not (docs/formulas.md) */
    const char *grad;       /* derivative formula */
    cr_expand_fn *grad_fn;
    /* What passes know of it: see facts.h. */
    uint8_t view;           /* cr_view_kind */
    const char *undo;       /* the op that undoes the view: of (whole, part, further arguments) where it takes a part of
                             * its argument, else of (part, further arguments); NULL: by its kind */
    uint8_t copy;           /* cr_copy_kind */
    cr_reduction reduce;
    cr_product product;
    uint8_t role, law;      /* cr_role, cr_law */
    uint8_t fill;           /* cr_fill */
    const char *act;        /* what packed products and convolutions call it that compute it on the way out */
    cr_batching batch;      /* what vmap makes of it */
    const char *functional; /* of an op that writes arguments: the op that gives their new values as further results */
    uint8_t check;          /* cr_check */
    cr_region region;
    const char *sample;     /* names the generator in tests/ops/samples.py; NULL: made from the schema */
} cr_row;

typedef enum cr_variant { CR_FUNCTIONAL, CR_INPLACE, CR_OUT } cr_variant;
struct cr_op {
    cr_schema schema;
    const char *name;      /* "aten::add.Tensor" ("aten::relu" for the default overload) */
    const cr_row *row;
    const struct cr_op *base; /* the op whose row it was derived from; itself when functional */
    const struct cr_op *inplace, *out; /* derived forms or NULL */
    const struct cr_op *next; /* next overload of the same name, in table order */
    uint32_t tags, id;
    uint32_t accepts,
        idle; /* dtypes recorded from the oracle, a bit each: with a kernel (all ones when unrecorded), and those
                             * without that pass all the same where an input has no elements */
    uint8_t variant;
    struct cr_op_formulas *formulas; /* parsed texts (formula.h), or NULL */
};
/* What passes know of an op. Facts of a row hold for the functional form: an in-place or out form has none. */
extern const cr_row cr_no_facts;
static inline const cr_row *cr_op_facts(const cr_op *op) {
    return op->variant == CR_FUNCTIONAL ? op->row : &cr_no_facts;
}
static inline cr_view_kind cr_op_view(const cr_op *op) { return (cr_view_kind)cr_op_facts(op)->view; }

/* Is the functional op's parameter the dtype of the tensor that this out form writes? `given`: the argument, NULL where
 * the out form has none: a factory fills the tensor it is given; sums, products and means that are told no dtype are
 * computed in that tensor's. */
bool cr_out_decides(const cr_op *op, uint16_t param, const cr_arg *given);
/* Does this call draw random numbers? Arguments that are not known yet count as any number. */
bool cr_op_draws(const cr_op *op, const cr_arg *args);
/* How many results a call of it hands out: one per return; the one LIST of what a "-> ..." op gives. */
static inline uint16_t cr_result_count(const cr_op *op) { return op->schema.varargs_returns ? 1 : op->schema.nreturns; }

/* First overload of "add" in a namespace ("aten"); follow ->next. */
const cr_op *cr_op_find_name(const char *ns, const char *name);
/* Adds an op at run time (custom, higher-order, opaque). `row` must outlive the process. CR_EVALUE when the name is
 * taken. */
CR_NODISCARD cr_status cr_op_register(const cr_row *row, const cr_op **out);

/* ---- rules ---- */
typedef struct cr_out {
    cr_meta meta;
    int16_t alias;   /* index of the argument whose storage it shares, -1: fresh memory */
    bool same;       /* it *is* that argument (contiguous() of a contiguous tensor) */
    bool none;       /* an undefined result (masked-out gradient) */
    uint8_t scalar;  /* not a tensor: a number of this cr_arg_kind */
    bool data;       /* scalar: only the elements tell; a fake run gives a fresh symbol */
    cr_dim number;   /* scalar: its value when the rule knows it (sym_size, is_complex) */
} cr_out;
enum { CR_INLINE_OUTS = CR_LIMIT(4, 1) };
struct cr_rule {
    const cr_op *op;       /* the functional op */
    cr_env *env;           /* NULL: all concrete */
    const cr_arg *arg;     /* schema order, defaults filled in, numbers in Tensor slots made wrapped metas */
    int nargs;
    int common, result;    /* dtype inputs are cast to; dtype of results. Set by .dtype */
    cr_out *out;           /* grows by cr_rule_add */
    int nout, out_cap;
    const int64_t *count;  /* data-dependent sizes from the count phase; NULL when fake */
    cr_out inline_out[CR_INLINE_OUTS];
    cr_arg local[40];      /* the arguments, where a number had to become a wrapped meta */
    cr_meta wrapped[4];
};
/* Appends an output of dtype r->result on argument 0's device (CPU when there is none); NULL: out of memory. */
cr_out *cr_rule_add(cr_rule *r);
/* Appends a dense output of these sizes. */
CR_NODISCARD cr_status cr_rule_add_dense(cr_rule *r, int dtype, int rank, const cr_dim *size);
/* Appends a view of argument `arg` with the given meta geometry (dtype and storage follow the argument). NULL: out of
 * memory. */
cr_out *cr_rule_add_view(cr_rule *r, int arg);
/* Appends a number result that the rule knows. */
CR_NODISCARD cr_status cr_rule_add_number(cr_rule *r, cr_arg_kind kind, cr_dim value);
/* Appends a number result that depends on data: the kernel gives it, or it is a fresh symbol when the run is fake. */
CR_NODISCARD cr_status cr_rule_add_data(cr_rule *r, cr_arg_kind kind);
/* The k-th data-dependent size: counted, or a fresh unbacked symbol in [0, hi]. */
cr_dim cr_rule_count(cr_rule *r, int k, int64_t hi);
/* Reading arguments by position. */
static inline const cr_meta *cr_rule_meta(const cr_rule *r, int i) { return cr_arg_meta(&r->arg[i]); }
static inline bool cr_rule_has(const cr_rule *r, int i) { return r->arg[i].kind != CR_ARG_NONE; }
static inline cr_dim cr_rule_int(const cr_rule *r, int i) { return r->arg[i].u.i; }
static inline bool cr_rule_bool(const cr_rule *r, int i) { return r->arg[i].u.i != 0; }
/* Dimension `d` made non-negative; CR_EINDEX when outside [-rank, rank). Rank 0 counts as 1. */
CR_NODISCARD cr_status cr_wrap_dim(int64_t d, int rank, int *out);
/* The list argument's dims as a bit mask; an absent or (where `empty_is_all`) empty list is all. CR_ERUNTIME on a
 * repeat. */
CR_NODISCARD cr_status cr_rule_dims(cr_rule *r, int i, int rank, bool empty_is_all, uint32_t *mask);
/* An int list argument copied to `out` (at most `max`); a single entry is repeated to `want` when want > 0. */
CR_NODISCARD cr_status cr_rule_ints(cr_rule *r, int i, int want, int max, cr_dim *out, int *n);
/* Runs dtype and shape rules. `args` as cr_call takes them. Dispose frees what grew. */
CR_NODISCARD cr_status cr_rule_run(cr_rule *r, const cr_op *op, cr_env *env, const cr_arg *args, const int64_t *count);
/* Only the dtype rule and the check of accepted dtypes. */
bool cr_rule_has_kernel(const cr_rule *r); /* for the dtype it computes in; else only empty inputs pass */
CR_NODISCARD cr_status cr_rule_begin(cr_rule *r, const cr_op *op, cr_env *env, const cr_arg *args,
                                     const int64_t *count);
void cr_rule_dispose(cr_rule *r);

/* ---- emitters: who carries out an op ---- */
/* Formulas, decompositions, indexing, the interpreter, tape and differentiator call only this. Implementations: exec
 * (real and fake tensors, below) and the graph builder (src/graph). `args`: one per schema parameter. `results`: one
 * per schema return (cr_result_count); a Tensor[] return is one LIST argument. Exec results own a reference each (lists
 * and their tensors too): release with cr_results_release. */
typedef struct cr_emitter {
    cr_status (*call)(struct cr_emitter *e, const cr_op *op, const cr_arg *args, cr_arg *results);
    /* The meta of a tensor argument in this emitter's terms; *out = NULL when the argument is no tensor. */
    cr_status (*meta)(struct cr_emitter *e, const cr_arg *arg, const cr_meta **out);
    /* Gives back what call() handed out; nothing to do for graph builders. */
    void (*release)(struct cr_emitter *e, cr_arg *results, size_t n);
    cr_env *env; /* NULL when all is concrete */
} cr_emitter;

/* Calls an op by its full name with `n` leading arguments, the others default; *out: its first result, the others are
 * given back. CR_ENOTFOUND: no such op. */
CR_NODISCARD cr_status cr_emit_call(cr_emitter *e, const char *name, const cr_arg *args, size_t n, cr_arg *out);

/* ---- calls ---- */
/* Runs one op on tensors: real when all are real, fake as soon as one is fake (or under cr_call_mode.fake). */
CR_NODISCARD cr_status cr_call(const cr_op *op, const cr_arg *args, cr_arg *results);
/* The emitter whose call is cr_call. */
cr_emitter *cr_exec_emitter(void);
/* Convenience for C callers: finds the op, binds positional arguments (the rest default), one tensor result.
 *     cr_arg a[] = { cr_arg_tensor(x), cr_arg_int(1) };   CR_TRY(cr_call_1("aten::softmax.int", a, 2, &y)); */
CR_NODISCARD cr_status cr_call_1(const char *name, const cr_arg *args, size_t n, cr_tensor **out);
CR_NODISCARD cr_status cr_call_op_1(const cr_op *op, const cr_arg *args, size_t n, cr_tensor **out);

/* ---- what surrounds a call ---- */
typedef struct cr_recorder {
    /* Called after a depth-0 call, with the arguments as given and the results. */
    cr_status (*record)(struct cr_recorder *, const cr_op *op, const cr_arg *args, const cr_arg *results);
} cr_recorder;
/* The eager tape (src/autograd, above this): while grad mode is on and nothing is recorded or faked, it carries out the
 * calls whose arguments require grad (cr_ambient.untaped around its own). Set once; NULL: nobody differentiates.
 * `at`: the thread's own. */
struct cr_ambient;
typedef cr_status cr_tape_call(struct cr_ambient *at, const cr_op *op, const cr_arg *args, cr_arg *results);
void cr_tape_set(cr_tape_call *call);
/* How the tape carries an op out: nothing inside is recorded on it. */
CR_NODISCARD cr_status cr_call_untaped(struct cr_ambient *at, const cr_op *op, const cr_arg *args, cr_arg *results);
bool cr_tape_is_on(void); /* are calls here asked whether an argument requires grad? */
/* Does the tensor, or one of the list's, require grad? A view does as soon as its root does. */
bool cr_arg_requires_grad(const cr_arg *a);
static inline bool cr_tensor_requires_grad(const cr_tensor *t) {
    if (t->meta.flags & CR_META_REQUIRES_GRAD) return true;
    return t->base && (t->base->meta.flags & CR_META_REQUIRES_GRAD);
}
/* Symbols for what depends on data, to be given out before fresh ones are made: a graph that is written anew keeps the
 * names it had. */
typedef struct cr_known_symbols { cr_sym at[8]; int n; } cr_known_symbols;
/* The first of that type, taken out; NULL: none. */
cr_sym cr__known_symbol(cr_sym_type type);
/* Mixed precision (autocast.c): arguments of some ops are cast to `dtype`, of others to float32. */
typedef struct cr_autocast { bool enabled, no_cache; int dtype; } cr_autocast;
/* How calls are carried out: what a call reads once. Whoever changes it keeps a copy and puts it back. */
typedef struct cr_call_mode {
    cr_recorder *recorder;   /* NULL: nothing is recorded */
    bool fake;               /* results have no data, whatever the arguments are */
    int depth;               /* calls inside calls: only depth 0 is recorded */
    cr_env *env;
    cr_known_symbols *known;
    cr_autocast autocast;
} cr_call_mode;
/* How many calls vmap made loops over examples of, the last such op, and how many of them because a class did not fit
 * (batch.h). */
typedef struct cr_vmap_counts { uint64_t loops, misfits; const cr_op *last; } cr_vmap_counts;
/* Sees every op that is carried out, below the tape, as PyTorch's dispatch modes do: of composite ops their parts. What
 * runs inside of an op, or of these functions, is not seen. */
typedef struct cr_watch {
    /* *done: `results` are there, and the op is not carried out. */
    cr_status (*before)(struct cr_watch *w, const cr_op *op, const cr_arg *args, cr_arg *results, bool *done);
    cr_status (*after)(struct cr_watch *w, const cr_op *op, const cr_arg *args, const cr_arg *results);
    struct cr_watch *outer; /* sees it, too, before `after` does */
} cr_watch;
/* All that belongs to one thread, and nothing else does: a new thread begins with grad mode on and everything else off
 * or absent. What PyTorch keeps for the whole process is kept so here, too: the default dtype (cr_default_dtype), the
 * number of threads, the deterministic flag. Pointers that the front end sets are opaque to the floors below it and
 * borrowed. */
typedef struct cr_ambient {
    cr_call_mode mode;
    bool grad, inference;
    struct cr_saved_hooks *saved;   /* where the tape puts what it saves; NULL: with its nodes */
    bool data;                      /* the call is x.data */
    struct cr_py_ahead *ahead;      /* a program is recorded that is differentiated ahead of time; NULL: none is */
    bool refused;                   /* ... and has asked for what only the tape can do */
    bool placed;                    /* inside of `with device(...)`: where functions make tensors that are not told */
    cr_device place;
    bool untaped;                   /* the tape carries out an op: calls inside are not recorded, whatever grad is */
    unsigned transforms;            /* func.grad and its like around, whose tape runs where calls are recorded, too */
    unsigned forwards;              /* of these: derivatives forwards, which the gradient mode does not end */
    struct cr_py_tracer *tracer;    /* the export that records on this thread, which is the module stack, too */
    struct cr_py_body *body;        /* the innermost body of a region that is being recorded */
    struct cr_vmap *vmap;           /* the innermost vmap (batch.h) whose examples calls are carried out for */
    cr_vmap_counts looped;
    cr_watch *watch;                /* the innermost; NULL: nobody watches */
    uint8_t policy;                 /* what a partitioner is to do with the call that is recorded (cr_policy) */
    const struct cr_py_op *calling; /* the function or method that Python calls just now; NULL: an operator */
} cr_ambient;
cr_ambient *cr_ambient_get(void);

/* ---- binding (bind.c): overload choice on argument kinds, never on Python objects ---- */
enum { CR_MAX_PARAMS = 40 };
typedef struct cr_binding { const cr_op *op; cr_arg args[CR_MAX_PARAMS]; } cr_binding;
/* Picks the first overload (in table order, Tensor overloads first) that the arguments fit and fills in defaults,
 * conversions (int to float, one int to an int[k] list) included. `first` is the overload list, or one op with
 * `only` set. CR_ETYPE lists what was given and the overloads that exist. Lists that conversion made are in `arena`. */
CR_NODISCARD cr_status cr_bind(const cr_op *first, bool only, const cr_arg *args, size_t nargs,
                               const cr_keyword *keywords, size_t nkeywords, cr_arena *arena, cr_binding *out);

#endif

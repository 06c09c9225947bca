/* evaluate.h: a function's bytecode, evaluated on constants, fakes and tokens.
 *
 * Values are PyObject *. A constant of a trusted type is itself. A tensor is its fake, so every op that is called on it
 * is recorded. A container that the program makes, or that is read from outside, is a real list, tuple or dict (of the
 * latter: a copy) that holds values. Everything else from outside is a *token*: the real object and its source; every
 * slot of the token's type refuses, so no operation can treat it as the object by mistake. What is on the stack is
 * therefore either itself, or refuses, or is handled here by kind.
 *
 * Reading anything from outside makes its guard. Evaluation changes nothing outside: to give up is to drop it.
 *
 * The same handlers evaluate plainly (`plain`): nothing is wrapped, calls and attributes are the real ones. Tests run
 * real functions so. */
#ifndef CR_EVALUATE_H
#define CR_EVALUATE_H

#include "capture/decode.h"
#include "capture/guard.h"
#include "capture/numbers.h"
#include "trace/trace.h"

/* ---- values (values.c) ---- */
typedef struct cr_token {
    PyObject_HEAD PyObject *real; /* owned: a capture is short */
    int32_t source;
    bool pending;                 /* an argument that nothing has looked at: no guard yet */
    bool caught;                  /* an exception that was: it has a traceback */
    /* An object that the program makes (eval_objects.c); else NULL. `real` is then an empty object of the class. */
    PyObject *type;               /* its class: a value */
    PyObject *attributes, *slots; /* dicts: its __dict__, and what it has in __slots__ (NULL: nothing) */
    PyObject *payload;            /* the items that a class in C holds of it; NULL: none */
} cr_token;
extern PyTypeObject cr_token_type;
static inline bool cr_is_token(PyObject *o) { return Py_IS_TYPE(o, &cr_token_type); }
static inline PyObject *cr_real(PyObject *token) { return ((cr_token *)token)->real; }
static inline int32_t cr_source_of(PyObject *token) { return ((cr_token *)token)->source; }
static inline bool cr_is_made(PyObject *o) { return cr_is_token(o) && ((cr_token *)o)->type; }
extern PyObject *cr_break_error; /* what a token's slots raise */
extern PyObject *cr_raised_error; /* C code is left by it while the program raises c->raised */
#define CR_DELETED ((PyObject *)&cr_token_type) /* in place of a value that is no more */

/* An object from outside that the capture knows: one value for one object. */
typedef struct cr_known {
    PyObject *real, *value; /* owned */
    int32_t source;
    PyObject *before;       /* a copy's contents when it was made (tuple of items, or of keys and values); else NULL */
} cr_known;
/* Something of an object from outside that the program has set: its attribute, a cell's contents, a global variable. It
 * is set when the captured call ends; until then, whoever reads it reads this. In order of first write. */
typedef struct cr_store {
    PyObject *real;   /* owned: the object, cell or globals */
    int32_t source;   /* its slot */
    uint8_t read;     /* how it is read: CR_READ_ATTRIBUTE, CR_READ_CONTENTS, CR_READ_KEY, CR_READ_PART,
                       * CR_READ_LOOKUP; CR_READ_CALLED: a call */
    PyObject *key;    /* owned, interned; of LOOKUP the value of the key; NULL: a cell's */
    PyObject *value;  /* owned; CR_DELETED: it is deleted */
} cr_store;
/* A call that is made behind the graph: of (callable, arguments ...). `writes`: to its tensors, before it. */
typedef struct cr_reordered { PyObject *call, *kwnames; uint64_t writes; } cr_reordered; /* owned; kwnames or NULL */
/* A ContextVar that the program sets: what it has now (owned; NULL: what it has outside); and a token of set(): what
 * the variable had before (eval_context.c). */
typedef struct cr_context {
    PyObject *variable, *value;
} cr_context;
typedef struct cr_reset {
    PyObject *token, *variable, *before;
    bool used;
} cr_reset; /* variable: borrowed */
typedef struct cr_mode {
    PyObject *value;
    bool indexes;
} cr_mode; /* a function mode that is on (eval_modes.c); owned */
/* Globals that were read, so that one dict is known as one. */
typedef struct cr_globals { int32_t source; PyObject *real; } cr_globals;
typedef struct cr_input { int32_t source; PyObject *fake; } cr_input; /* fake: borrowed from `known`; NULL: a number */

typedef struct cr_arguments { PyObject *const *at; Py_ssize_t n; PyObject *kwnames; } cr_arguments;

/* What CPython checks of what a special method returns. */
typedef enum cr_gives { CR_GIVES_ANYTHING, CR_GIVES_LENGTH, CR_GIVES_ITERATOR, CR_GIVES_CALLABLE,
                        CR_GIVES_NONE, CR_GIVES_ITSELF } cr_gives;

/* An inlined call: its own stack, on the heap. */
typedef struct cr_call_frame {
    struct cr_call_frame *back;
    PyCodeObject *code;     /* owned */
    const cr_code *instructions;
    PyObject *function;     /* owned; a function made here, or a token */
    PyObject *globals, *builtins; /* real dicts, borrowed from the function */
    int32_t source;         /* of the function; CR_NO_SLOT: made here */
    int32_t owner;          /* of the function from outside whose globals it has: itself, or around where it was made */
    int32_t next;           /* instruction */
    int32_t current;        /* the one being carried out */
    int top;
    int depth;              /* calls around it that are evaluated */
    int8_t library;         /* is it our own package's? 1, -1: no; 0: nobody has asked */
    bool enters;            /* an exported module's call: the module stack says so while it lasts */
    bool resumed;           /* it is past its first instructions, which CPython carries out by itself */
    uint8_t gives;          /* what its result must be: cr_gives */
    PyObject *instead;      /* owned: what its caller gets for its result; CR_DELETED: nothing; NULL: the result */
    PyObject *generator;    /* whose frame it is; borrowed; NULL: a function's */
    PyObject *handled;      /* of a generator's: the exception that is handled in it; owned, NULL: none */
    PyObject **stack;       /* behind the locals */
    PyObject *locals[];     /* owned; NULL: unbound */
} cr_call_frame;

/* Frames of a node's stack at most: recursion may have any number, and the innermost tell most. */
enum { CR_DEEPEST = 32 };
typedef struct cr_position { const PyCodeObject *code; int32_t instruction; size_t end; /* of its text */ } cr_position;

typedef struct cr_capture {
    bool plain;
    const cr_frontend *frontend; /* whose tensors and functions it works with; NULL: nobody's so far */
    bool grad;              /* the gradient mode that it began with */
    bool switched_on;       /* it began without gradients, and the program switched them on */
    uint64_t outer, inside; /* our own ambient word before it, and where it begins: as the program's library is */
    bool asks_casts;        /* the program asks for the dtype of mixed precision, or for its cache */
    long steps;             /* instructions of the outermost frame that were begun */
    long stop;              /* how many of them are carried out: capture ends before the next; -1: all */
    bool stopped_inside;    /* something else of the surroundings is another there: of `with autocast()` */
    bool stopped_grad;      /* the gradient mode there */
    PyObject *tracer;       /* an exporter's, in whose trace it records (strict.c); borrowed; NULL: it has its own */
    PyObject *stands;       /* ... what gives the exporter's fake of a tensor; borrowed */
    cr_guards guards;
    cr_map by_real, by_value; /* address -> index of `known` */
    cr_map made;              /* function made here -> source of its owner; `kept` holds them */
    CR_VEC(cr_known) known;
    CR_VEC(cr_input) inputs;
    CR_VEC(cr_store) stores;
    CR_VEC(cr_reordered) reordered;
    CR_VEC(cr_mode) modes;
    CR_VEC(cr_context) contexts;
    CR_VEC(cr_reset) resets;
    CR_VEC(cr_globals) globals;
    cr_map payloads;        /* what methods in C work on of an object made here -> the object, kept */
    cr_map owners;          /* an object's __dict__ -> the object, borrowed from `known` or `kept` */
    PyObject *handled;      /* the exception that is handled in the outermost function; owned, NULL: none */
    PyObject *raised;       /* what the program raises: a value; owned. Set while PyErr is cr_raised_error */
    bool raises;            /* it ended early because the program raises what nobody handles */
    bool own;               /* the instruction that fails has raised it for the program, its context is set */
    bool on_tensors;        /* the instruction works on a tensor: what it raises may be the fake's */
    int unfinished;         /* generators that wait inside of `try` or `with` */
    bool disposing;
    bool midway;            /* it begins with a frame: nobody else may have what its variables hold */
    bool looks_only_at_code; /* whatever else it reads ends it */
    bool finalizes;         /* an object from outside has code that runs when it is dropped */
    int nesting;            /* of the containers that are walked through */
    cr_trace *trace;
    cr_fakes fakes;
    int32_t at;             /* the place that is captured */
    unsigned dynamic;       /* what is left open: CR_DYNAMIC_* */
    int settles;            /* ... nothing but what is marked: it could not be captured so (CR_SETTLES_*) */
    unsigned follows;       /* what is read from data: CR_DYNAMIC_SCALARS, CR_DYNAMIC_SHAPES */
    PyObject *leaves;       /* list: tensors made here that want gradients, which are off; owned, NULL: none */
    bool data;              /* some number or size depends on data, and is part of the graph */
    bool unbacked;          /* some size of an input has no example: mark_unbacked() */
    cr_history *history;    /* of the place's code; borrowed; NULL: everything is as it is */
    cr_numbers *numbers;    /* what is left open; owned; NULL: nothing */
    cr_call_frame *frame;   /* the innermost */
    PyObject *result;       /* what the outermost returned; owned */
    int32_t returned;       /* ... at this instruction */
    cr_map constants;       /* containers that code objects and caches hold: they are themselves wherever used */
    PyObject *kept;         /* list: what addresses in maps belong to */
    PyObject *reason;       /* why it ended early; owned str */
    PyObject *where;        /* "file:line in name" */
    PyObject *error;        /* what fullgraph raises in place of Unsupported: a class of such; owned, NULL: nothing */
    PyObject *callers;      /* from where the user's code was called that is there, a line each; set with it */
    cr_str stack;           /* the user's lines, of the op recorded last: */
    cr_position lines[CR_DEEPEST]; /* innermost first; codes are alive, `kept` has those made here */
    int nlines;
    long left;              /* instructions until it is too long */
    int room;               /* calls in each other until the program's recursion ends */
} cr_capture;
int cr_capture_begin(cr_capture *c, bool plain); /* -1: exception */
int cr_capture_begin_in(cr_capture *c, PyObject *tracer, PyObject *stands);
void cr_capture_dispose(cr_capture *c);
/* strict.c: a frame of an export begins or ends that may be a module's call. -1: exception. */
int cr_strict_enter(cr_capture *c, cr_call_frame *f);
void cr_strict_leave(const cr_capture *c);
bool cr_strict_drops(PyObject *callable); /* print(), warnings and logs: exported programs do without */
/* The call that is captured, pushed: arguments as its caller gives them. (dispatch.c) */
int cr_begin_call(cr_capture *c, PyObject *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
/* Is this thread capturing? What a program is told that asks (dispatch.c: mostly it is true, and noted). */
bool cr_is_capturing(void);
bool cr_set_capturing(bool on); /* what it was */
/* What runs between is not recorded. An exporter may be in the body of a region, whose trace is another. */
cr_call_mode cr_pause(const cr_capture *c);
void cr_go_on(cr_call_mode paused);
bool cr_follows_opaque(void); /* ops that only another library has: are they part of graphs? */
/* Ends the capture: the call runs plain, for this reason. Always -1. */
int cr_break(cr_capture *c, const char *format, ...);
/* The value of an object from outside, guarded. New reference; NULL: exception or break. */
PyObject *cr_wrap(cr_capture *c, PyObject *real, int32_t source);
PyObject *cr_wrap_read(cr_capture *c, cr_read read, int32_t parent, PyObject *parent_real, PyObject *key,
                       int32_t index); /* the same of what a source gives; breaks when it gives nothing */
/* An argument that nobody has looked at, and what it is when somebody does (kept in the slot). New references. */
PyObject *cr_pending(cr_capture *c, PyObject *real, int32_t source);
PyObject *cr_look_at(cr_capture *c, PyObject **slot);
/* A dict from outside as a real dict of values, all of its keys and items guarded; the items of an object whose class
 * is made of list or tuple. New reference. */
PyObject *cr_unfold(cr_capture *c, PyObject *token);
/* What methods in C of a token's object work on: a container of values. New reference; NULL: none, exception, break. */
PyObject *cr_payload(cr_capture *c, PyObject *token);
PyTypeObject *cr_class_in_c(PyTypeObject *type); /* the first of its bases that is written in C */
/* What the program has set there; NULL: nothing. Borrowed. */
PyObject *cr_find_store(const cr_capture *c, PyObject *real, PyObject *key);
bool cr_has_stores(const cr_capture *c, PyObject *real);
PyObject *cr_unfolded(const cr_capture *c, PyObject *dict); /* its copy, where it was unfolded; borrowed */
bool cr_is_known_object(const cr_capture *c, PyObject *real); /* from outside, and seen: as a token, fake or copy */
/* Notes what is set (CR_DELETED: deleted). `value` is not taken over. -1: exception. */
int cr_add_store(cr_capture *c, cr_read read, PyObject *real, int32_t source, PyObject *key, PyObject *value);
bool cr_find_known(const cr_capture *c, PyObject *value, size_t *index);
bool cr_capture_records(const cr_capture *c); /* does some tensor from outside want a gradient? (entry.c) */
bool cr_is_unchanged(const cr_known *k); /* has a copy (k->before) the contents that it had? (entry.c) */
/* An object that the program makes: `type` is its class as a value, `real` an empty object of it (taken over). */
PyObject *cr_token_made(PyObject *type, PyObject *real, PyObject *payload);
bool cr_is_tensor_value(PyObject *value);
/* The program works with this library: all of it must. -1: a break. */
int cr_use_frontend(cr_capture *c, const cr_frontend *fe);
PyTypeObject *cr_class_of(const cr_capture *c, PyObject *value); /* what a program sees as its class */
/* Is there nothing but constants in it, however deep? */
bool cr_is_constant(PyObject *value);
/* Containers that lie deeper in each other, or in themselves, are not captured: walking through them is recursion in C,
 * whatever limit the program sets for its own. */
enum { CR_MAX_NESTING = 100 };
bool cr_has_finalizer(const PyTypeObject *type); /* does code run when its objects are dropped? */
bool cr_is_held_constant(PyObject *real); /* from outside: compared by identity and held */

/* ---- numbers that depend on data (unbacked.c) ---- */
/* How much of a capture is settled on what it is: nothing; open numbers; what is read from data ends it, too. */
enum { CR_SETTLES_NOTHING, CR_SETTLES_NUMBERS, CR_SETTLES_DATA };
/* Has it a symbol that neither a place in the call nor an example gives? */
bool cr_depends_on_data(const cr_capture *c, cr_sym e);
bool cr_lacks_example(const cr_capture *c, PyObject *value); /* an open number of which nobody knows what it is now? */
/* int(), float() or bool() of a tensor: a number of the graph. 1: *out; 0: another call; -1. */
int cr_read_number(cr_capture *c, PyObject *callable, const cr_arguments *a, PyObject **out);
/* An exception says that the program asks for what only data tell: the capture ends, for that reason. */
void cr_break_on_data(cr_capture *c, PyObject *exception);
int cr_need_numbers(cr_capture *c); /* -1: exception */

/* ---- open sizes and numbers (open.c, history.c) ---- */
/* What was seen of this source before, and that it is so now. rank: of a tensor, whose `numbers` are sizes, then
 * strides; else 0, and one number. NULL: exception. */
cr_seen *cr_note_seen(cr_capture *c, int32_t source, int kind, int rank, const int64_t *numbers);
/* A fake of a tensor from outside, some of its sizes symbols. `open`: what its guard does not check by itself. */
int cr_open_tensor(cr_capture *c, PyObject *real, int32_t source, const cr_frontend *fe, const cr_tensor *t,
                   cr_tensor **fake, cr_open_sizes *open);
/* 1: an int or float that is left open, *out its SymInt or SymFloat; 0: it is a constant; -1. */
int cr_wrap_number(cr_capture *c, PyObject *real, int32_t source, PyObject **out);
bool cr_is_open(PyObject *value);                  /* a SymInt, SymFloat or SymBool? */
PyTypeObject *cr_class_of_open(PyObject *value);   /* int, float, bool; of any other value its own */
cr_sym cr_open_expr(PyObject *value);              /* NULL: it is none */
/* An open number as what it is now, which is guarded from here on; tuples and lists with such in them copied so;
 * anything else itself. New reference. */
PyObject *cr_settled(cr_capture *c, PyObject *value);
int cr_settle_in(cr_capture *c, PyObject **value); /* the same in its place; -1: exception, and it is as it was */
PyObject *cr_length(PyObject *value);              /* len() of it, for a tensor perhaps open. New reference */

/* ---- evaluation (evaluate.c, eval_*.c) ---- */
typedef int (*cr_handler)(cr_capture *c, cr_call_frame *f, const cr_instruction *i);
#define EVALUATED(name) int cr_do_##name(cr_capture *c, cr_call_frame *f, const cr_instruction *i);
#define PLAIN(name, reason)
#include "capture/instructions.def"
#undef EVALUATED
#undef PLAIN
/* Runs until the outermost frame returns. 0: c->result; -1: c->reason, or an exception that is the caller's to see. */
int cr_evaluate(cr_capture *c);
/* A frame for a call, pushed. `args`: values. function: a token or a real function. -1: exception or break. */
int cr_push_call(cr_capture *c, PyObject *function, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
/* A frame for a function that is past its first instructions, pushed: without locals, before instruction `next`. NULL:
 * exception or break. */
cr_call_frame *cr_push_frame(cr_capture *c, PyObject *function, int32_t next);
void cr_pop_frame(cr_capture *c);
void cr_free_frame(cr_call_frame *f); /* which is on no stack of frames */
int cr_generators_init(void);
bool cr_is_generator(PyObject *value);
int cr_next_of_generator(cr_capture *c, PyObject *value, PyObject **out); /* next(): 1: *out; -1 */
void cr_generator_ends(PyObject *generator, PyObject *result); /* takes the result over */
/* Calls a value; the result (now, or when the frame that this pushed returns) goes onto the stack of f. */
int cr_call_value(cr_capture *c, cr_call_frame *f, PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                  PyObject *kwnames);
/* Calls what a token's class has under a special name (__iter__, __len__, ...), a Python function, with the token and
 * the arguments. 0: a frame was pushed whose result goes onto the stack of f; 1: it has none in Python; -1. */
int cr_call_special(cr_capture *c, cr_call_frame *f, PyObject *token, const char *name, PyObject *const *args,
                    Py_ssize_t nargs);
/* The same, run to its end at once: 0: *out; 1; -1. For C code that needs the answer in the middle. */
int cr_call_special_now(cr_capture *c, cr_call_frame *f, PyObject *token, const char *name, PyObject *const *args,
                        Py_ssize_t nargs, PyObject **out);
/* Goes on until f is the innermost frame again. -1 with c->raised: the program raises what f or its callers handle. */
int cr_run_until(cr_capture *c, cr_call_frame *f);
/* graph_break() and functions of disable(): the capture ends in the program's words. false: it is neither. (rules.c) */
bool cr_break_as_asked(cr_capture *c, PyObject *callable, PyObject *const *args, Py_ssize_t nargs);

/* A call of a function about which the program has said what captures do with it. 1: it has not. (rules.c) */
int cr_call_by_rule(cr_capture *c, cr_call_frame *f, PyObject *token, PyObject *const *args, Py_ssize_t nargs,
                    PyObject *kwnames);
/* A function of ours, run by CPython on what the program gives it; what it calls of the program's is evaluated. */
int cr_call_run(cr_capture *c, cr_call_frame *f, PyObject *function, const cr_arguments *a);
/* The same where numbers among the arguments are symbols without an example. 1: they are not. */
int cr_call_symbolic(cr_capture *c, cr_call_frame *f, PyObject *function, const cr_arguments *a);
/* cond(), while_loop(), map(), scan() or associative_scan(), a token. (eval_regions.c) */
int cr_call_region(cr_capture *c, cr_call_frame *f, PyObject *region, const cr_arguments *a);
bool cr_is_known_value(PyObject *value); /* tensors, constants and containers of those */
/* The same of a function in C that another one stands in for. */
int cr_call_substituted(cr_capture *c, cr_call_frame *f, PyObject *builtin, PyObject *const *args, Py_ssize_t nargs,
                        PyObject *kwnames);
/* A function that the program lets run behind the graph (eval_reordered.c). 1: it is none, or not called so. */
int cr_call_reordered(cr_capture *c, cr_call_frame *f, PyObject *callable, const cr_arguments *a);
bool cr_reordered_too_late(const cr_capture *c); /* is a tensor of such a call written behind it? */
bool cr_set_keeps_order(bool on); /* of this thread: such calls end captures; gives what was before */
void cr_reordered_dispose(cr_capture *c);
/* A call of a function with lru_cache: by the rule of the function inside, where it has one. */
int cr_call_cached(cr_capture *c, cr_call_frame *f, PyObject *token, const cr_arguments *a);
/* The same by what the cache has. (eval_cached.c) */
int cr_call_by_cache(cr_capture *c, cr_call_frame *f, PyObject *token, PyObject *inner, const cr_arguments *a);
bool cr_is_cached_type(const PyTypeObject *type);
/* property, or a subclass that reads and sets as it does. */
static inline bool cr_is_property(const PyTypeObject *type) {
    return PyType_IsSubtype((PyTypeObject *)type, &PyProperty_Type) &&
           type->tp_descr_get == PyProperty_Type.tp_descr_get && type->tp_descr_set == PyProperty_Type.tp_descr_set;
}
/* Function modes of another library: the stack of those that the program entered (eval_modes.c). As functions in C that
 * are written out: 1: *out; -1. */
int cr_push_mode(cr_capture *c, cr_call_frame *f, const cr_arguments *a, PyObject **out);
int cr_pop_mode(cr_capture *c, cr_call_frame *f, const cr_arguments *a, PyObject **out);
int cr_count_modes(cr_capture *c, cr_call_frame *f, const cr_arguments *a, PyObject **out);
int cr_mode_at(cr_capture *c, cr_call_frame *f, const cr_arguments *a, PyObject **out);
void cr_modes_dispose(cr_capture *c);
/* An item of a tensor, where a mode says what indices mean. 1: *out; 0: as ever; -1. */
int cr_index_by_mode(cr_capture *c, PyObject *container, PyObject *key, PyObject **out);
/* get(), set() or reset() of a ContextVar (eval_context.c). 1: *out; 0: another call; -1. */
int cr_call_context(cr_capture *c, PyObject *callable, const cr_arguments *a, PyObject **out);
bool cr_sets_context(const cr_capture *c); /* is one set to something else than it was outside? */
void cr_contexts_dispose(cr_capture *c);
/* Numbers of NumPy's that were computed of constants (eval_numpy.c); and is there one in a list or tuple? */
bool cr_is_numpy_number(PyObject *o);
bool cr_has_numpy_number(PyObject *o);
bool cr_is_numpy_function(PyObject *real);
int cr_call_numpy(cr_capture *c, cr_call_frame *f, PyObject *token, const cr_arguments *a); /* as cr_call_value */
/* An operator with one: 1: *out; 0: with none; -1. */
int cr_operate_on_numpy(cr_capture *c, binaryfunc function, PyObject *a, PyObject *b, PyObject **out);
/* inspect.signature() of a function (eval_signature.c). 1: it is another call. And an attribute of what it gives. */
int cr_call_signature(cr_capture *c, cr_call_frame *f, PyObject *token, const cr_arguments *a);
/* copy.deepcopy() of containers of constants (eval_copies.c). 1: it is another call. */
int cr_call_deepcopy(cr_capture *c, cr_call_frame *f, PyObject *token, const cr_arguments *a);
bool cr_is_defaultdict(const PyTypeObject *type); /* collections.defaultdict itself (eval_builtins.c) */
bool cr_is_signature(PyObject *value);
int cr_signature_attribute(cr_capture *c, PyObject *value, PyObject *name, PyObject **out);
bool cr_is_left_alone(PyObject *function); /* does the program say that no capture looks into it? */
extern bool cr_has_substitutes; /* process: is there any for a function in C? */
extern bool cr_only_compliant;  /* process: custom ops without the tag end captures */
/* Where the program is: for messages (c->where, the first time), and for the nodes of the graph. (origins.c) */
void cr_note_place(cr_capture *c);
void cr_capture_origins(cr_capture *c);
void cr_capture_lines(cr_capture *c); /* ... and for conditions of its environment */
PyObject *cr_fail_in_c(const cr_capture *c); /* C code between here and the loop wants an exception: sets it; NULL */
/* Calls a value and runs that to its end. New reference; NULL: exception or break. */
PyObject *cr_call_now(cr_capture *c, cr_call_frame *f, PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                      PyObject *kwnames);

/* What C code calls in place of a function of the program's (eval_callbacks.c). New reference. */
PyObject *cr_callback_new(cr_capture *c, PyObject *function);
bool cr_may_be_called(PyObject *value);
extern PyTypeObject cr_callback_type, cr_iterator_type;
PyObject *cr_iterator_new(cr_capture *c, PyObject *object); /* goes through an object by its __next__ in Python */
bool cr_is_partial_type(const PyTypeObject *type);          /* functools.partial */
PyObject *cr_part_of_partial(PyObject *partial, int k); /* function, arguments, keywords; borrowed */
int cr_make_partial(cr_call_frame *f, PyTypeObject *type, const cr_arguments *a);
int cr_call_partial(cr_capture *c, cr_call_frame *f, PyObject *partial, const cr_arguments *a); /* as cr_call_value */
bool cr_is_getter_type(const PyTypeObject *type);           /* operator.itemgetter, attrgetter, methodcaller */
int cr_make_getter(cr_capture *c, cr_call_frame *f, PyTypeObject *type, const cr_arguments *a);
int cr_call_getter(cr_capture *c, cr_call_frame *f, PyObject *getter, const cr_arguments *a); /* as cr_call_value */
/* An attribute, found to the end. 1: *out; 0: there is none; -1. */
int cr_look_up(cr_capture *c, cr_call_frame *f, PyObject *value, PyObject *name, PyObject **out);

/* ---- exceptions (eval_exceptions.c): values are tokens of their objects ---- */
/* Makes an exception object a value. Takes it over. */
PyObject *cr_exception_value(cr_capture *c, PyObject *real);
bool cr_is_exception(PyObject *value);
/* May one be made of these? Some classes look at what they are given, and would take what stands for a value of the
 * program for that value: of constants alone. */
bool cr_exception_takes(const cr_capture *c, PyObject *type, PyObject *const *args, Py_ssize_t n);
bool cr_handles(cr_capture *c); /* is the program in a handler? */
/* The program raises this value (not taken over): -1, as a failed instruction. */
int cr_raise(cr_capture *c, PyObject *value);
int cr_raise_new(cr_capture *c, PyObject *type, const char *format, ...); /* an exception in C, with this text */
/* An instruction failed: goes to the handler in the frames above `base`. 0: there; -1: a break, or nobody handles it:
 * then base is the innermost frame (unless it is NULL). */
int cr_unwind(cr_capture *c, const cr_call_frame *base);
/* Does the program raise an exception of this class? Then it is forgotten. */
bool cr_catch(cr_capture *c, PyObject *type);
/* The value that the program raises, taken away from it; NULL: none. */
PyObject *cr_take_raised(cr_capture *c);
/* An attribute of an exception that its class in C answers; 2: another. */
int cr_exception_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out);
int cr_set_exception_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject *value);

/* ---- objects (eval_objects.c) ---- */
/* Where the class of a token's object is read; CR_NO_SLOT: it is a class in C. -2: exception. */
int32_t cr_type_source(cr_capture *c, PyObject *token);
PyObject *cr_type_value(cr_capture *c, PyObject *token); /* the class as a value; new reference */
/* Calls a class, a value: the object goes onto the stack of f, now or when __init__ has run. */
int cr_construct(cr_capture *c, cr_call_frame *f, PyObject *type, PyObject *const *args, Py_ssize_t nargs,
                 PyObject *kwnames);
/* object.__new__(type) and its like of classes in C, with these arguments. 1: *out; -1. */
int cr_make_object(cr_capture *c, cr_call_frame *f, PyObject *type, PyTypeObject *base, const PyObject *args,
                   PyObject **out);
/* What an object has in its own __dict__ under a name. 1: *out, 0: nothing, -1. And setting it; NULL: deleting. */
int cr_own_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out);
/* Sets (value NULL: deletes) an attribute by the class's __setattr__. 0: done, or a frame was pushed that gives
 * nothing (`plain`: object.__setattr__ itself); -1. */
int cr_set_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject *value, bool plain);
/* Something in C that a class has under a special name, called with an object: object.__init__, dict.__setitem__. */
int cr_call_wrapper(cr_capture *c, cr_call_frame *f, PyObject *wrapper, const cr_arguments *a, PyObject **out);
int cr_member_offset(PyObject *descriptor, PyTypeObject *type); /* of a name in __slots__; -1: it is none */
/* super() with or without arguments, in the frame f; 1: *out. And an attribute of what it gives. (eval_super.c) */
int cr_call_super(cr_capture *c, cr_call_frame *f, const cr_arguments *a, PyObject **out);
extern PyTypeObject cr_super_type;
int cr_super_attribute(cr_capture *c, PyObject *value, PyObject *name, PyObject **out);
/* Something that a class has, as an object (a token) of the class shows it. `source`: where it is read from. */
int cr_bind_class_attribute(cr_capture *c, PyObject *self, PyObject *raw, int32_t source, PyObject **out);
/* object.__getattribute__; results as cr_get_attribute's. */
int cr_object_attribute(cr_capture *c, PyObject *token, PyObject *name, PyObject **out);
/* What a class has under a special name, as a value (a function: not bound). 1: *out; 0: what its class in C has, or
 * nothing; -1. */
int cr_class_special(cr_capture *c, PyObject *token, const char *name, PyObject **out);
bool cr_has_special_of_object(PyObject *token, const char *name); /* is it the one that every object has? */
/* An attribute of a value. 1: *out is it; 0: a frame was pushed whose result is it; -1; 2: there is none. */
int cr_get_attribute(cr_capture *c, PyObject *value, PyObject *name, PyObject **out);
int cr_missing(cr_capture *c, PyObject *value, PyObject *name); /* the AttributeError of it: -1 */
bool cr_is_text_of_function(PyObject *name); /* __name__ and the like, __annotations__, __type_params__ */
#if PY_VERSION_HEX >= 0x030C0000
#define CR_HAS_TYPE_PARAMETERS 1
#endif
/* The truth of a value. -1: exception or break. */
int cr_truth(cr_capture *c, PyObject *value);
/* Is an object of this class one of `of` (a class or tuple of them, values)? 1, 0; -1: exception or break. */
int cr_is_subclass(cr_capture *c, PyTypeObject *type, PyObject *of);
/* A builtin in C. As cr_call_value; what may be called at all is decided here. */
int cr_call_builtin(cr_capture *c, cr_call_frame *f, PyObject *callable, PyObject *const *args, Py_ssize_t nargs,
                    PyObject *kwnames);
/* A function in C of a library with foreign tensors (eval_foreign.c); as cr_call_value. 1: it is none. */
int cr_call_foreign(cr_capture *c, cr_call_frame *f, PyObject *callable, const cr_arguments *a);
/* A closure whose code has a row, from outside or made by the program. */
int cr_call_closure(cr_capture *c, cr_call_frame *f, PyObject *function, const cr_arguments *a);
PyObject *cr_class_of_result(cr_capture *c); /* of a tensor that an op gave, as a value; NULL: exception or break */
/* Pushes what a function in C returned; NULL: -1. */
int cr_give(cr_capture *c, cr_call_frame *f, PyObject *result);
/* What an op gave, as the library of the program shows it. Consumes it. NULL: exception or break. */
PyObject *cr_translate(cr_capture *c, PyObject *value);
/* Sets the gradient mode for what is recorded from now on; `a`: one constant. 0: *before; -1. */
int cr_switch_grad(cr_capture *c, const cr_arguments *a, bool *before);
bool cr_grad_came_too_late(const cr_capture *c); /* was a tensor from outside used where it was switched on? */
bool cr_set_keeps_grad(bool on); /* of this thread: switching it on ends captures; gives what was before */
PyObject *cr_call_for_real(cr_capture *c, cr_call_frame *f, PyObject *callable, const cr_arguments *a, bool is_op);
/* Is this the result of something that read data (a symbolic number, a tensor with such a size), which this capture
 * does not follow? Then a break, -1. Else 0. (unbacked.c) */
int cr_check_result(cr_capture *c, PyObject *value);
int cr_check_numbers(cr_capture *c, PyObject *list); /* the same of what tolist() gives; of other values 0 */
bool cr_is_enumeration(PyTypeObject *type);
/* A value that C code may iterate over or look into: dicts from outside are unfolded, objects whose class adds methods
 * to a container are that container, members of enumerations of texts and ints those. New reference. */
PyObject *cr_operand(cr_capture *c, PyObject *value);

/* ---- sets, and objects as keys (eval_sets.c) ---- */
extern bool cr_hashing; /* may tokens be hashed? Only between the next two */
/* Before and after a dict or set looks for this key, or gets it: where it is an object, that it is another than those
 * there is guarded. -1: exception or break. */
int cr_begin_key(cr_capture *c, PyObject *container, PyObject *key);
void cr_end_key(void);
bool cr_is_hashed_by_address(PyObject *token);
/* A method in C that takes such a key first, called. 1: *out; 0: it is none, or the key is no object; -1. */
int cr_call_with_key(cr_capture *c, PyObject *callable, const cr_arguments *a, PyObject **out);
/* Has it objects as keys or items? Which of those of two containers are one is not known. */
bool cr_has_objects(const cr_capture *c, PyObject *container);
/* Is it a set whose order the program must not see? Then a break, -1. Else 0. */
int cr_refuse_order(cr_capture *c, PyObject *set);
/* A set from outside as one of values, *before its items in its order. New references. */
PyObject *cr_copy_of_set(cr_capture *c, PyObject *real, int32_t source, PyObject **before);
bool cr_is_unchanged_set(PyObject *set, PyObject *before);

/* ---- dicts from outside with tensors or other objects as keys (eval_lookups.c) ---- */
/* What it has under the key; a defaultdict makes it where it has nothing. 1: *out; 0: it is another container, or no
 * such key; -1. */
int cr_item_by_object(cr_capture *c, cr_call_frame *f, PyObject *container, PyObject *key, PyObject **out);
int cr_has_object_key(cr_capture *c, PyObject *container, PyObject *key); /* 1, 0; 2: as above; -1 */
int cr_set_item_by_object(cr_capture *c, PyObject *container, PyObject *key, PyObject *value); /* 1: it is set */
/* What a tensor has beside its memory. 1: *out; 2: it is none of these; -1. And setting it: 1: it is set; 0; -1. */
int cr_part_of_tensor(cr_capture *c, PyObject *value, PyObject *name, PyObject **out);
int cr_set_part_of_tensor(cr_capture *c, PyObject *value, PyObject *name, PyObject *to);

/* ---- what classes answer in Python (eval_methods.c): 1: *out; 0: they do not; -1 ---- */
int cr_operator_by_method(cr_capture *c, cr_call_frame *f, int op, PyObject *a, PyObject *b, PyObject **out);
int cr_unary_by_method(cr_capture *c, cr_call_frame *f, const char *name, PyObject *value, PyObject **out);
int cr_compare_by_method(cr_capture *c, cr_call_frame *f, int op, PyObject *a, PyObject *b, PyObject **out);
int cr_contains_by_method(cr_capture *c, cr_call_frame *f, PyObject *container, PyObject *item, int *found);
/* value NULL: deletes. 0: a frame was pushed that gives nothing; 1: it has no such method; -1. */
int cr_set_item_by_method(cr_capture *c, cr_call_frame *f, PyObject *container, PyObject *key, PyObject *value);
PyObject *cr_text(cr_capture *c, cr_call_frame *f, PyObject *value, bool as_repr); /* str() or repr() of a value */
/* Two values are other objects: guarded, where both are from outside. */
int cr_guard_differ(cr_capture *c, PyObject *a, PyObject *b);

static inline void cr_push(cr_call_frame *f, PyObject *value) { f->stack[f->top++] = value; } /* takes it over */
static inline void cr_push_callable(cr_call_frame *f, PyObject *value) { /* with the NULL that calls have beside it */
    cr_push(f, CR_CALLABLE_FIRST ? value : NULL);
    cr_push(f, CR_CALLABLE_FIRST ? NULL : value);
}
static inline PyObject *cr_pop(cr_call_frame *f) { return f->stack[--f->top]; }                /* gives it away */
static inline PyObject *cr_peek(const cr_call_frame *f, int depth) { return f->stack[f->top - depth]; } /* 1: the top */

#endif

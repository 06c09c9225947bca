/* rt_block.c: runs block programs.
 *
 * The operands' dimensions are put in the order of the outputs' strides and merged where every operand allows it. What
 * is left is walked as one line of elements in blocks. An operand is, for the whole run, *linear* (its elements lie in
 * the order of the walk), *fixed* (one element) or *strided*. Strided operands make blocks end with the innermost
 * dimension where that is long; where it is short, blocks cross it and such operands are gathered piece by piece.
 *
 * Every element of a block is read before the block's last instruction, and outputs are written by that instruction or
 * after it: so an output may be the same view as an input. */
#include "runtime/rt_block.h"
#include "runtime/rt_block_internal.h"
#include "runtime/rt_math.h"

#include <stdlib.h>
#include <string.h>

enum {
    SCRATCH = 32 * 1024,    /* bytes of all slots together: within the first cache */
    LONG_ROW = 128,         /* blocks do not cross rows of at least this many elements */
    GRAIN = 32768,          /* additions that are worth another thread */
};
typedef enum layout { LINEAR, FIXED, STRIDED } layout;
typedef struct operand {
    char *p;
    int64_t itemsize;
    int64_t stride[RT_MAX_RANK]; /* in elements, of the merged dimensions; STRIDED only */
    uint8_t dtype, layout;
    bool in_place;               /* of the slot's own dtype */
} operand;
typedef struct job {
    const rt_program *program;
    const rt_scalar *constants;
    int64_t n, block;
    int rank;                    /* 0: no operand is strided */
    int64_t size[RT_MAX_RANK];
    operand op[RT_BLOCK_MAX_PORTS]; /* inputs, then outputs */
} job;
typedef union value { uint8_t b; float f32; double f64; int64_t i64; uint64_t u64; rt_c64 c64; rt_c128 c128; } value;

static rt_block_fn *loops[RT_OP_COUNT]; /* set once, before main */
/* Bytes and own dtype of each class, bytes of each dtype: a call for one element would feel the function calls. */
static uint8_t class_bytes[RT_CLASS_COUNT], class_dtype[RT_CLASS_COUNT], dtype_bytes[RT_DTYPE_COUNT];

__attribute__((constructor)) static void choose_loops(void) {
    rt_block_fn *const *fast = rt__block_base;
#if defined(__x86_64__)
    uint32_t has = rt_cpu();
    if (has & RT_CPU_AVX2) fast = rt__block_avx2;
    if (has & RT_CPU_AVX512) fast = rt__block_avx512;
#endif
    for (int op = 0; op < RT_OP_COUNT; op++) loops[op] = fast[op] ? fast[op] : rt__block_calls[op];
    for (int dtype = 0; dtype < RT_DTYPE_COUNT; dtype++) dtype_bytes[dtype] = (uint8_t)rt_itemsize(dtype);
    for (int class = 0; class < RT_CLASS_COUNT; class ++)
        class_dtype[class] = (uint8_t)rt_class_dtype(class), class_bytes[class] = dtype_bytes[class_dtype[class]];
}

static inline int execute(const rt_instr *at, int64_t n, void *out, void *const *slot) {
    return loops[at->op](n, out, slot[at->in[0]], slot[at->in[1]], slot[at->in[2]]);
}

/* ---- single values ---- */

/* What is there doubles: loops of their own for every width would be as fast, and every model carries this. */
static void splat(int class, void *p, int64_t n) {
    size_t bytes = class_bytes[class], done = bytes, total = (size_t)n * bytes;
    for (; done < total && done < 8 * bytes; done += bytes) memcpy((char *)p + done, p, bytes);
    for (size_t more; done < total; done += more) {
        more = done < total - done ? done : total - done;
        memcpy((char *)p + done, p, more);
    }
}

static void set_number(int class, void *p, const rt_scalar *s) {
    bool whole = s->kind == RT_ARG_INT;
    double re = whole ? (double)s->i : s->f, im = s->kind == RT_ARG_COMPLEX ? s->im : 0;
    switch (class) {
    case RT_CLASS_B: *(uint8_t *)p = whole ? s->i != 0 : re != 0 || im != 0; break;
    case RT_CLASS_F32: *(float *)p = whole ? (float)s->i : (float)re; break;
    case RT_CLASS_F64: *(double *)p = re; break;
    case RT_CLASS_I64: *(int64_t *)p = whole ? s->i : (int64_t)re; break;
    case RT_CLASS_U64: *(uint64_t *)p = whole ? (uint64_t)s->i : re < 0 ? (uint64_t)(int64_t)re : (uint64_t)re; break;
    case RT_CLASS_C64: *(rt_c64 *)p = (rt_c64){ (float)re, (float)im }; break;
    default: *(rt_c128 *)p = (rt_c128){ re, im }; break;
    }
}

/* Rounds one number of a class to a dtype of that class. */
static void round_number(int class, int dtype, void *p) {
    value narrow;
    int own = class_dtype[class];
    if (dtype == own) return;
    rt_convert(dtype, &narrow, 1, own, p, 1, 1);
    rt_convert(own, p, 1, dtype, &narrow, 1, 1);
}

/* ---- loads and stores of runs ---- */

/* Converts n elements to the slot's class, through the dtype that the inputs were promoted to. */
static void load(const rt_port *port, bool wide, void *to, int dtype, const void *from, int64_t stride, int64_t n) {
    int own = class_dtype[port->class];
    if (dtype == own && n == 1 && (wide || port->round == own)) {
        memcpy(to, from, class_bytes[port->class]);
        return;
    }
    if (wide || dtype == port->round || port->round == own) {
        rt_convert(own, to, 1, dtype, from, stride, n);
        return;
    }
    value narrow[64];
    int64_t itemsize = dtype_bytes[dtype];
    for (int64_t i = 0; i < n; i += 64) {
        int64_t k = n - i < 64 ? n - i : 64;
        rt_convert(port->round, narrow, 1, dtype, (const char *)from + i * stride * itemsize, stride, k);
        rt_convert(own, (char *)to + i * class_bytes[port->class], 1, port->round, narrow, 1, k);
    }
}

/* The other way. An instruction may have been left out because its result is an input: then both may be one place. */
static void store(int dtype, void *to, int64_t stride, const rt_port *port, const void *from, int64_t n) {
    if (to != from) rt_convert(dtype, to, stride, class_dtype[port->class], from, 1, n);
}

/* Rows of n elements each, of `bytes` bytes; strides in elements. Rows are short: a call for each costs most. */
typedef struct rows { char *p; int64_t step, row; } rows;
static void move_rows(rows to, rows from, int64_t count, int64_t n, int64_t bytes) {
#define MOVE(B)                                                                                                        \
    for (int64_t r = 0; r < count; r++) {                                                                              \
        char *t = to.p + r * to.row * B;                                                                               \
        const char *f = from.p + r * from.row * B;                                                                     \
        for (int64_t i = 0; i < n; i++) memcpy(t + i * to.step * B, f + i * from.step * B, B);                         \
    }
    switch (bytes) {
    case 1: MOVE(1) break;
    case 4: MOVE(4) break;
    case 8: MOVE(8) break;
    default: MOVE(16) break;
    }
#undef MOVE
}

/* The rows that a block of n elements starting at `start` crosses: from the operand to the slot, or back. */
static void cross(const job *j, const operand *op, const rt_port *port, char *slot, const int64_t *start, int64_t n,
                  bool back) {
    int last = j->rank - 1;
    int64_t index[RT_MAX_RANK], inner = j->size[last], width = class_bytes[port->class];
    memcpy(index, start, (size_t)j->rank * sizeof *index);
    for (int64_t done = 0, run, count = 1; done < n; done += run * count) {
        int64_t offset = 0;
        for (int d = 0; d <= last; d++) offset += index[d] * op->stride[d];
        run = inner - index[last];
        if (run > n - done) run = n - done;
        /* Whole rows as far as one stride leads from each to the next. */
        count = run == inner && last && op->in_place ? (n - done) / inner : 1;
        if (last && count > j->size[last - 1] - index[last - 1]) count = j->size[last - 1] - index[last - 1];
        char *at = op->p + offset * op->itemsize, *own = slot + done * width;
        rows there = { at, op->stride[last], last ? op->stride[last - 1] : 0 }, here = { own, 1, inner };
        if (op->in_place) move_rows(back ? there : here, back ? here : there, count, run, op->itemsize);
        else if (back) store(op->dtype, at, op->stride[last], port, own, run);
        else load(port, false, own, op->dtype, at, op->stride[last], run);
        index[last] += run;
        if (last) index[last - 1] += count - 1;
        for (int d = last; d > 0 && index[d] == j->size[d]; d--) index[d] = 0, index[d - 1]++;
    }
}

/* ---- the walk ---- */

/* Elements [begin, end) of the line. */
static int run_range(void *arg, int64_t begin, int64_t end) {
    const job *j = arg;
    const rt_program *program = j->program;
    _Alignas(64) char scratch[SCRATCH];
    void *slot[RT_BLOCK_MAX_SLOTS];
    int64_t length = end - begin < j->block ? end - begin : j->block;
    for (int s = 0; s < program->nslots; s++) slot[s] = scratch + s * j->block * program->width;

    for (int i = 0; i < program->nconstants; i++) {
        const rt_port *port = &program->constant[i];
        set_number(port->class, slot[port->slot], &j->constants[i]);
        if (port->round != RT_DTYPE_COUNT) round_number(port->class, port->round, slot[port->slot]);
    }
    for (int i = 0; i < program->nliterals; i++) {
        const rt_literal *l = &program->literal[i];
        rt_scalar s = { l->class == RT_CLASS_I64 || l->class == RT_CLASS_U64 ? RT_ARG_INT : RT_ARG_COMPLEX, l->i, l->re,
                        l->im };
        set_number(l->class, slot[l->slot], &s);
    }
    for (int i = 0; i < program->nprologue; i++) {
        int code = execute(&program->code[i], 1, slot[program->code[i].out], slot);
        if (code) return code;
    }
    if (length > 1) {
        for (int i = 0; i < program->nconstants; i++)
            splat(program->constant[i].class, slot[program->constant[i].slot], length);
        for (int i = 0; i < program->nliterals; i++)
            splat(program->literal[i].class, slot[program->literal[i].slot], length);
        for (int i = 0; i < program->nprologue; i++)
            splat(rt_block_out_class(program->code[i].op), slot[program->code[i].out], length);
    }
    for (int i = 0; i < program->nin; i++) {
        const operand *op = &j->op[i];
        const rt_port *port = &program->in[i];
        if (op->layout != FIXED) continue;
        load(port, port->flags & RT_PORT_WIDE, slot[port->slot], op->dtype, op->p, 0, 1);
        if (length > 1) splat(port->class, slot[port->slot], length);
    }

    int last = program->ninstr - 1, rank = j->rank;
    int direct = -1; /* the output that the last instruction may write */
    for (int i = 0; last >= program->nprologue && i < program->nout; i++)
        if (program->out[i].slot == program->code[last].out && j->op[program->nin + i].in_place) direct = i;
    int64_t index[RT_MAX_RANK], inner = rank ? j->size[rank - 1] : 0, step = j->block;
    bool crossing = rank && inner < LONG_ROW;
    if (rank) {
        int64_t rest = begin;
        for (int d = rank - 1; d >= 0; d--) index[d] = rest % j->size[d], rest /= j->size[d];
        if (!crossing) { /* equal blocks in a row: 520 elements are 272 + 248, not 512 + 8 */
            int64_t blocks = (inner + step - 1) / step;
            step = ((inner + blocks - 1) / blocks + 15) & ~(int64_t)15;
            if (step > j->block) step = j->block;
        }
    }
    for (int64_t at = begin, n; at < end; at += n) {
        n = end - at < step ? end - at : step;
        if (rank && !crossing && n > inner - index[rank - 1]) n = inner - index[rank - 1];
        for (int i = 0; i < program->nin; i++) {
            const operand *op = &j->op[i];
            const rt_port *port = &program->in[i];
            void *own = scratch + port->slot * j->block * program->width;
            if (op->layout == LINEAR) {
                char *p = op->p + at * op->itemsize;
                if (op->in_place) slot[port->slot] = p;
                else load(port, false, own, op->dtype, p, 1, n);
            } else if (op->layout == STRIDED && crossing) {
                cross(j, op, port, own, index, n, false);
            } else if (op->layout == STRIDED) {
                int64_t offset = 0, stride = op->stride[rank - 1];
                for (int d = 0; d < rank; d++) offset += index[d] * op->stride[d];
                char *p = op->p + offset * op->itemsize;
                if (stride == 1 && op->in_place) {
                    slot[port->slot] = p;
                } else if (stride == 0) {
                    load(port, false, own, op->dtype, p, 0, 1);
                    splat(port->class, own, n);
                    slot[port->slot] = own;
                } else {
                    load(port, false, own, op->dtype, p, stride, n);
                    slot[port->slot] = own;
                }
            }
        }
        void *target = NULL;
        if (direct >= 0) {
            const operand *op = &j->op[program->nin + direct];
            if (op->layout == LINEAR) {
                target = op->p + at * op->itemsize;
            } else if (op->layout == STRIDED && !crossing && op->stride[rank - 1] == 1) {
                int64_t offset = 0;
                for (int d = 0; d < rank; d++) offset += index[d] * op->stride[d];
                target = op->p + offset * op->itemsize;
            }
        }
        for (int i = program->nprologue; i <= last; i++) {
            int code = execute(&program->code[i], n, i == last && target ? target : slot[program->code[i].out], slot);
            if (code) return code;
        }
        for (int i = 0; i < program->nout; i++) {
            const operand *op = &j->op[program->nin + i];
            const rt_port *port = &program->out[i];
            if (i == direct && target) continue;
            /* Another output may read the slot that was written to memory instead. */
            const void *from = direct >= 0 && target && port->slot == program->out[direct].slot ? target
                                                                                                : slot[port->slot];
            if (op->layout != STRIDED) store(op->dtype, op->p + at * op->itemsize, 1, port, from, n);
            else cross(j, op, port, (char *)from, index, n, true);
        }
        if (rank) {
            index[rank - 1] += n;
            for (int d = rank - 1; d > 0 && index[d] >= j->size[d]; d--)
                index[d - 1] += index[d] / j->size[d], index[d] %= j->size[d];
        }
    }
    return RT_OK;
}

/* ---- layouts ---- */

/* The stride of dimension d (of `rank`) in a view that broadcasts to the shape. */
static inline int64_t stride_at(const rt_operand *v, int d, int rank) {
    d -= rank - v->rank;
    return d < 0 || v->size[d] == 1 ? 0 : v->stride[d];
}

/* Contiguous outputs, and inputs that are contiguous with the same shape or have one element: nothing to work out. */
static bool plan_plain(job *j, const rt_operand *view, int nviews, const rt_operand *shape) {
    int rank = shape->rank;
    for (int i = 0; i < nviews; i++) {
        const rt_operand *v = &view[i];
        operand *op = &j->op[i];
        bool same = v->rank == rank;
        int64_t numel = 1;
        for (int d = v->rank - 1; d >= 0; d--) {
            if (v->size[d] != 1 && v->stride[d] != numel) same = false;
            numel *= v->size[d];
        }
        /* Same rank and count, and it broadcasts: same shape. */
        if (same && numel == j->n && (numel > 1 || op->in_place || i >= j->program->nin)) op->layout = LINEAR;
        else if (numel == 1 && i < j->program->nin) op->layout = FIXED;
        else return false;
    }
    j->rank = 0;
    return true;
}

static void plan_strided(job *j, const rt_operand *view, int nviews, const rt_operand *shape) {
    int order[RT_MAX_RANK], rank = 0, nin = j->program->nin;
    for (int d = 0; d < shape->rank; d++)
        if (shape->size[d] != 1) order[rank++] = d;
    /* Outermost first: by the first operand, outputs leading, that tells two dimensions apart. Insertion keeps
     * order. */
    for (int i = 1; i < rank; i++)
        for (int k = i; k > 0; k--) {
            bool swap = false;
            for (int v = 0; v < nviews; v++) {
                const rt_operand *at = &view[(v + nin) % nviews];
                int64_t outer = stride_at(at, order[k - 1], shape->rank), inner = stride_at(at, order[k], shape->rank);
                if (outer == inner || !outer || !inner) continue;
                swap = outer < inner;
                break;
            }
            if (!swap) break;
            int d = order[k];
            order[k] = order[k - 1], order[k - 1] = d;
        }
    j->rank = 0;
    for (int i = 0; i < rank; i++) {
        int d = order[i];
        bool merge = j->rank > 0;
        for (int v = 0; merge && v < nviews; v++)
            merge = j->op[v].stride[j->rank - 1] == stride_at(&view[v], d, shape->rank) * shape->size[d];
        if (!merge) j->size[j->rank++] = 1;
        j->size[j->rank - 1] *= shape->size[d];
        for (int v = 0; v < nviews; v++) j->op[v].stride[j->rank - 1] = stride_at(&view[v], d, shape->rank);
    }
    bool strided = false;
    for (int v = 0; v < nviews; v++) {
        int64_t expected = 1;
        bool linear = true, fixed = true;
        for (int d = j->rank - 1; d >= 0; d--) {
            linear = linear && j->op[v].stride[d] == expected;
            fixed = fixed && j->op[v].stride[d] == 0;
            expected *= j->size[d];
        }
        j->op[v].layout = fixed && v < nin ? FIXED : linear ? LINEAR : STRIDED;
        strided = strided || j->op[v].layout == STRIDED;
    }
    if (!strided) j->rank = 0;
}

int rt_block_run(const rt_ctx *ctx, const rt_program *program, const rt_operand *view, const rt_scalar *constants) {
    const rt_operand *shape = &view[program->nin];
    int nviews = program->nin + program->nout;
    job j;
    j.program = program;
    j.constants = constants;
    j.n = 1;
    for (int d = 0; d < shape->rank; d++) j.n *= shape->size[d];
    if (j.n == 0) return RT_OK;
    for (int i = 0; i < nviews; i++) {
        bool output = i >= program->nin;
        const rt_port *port = output ? &program->out[i - program->nin] : &program->in[i];
        int own = class_dtype[port->class];
        j.op[i].p = view[i].p;
        j.op[i].dtype = (uint8_t)view[i].dtype;
        j.op[i].itemsize = dtype_bytes[view[i].dtype];
        j.op[i].in_place = view[i].dtype == own && (output || port->round == own);
    }
    if (!plan_plain(&j, view, nviews, shape)) plan_strided(&j, view, nviews, shape);
    j.block = SCRATCH / (program->width * (program->nslots ? program->nslots : 1)) & ~15;
    if (j.block > RT_BLOCK) j.block = RT_BLOCK;

    int64_t grain = GRAIN / (1 + program->cost);
    int code = j.n <= grain ? run_range(&j, 0, j.n) : rt_parallel_for(ctx, j.n, grain, run_range, &j);
    return code == RT_ERUNTIME ? rt_fail(ctx, code, "ZeroDivisionError: an integer was divided by zero") : code;
}

/* bind.c: which overload do these arguments mean?
 *
 * Works on argument kinds alone, so the Python binding, capture, formulas and the graph parser share it. Two rounds
 * over the overloads in table order: first without, then with the lenient conversions (a number in a Tensor slot, a 0-d
 * tensor where a number is asked). The error text is made only when both rounds fail.
 *
 * This is also where a symbolic number meets what the schema asks for: SymInt and Scalar take the expression, a plain
 * int, float or bool takes the example's number, and the program is guarded to be for that number alone. Behind a
 * binding a plain parameter holds a plain number. */
#include "ops/op.h"

typedef struct binder {
    const cr_arg *args;
    size_t nargs;
    const cr_keyword *keywords;
    size_t nkeywords;
    cr_arena *arena;
    bool lenient;
} binder;

static bool is_tensor(const cr_arg *a) {
    return a->kind == CR_ARG_TENSOR || a->kind == CR_ARG_META || (a->kind == CR_ARG_VALUE && a->type == CR_T_TENSOR);
}

static bool is_value_of(const cr_arg *a, cr_type type) { return a->kind == CR_ARG_VALUE && a->type == type; }

static bool is_scalar_tensor(const cr_arg *a) {
    const cr_meta *m = cr_arg_meta(a);
    return m && !m->rank;
}

static bool is_number(const cr_arg *a) {
    return cr_arg_is_number(a) || a->kind == CR_ARG_SYM || is_value_of(a, CR_T_INT) || is_value_of(a, CR_T_FLOAT) ||
           is_value_of(a, CR_T_BOOL) || is_value_of(a, CR_T_SCALAR);
}

/* One value (not a list) against a parameter's type. */
static bool item_fits(const cr_op *op, const cr_param *p, const cr_arg *a, bool lenient) {
    bool numbers = lenient || (op->tags & CR_TAG_NUMBERS);
    switch ((cr_type)p->type) {
    /* nothing can be written to a number */
    case CR_T_TENSOR: return is_tensor(a) || (numbers && !p->writes && is_number(a));
    case CR_T_SCALAR: return is_number(a) || (lenient && is_scalar_tensor(a));
    case CR_T_INT:
        return a->kind == CR_ARG_INT || is_value_of(a, CR_T_INT) || is_value_of(a, CR_T_SCALAR) ||
               (lenient && (is_scalar_tensor(a) && cr_dtype_is_integral(cr_arg_meta(a)->dtype)));
    case CR_T_FLOAT:
        return a->kind == CR_ARG_FLOAT || a->kind == CR_ARG_INT || a->kind == CR_ARG_SYM ||
               is_value_of(a, CR_T_FLOAT) || is_value_of(a, CR_T_INT) || is_value_of(a, CR_T_SCALAR) ||
               (lenient && (a->kind == CR_ARG_BOOL || is_scalar_tensor(a)));
    case CR_T_BOOL:
        return a->kind == CR_ARG_BOOL || a->kind == CR_ARG_SYM || is_value_of(a, CR_T_BOOL) ||
               (lenient && a->kind == CR_ARG_INT);
    case CR_T_STR: return a->kind == CR_ARG_STR;
    case CR_T_DTYPE: return a->kind == CR_ARG_DTYPE;
    case CR_T_LAYOUT: return a->kind == CR_ARG_LAYOUT;
    case CR_T_DEVICE: return a->kind == CR_ARG_DEVICE || a->kind == CR_ARG_STR;
    case CR_T_FORMAT: return a->kind == CR_ARG_FORMAT;
    case CR_T_GENERATOR: return a->kind == CR_ARG_GENERATOR;
    case CR_T_GRAPH: return a->kind == CR_ARG_GRAPH;
    case CR_T_ANY: return true;
    case CR_T_COUNT: break;
    }
    return false;
}

static bool fits(const cr_op *op, const cr_param *p, const cr_arg *a, bool lenient) {
    if (a->kind == CR_ARG_NONE) return p->optional || (p->type == CR_T_ANY && !p->list);
    if (!p->list) return a->kind != CR_ARG_LIST ? item_fits(op, p, a, lenient) : p->type == CR_T_ANY;
    if (a->kind != CR_ARG_LIST) /* one number stands for a list of a known length */
        return p->list_size > 0 && p->type != CR_T_TENSOR && item_fits(op, p, a, lenient);
    for (uint32_t i = 0; i < a->n; i++) {
        const cr_arg *item = &a->u.list[i];
        if (item->kind == CR_ARG_NONE ? !p->item_optional && p->type != CR_T_ANY : !item_fits(op, p, item, lenient))
            return false;
        /* numbers stand only for single tensors */
        if (p->type == CR_T_TENSOR && item->kind != CR_ARG_NONE && !is_tensor(item)) return false;
    }
    return true;
}

/* Whether it is symbolic, cr_arg_settle knows, from the environment. */
static bool may_need_settling(const cr_param *p, const cr_arg *a) {
    bool perhaps = a->kind == CR_ARG_SYM || (a->kind == CR_ARG_INT && !cr_dim_is_plain(a->u.i));
    return perhaps && !p->symbolic && (p->type == CR_T_INT || p->type == CR_T_FLOAT || p->type == CR_T_BOOL);
}

static cr_env *env_of(const cr_arg *a) {
    cr_env *env = a->kind == CR_ARG_TENSOR ? a->u.t->env : NULL;
    for (uint32_t i = 0; !env && a->kind == CR_ARG_LIST && i < a->n; i++) env = env_of(&a->u.list[i]);
    return env;
}

/* The environment of the call's symbolic numbers: that of its fake tensors, else the one that is being recorded in. */
static cr_env *find_env(const binder *b) {
    cr_env *env = NULL;
    for (size_t i = 0; !env && i < b->nargs; i++) env = env_of(&b->args[i]);
    for (size_t i = 0; !env && i < b->nkeywords; i++) env = env_of(&b->keywords[i].value);
    return env ? env : cr_ambient_get()->mode.env;
}

static cr_status settle(const binder *b, const cr_param *p, cr_arg *a) {
    cr_env *env = find_env(b);
    if (!env && (a->kind == CR_ARG_SYM || a->type))
        return CR_FAIL(CR_EVALUE, "argument '%s' is a symbolic number outside of the fake mode that made it", p->name);
    return cr_arg_settle(env, a);
}

static cr_status convert_item(const binder *b, const cr_param *p, cr_arg *a) {
    uint8_t given = a->given;
    if (may_need_settling(p, a)) CR_TRY(settle(b, p, a));
    if ((p->type == CR_T_SCALAR || p->type == CR_T_INT || p->type == CR_T_FLOAT) && a->kind == CR_ARG_TENSOR) {
        if (cr_tensor_is_fake(a->u.t))
            return CR_FAIL(CR_EDATADEP, "argument '%s' needs the value of a fake tensor", p->name);
        rt_scalar s;
        CR_TRY(cr_tensor_item(a->u.t, NULL, &s));
        if (s.kind == RT_ARG_COMPLEX)
            return CR_FAIL(CR_ETYPE, "argument '%s': a complex tensor cannot stand for a number here; use .item()",
                           p->name);
        int dtype = a->u.t->meta.dtype;
        *a = s.kind == RT_ARG_FLOAT ? cr_arg_float(s.f) : dtype == CR_BOOL ? cr_arg_bool(s.i) : cr_arg_int(s.i);
        if (p->type == CR_T_INT) a->kind = CR_ARG_INT;
    }
    if (p->type == CR_T_FLOAT && (a->kind == CR_ARG_INT || a->kind == CR_ARG_BOOL) && cr_dim_is_plain(a->u.i))
        *a = cr_arg_float((double)a->u.i);
    if (p->type == CR_T_BOOL && a->kind == CR_ARG_INT) *a = cr_arg_bool(a->u.i != 0);
    if (p->type == CR_T_DEVICE && a->kind == CR_ARG_STR) {
        cr_device device;
        CR_TRY(cr_device_parse(a->u.s, &device));
        *a = (cr_arg){ .kind = CR_ARG_DEVICE, .u.device = device };
    }
    a->given = given;
    return CR_OK;
}

static bool item_needs_conversion(const cr_param *p, const cr_arg *a) {
    return may_need_settling(p, a) || (p->type == CR_T_FLOAT && a->kind == CR_ARG_INT) ||
           (p->type != CR_T_TENSOR && p->type != CR_T_ANY && a->kind == CR_ARG_TENSOR);
}

static cr_status convert(const binder *b, const cr_param *p, cr_arg *a) {
    if (!p->list || a->kind == CR_ARG_NONE) return convert_item(b, p, a);
    if (a->kind == CR_ARG_LIST) {
        bool needed = false;
        for (uint32_t i = 0; i < a->n; i++) needed |= item_needs_conversion(p, &a->u.list[i]);
        if (!needed) return CR_OK;
        cr_arg *items = cr_arena_copy(b->arena, a->u.list, a->n * sizeof *items);
        if (!items) return CR_ENOMEM;
        for (uint32_t i = 0; i < a->n; i++) CR_TRY(convert_item(b, p, &items[i]));
        a->u.list = items;
        return CR_OK;
    }
    cr_arg *items = cr_arena_alloc(b->arena, (size_t)p->list_size * sizeof *items);
    if (!items) return CR_ENOMEM;
    CR_TRY(convert_item(b, p, a));
    for (int32_t i = 0; i < p->list_size; i++) items[i] = *a;
    *a = (cr_arg){ .kind = CR_ARG_LIST, .given = a->given, .n = (uint32_t)p->list_size, .u.list = items };
    return CR_OK;
}

/* x.view(2, 3), zeros(2, 3): plain ints for the only int list among the positional parameters. Returns its index or
 * -1. */
static int spread_param(const cr_op *op, const binder *b) {
    const cr_schema *s = &op->schema;
    int at = s->nparams && s->params[0].type == CR_T_TENSOR && !s->params[0].list ? 1 : 0;
    if (at >= s->npositional || !s->params[at].list || s->params[at].list_size || s->params[at].type != CR_T_INT)
        return -1;
    if (b->nargs <= (size_t)at) return -1;
    for (size_t i = (size_t)at; i < b->nargs; i++)
        if (b->args[i].kind != CR_ARG_INT && !is_value_of(&b->args[i], CR_T_INT)) return -1;
    return at;
}

static const cr_arg *keyword_find(const binder *b, const char *name) {
    for (size_t i = 0; i < b->nkeywords; i++)
        if (!strcmp(b->keywords[i].name, name)) return &b->keywords[i].value;
    return NULL;
}

/* NumPy's names for the first argument and for dims are understood as PyTorch understands them. */
static const cr_arg *keyword_for(const binder *b, const cr_op *op, const cr_param *p) {
    const cr_arg *found = keyword_find(b, p->name);
    if (found || !b->nkeywords) return found;
    if (!strcmp(p->name, "self")) return keyword_find(b, "input");
    if (!strcmp(p->name, "dim") && (found = keyword_find(b, "axis"))) return found;
    if (!strcmp(p->name, "keepdim") && (found = keyword_find(b, "keepdims"))) return found;
    (void)op;
    return NULL;
}

/* Does the call fit? Fills `args` (unconverted) when it does. */
static bool match(const binder *b, const cr_op *op, cr_arg *args, int *spread) {
    const cr_schema *s = &op->schema;
    size_t used = 0;
    *spread = -1;
    size_t nargs = b->nargs;
    if (nargs > s->npositional || (nargs && nargs == s->npositional)) {
        *spread = spread_param(op, b);
        if (nargs > s->npositional && *spread < 0) return false;
    } else {
        *spread = spread_param(op, b);
    }
    if (*spread >= 0) nargs = (size_t)*spread;
    for (uint16_t i = 0; i < s->nparams; i++) {
        const cr_param *p = &s->params[i];
        const cr_arg *given = i < nargs ? &b->args[i] : NULL;
        if ((int)i == *spread) continue;
        if (!given) {
            given = keyword_for(b, op, p);
            if (given) used++;
            else if (!p->has_default && !(p->optional && p->keyword_only)) return false;
        } else if (b->nkeywords && keyword_for(b, op, p)) {
            return false; /* given twice */
        }
        if (!given) {
            args[i] = p->fallback;
            args[i].given = CR_GIVEN_DEFAULT;
            continue;
        }
        if (!fits(op, p, given, b->lenient)) return false;
        args[i] = *given;
        args[i].given = i < nargs ? CR_GIVEN_POSITIONAL : CR_GIVEN_KEYWORD;
    }
    return used == b->nkeywords;
}

static const char *kind_name(const cr_arg *a) {
    static const char *const names[CR_ARG_KIND_COUNT] = { "None",   "Tensor",        "Tensor",  "Tensor",    "int",
                                                          "float",  "bool",          "complex", "str",       "dtype",
                                                          "layout", "memory_format", "device",  "Generator", "list",
                                                          "graph",  "symbol" };
    return a->kind < CR_ARG_KIND_COUNT ? names[a->kind] : "?";
}

static void describe(const cr_arg *a, cr_str *out) {
    cr_str_add(out, kind_name(a));
    if (a->kind == CR_ARG_LIST && a->n) cr_str_addf(out, " of %s", kind_name(&a->u.list[0]));
}

/* The most helpful single complaint about one overload. */
static void complain(const binder *b, const cr_op *op, cr_str *out) {
    const cr_schema *s = &op->schema;
    if (b->nargs > s->npositional) {
        cr_str_addf(out, "takes %d positional argument%s but %zu were given", s->npositional,
                    s->npositional == 1 ? "" : "s", b->nargs);
        return;
    }
    for (size_t k = 0; k < b->nkeywords; k++) {
        bool known = false;
        for (uint16_t i = 0; i < s->nparams && !known; i++)
            known = keyword_for(b, op, &s->params[i]) == &b->keywords[k].value;
        if (!known) {
            cr_str_addf(out, "got an unexpected keyword argument '%s'", b->keywords[k].name);
            return;
        }
    }
    for (uint16_t i = 0; i < s->nparams; i++) {
        const cr_param *p = &s->params[i];
        const cr_arg *given = i < b->nargs ? &b->args[i] : keyword_for(b, op, p);
        if (!given && !p->has_default && !(p->optional && p->keyword_only)) {
            cr_str_addf(out, "missing argument '%s' (position %d)", p->name, i + 1);
            return;
        }
        if (given && !fits(op, p, given, b->lenient)) {
            cr_param type = *p;
            cr_schema one = { .ns = "", .name = "", .overload = "", .returns = &type, .nreturns = 1 };
            cr_str text;
            cr_str_init(&text);
            type.name = "";
            type.alias = 0;
            cr_schema_print(&one, &text);
            const char *arrow = strstr(cr_str_get(&text), "-> ");
            cr_str_addf(out, "argument '%s' (position %d) must be %s, not ", p->name, i + 1, arrow ? arrow + 3 : "?");
            describe(given, out);
            cr_str_dispose(&text);
            return;
        }
    }
    cr_str_add(out, "an argument was given twice");
}

static cr_status refuse(const binder *b, const cr_op *first, bool only) {
    cr_str text;
    cr_str_init(&text);
    cr_str_addf(&text, "%s(): ", first->schema.name);
    if (only || !first->next) {
        complain(b, first, &text);
        cr_str_addf(&text, "; it is %s", first->schema.text);
    } else {
        cr_str_add(&text, "no overload accepts (");
        for (size_t i = 0; i < b->nargs; i++) {
            if (i) cr_str_add(&text, ", ");
            describe(&b->args[i], &text);
        }
        for (size_t i = 0; i < b->nkeywords; i++) {
            if (i || b->nargs) cr_str_add(&text, ", ");
            cr_str_addf(&text, "%s=", b->keywords[i].name);
            describe(&b->keywords[i].value, &text);
        }
        cr_str_add(&text, "); the first one ");
        complain(b, first, &text);
        cr_str_add(&text, "; the overloads are");
        for (const cr_op *op = first; op; op = op->next)
            cr_str_addf(&text, "%s %s", op == first ? "" : ";", op->schema.text);
    }
    cr_status status = CR_FAIL(CR_ETYPE, "%s", cr_str_get(&text));
    cr_str_dispose(&text);
    return status;
}

cr_status cr_bind(const cr_op *first, bool only, const cr_arg *args, size_t nargs, const cr_keyword *keywords,
                  size_t nkeywords, cr_arena *arena, cr_binding *out) {
    binder b = { args, nargs, keywords, nkeywords, arena, only };
    for (size_t i = 0; i < nkeywords; i++)
        if (keywords[i].value.kind == CR_ARG_BOOL && keywords[i].value.u.i && !strcmp(keywords[i].name, "pin_memory"))
            return CR_FAIL(CR_ERUNTIME, "%s(): pin_memory=True needs an accelerator, and there is none; leave it out",
                           first->schema.name);
    for (int round = only ? 1 : 0; round < 2; round++) {
        b.lenient = round == 1;
        for (const cr_op *op = first; op; op = only ? NULL : op->next) {
            int spread;
            if (!match(&b, op, out->args, &spread)) continue;
            out->op = op;
            if (spread >= 0)
                out->args[spread] = (cr_arg){ .kind = CR_ARG_LIST,
                                              .given = CR_GIVEN_POSITIONAL,
                                              .n = (uint32_t)(nargs - (size_t)spread),
                                              .u.list = args + spread };
            for (uint16_t i = 0; i < op->schema.nparams; i++) {
                const cr_param *p = &op->schema.params[i];
                if (p->type == CR_T_TENSOR && !p->list) continue;
                cr_status status = convert(&b, p, &out->args[i]);
                if (status) return cr_error_context(status, "%s", op->schema.name);
            }
            return CR_OK;
        }
    }
    return refuse(&b, first, only);
}

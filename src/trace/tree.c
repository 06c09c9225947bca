/* Pytree specs: from PyTorch's text and back.
 *
 * The text is JSON with JSON inside: a context is usually a string that holds the JSON of a Python value (a dict's
 * keys, a deque's length), written as Python's json.dumps writes it, which keeps to ASCII. Contexts are kept as they
 * were read, so that printing gives the text that came; keys, names and lengths are read out of them once, here.
 *
 * Nodes lie in the tree's arena, the children of a node side by side. Recursion is as deep as the JSON parser
 * accepts. */
#include "trace/tree.h"

#include "archive/json.h"
#include "base/utf8.h"

#include <stdatomic.h>
#include <stdio.h>

struct cr_tree {
    atomic_long refs;
    cr_arena arena;
    cr_tree_node root;
};

/* What a context of a type holds. */
enum { NOTHING, KEYS, FACTORY_AND_KEYS, CLASS_NAME, MAXLEN };
static const struct { const char *type; uint8_t kind, context; } types[] = {
    {"builtins.tuple", CR_TREE_TUPLE, NOTHING},
    {"builtins.list", CR_TREE_LIST, NOTHING},
    {"builtins.dict", CR_TREE_DICT, KEYS},
    {"collections.OrderedDict", CR_TREE_ORDERED_DICT, KEYS},
    {"collections.defaultdict", CR_TREE_DEFAULT_DICT, FACTORY_AND_KEYS},
    {"collections.namedtuple", CR_TREE_NAMEDTUPLE, CLASS_NAME},
    {"collections.deque", CR_TREE_DEQUE, MAXLEN},
    {"builtins.NoneType", CR_TREE_NONE, NOTHING},
};

typedef struct parser {
    cr_arena *arena; /* the tree's */
    cr_arena json;   /* goes when parsing ends */
    const char *(*fields)(void *, const char *, size_t);
    void *user;
} parser;

/* ---- JSON as Python writes it: ", " and ": ", ASCII alone ---- */

static void add_string(cr_str *out, const char *s, size_t n) {
    const uint8_t *p = (const uint8_t *)s, *end = p + n;
    cr_str_addc(out, '"');
    while (p < end) {
        size_t step = cr__utf8_step(p, end);
        if (step <= 1) {
            static const char escapes[] = "\"\"\\\\\nn\tt\rr\bb\ff"; /* pairs: byte, letter */
            const char *pair = escapes;
            while (*pair && (uint8_t)*pair != *p) pair += 2;
            if (*pair) cr_str_addf(out, "\\%c", pair[1]);
            else if (*p < 0x20 || *p >= 0x7f) cr_str_addf(out, "\\u%04x", *p);
            else cr_str_addc(out, (char)*p);
            p++;
            continue;
        }
        uint32_t code = *p & (0x7fu >> step);
        for (size_t i = 1; i < step; i++) code = code << 6 | (p[i] & 0x3f);
        if (code >= 0x10000)
            cr_str_addf(out, "\\u%04x\\u%04x", 0xd800 + ((code - 0x10000) >> 10), 0xdc00 + ((code - 0x10000) & 0x3ff));
        else cr_str_addf(out, "\\u%04x", code);
        p += step;
    }
    cr_str_addc(out, '"');
}

static void add_json(cr_str *out, const cr_json *v) {
    cr_json_writer w;
    switch ((cr_json_kind)v->kind) {
    case CR_JSON_STRING: add_string(out, v->u.s, v->n); break;
    case CR_JSON_ARRAY:
        cr_str_addc(out, '[');
        for (uint32_t i = 0; i < v->n; i++) {
            if (i) cr_str_add(out, ", ");
            add_json(out, &v->u.items[i]);
        }
        cr_str_addc(out, ']');
        break;
    case CR_JSON_OBJECT:
        cr_str_addc(out, '{');
        for (uint32_t i = 0; i < v->n; i++) {
            if (i) cr_str_add(out, ", ");
            add_string(out, v->u.members[i].key, strlen(v->u.members[i].key));
            cr_str_add(out, ": ");
            add_json(out, &v->u.members[i].value);
        }
        cr_str_addc(out, '}');
        break;
    default:
        cr_json_writer_init(&w, out, 0);
        cr_json_value(&w, v);
    }
}

static cr_status json_text(parser *p, const cr_json *v, const char **out) {
    cr_str text = {0};
    add_json(&text, v);
    cr_status status = cr_str_status(&text);
    if (!status && !(*out = cr_arena_strdup(p->arena, cr_str_get(&text)))) status = CR_ENOMEM;
    cr_str_dispose(&text);
    return status;
}

/* ---- contexts ---- */

static cr_status read_key(parser *p, const cr_json *v, cr_tree_key *key) {
    switch ((cr_json_kind)v->kind) {
    case CR_JSON_STRING:
        if (strlen(v->u.s) != v->n) break; /* a NUL inside: only its JSON can hold it */
        key->kind = CR_KEY_STR;
        key->s = cr_arena_strdup(p->arena, v->u.s);
        return key->s ? CR_OK : CR_ENOMEM;
    case CR_JSON_INT: *key = (cr_tree_key){.kind = CR_KEY_INT, .i = v->u.i}; return CR_OK;
    case CR_JSON_BOOL: *key = (cr_tree_key){.kind = CR_KEY_BOOL, .i = v->u.b}; return CR_OK;
    default: break;
    }
    key->kind = CR_KEY_OTHER;
    return json_text(p, v, &key->s);
}

static cr_status read_keys(parser *p, const cr_json *list, cr_tree_node *node) {
    if (list->kind != CR_JSON_ARRAY)
        return CR_FAIL(CR_EFORMAT, "the keys of %s are %s, expected an array", node->type,
                       cr_json_kind_name(list->kind));
    if (list->n != node->nchildren)
        return CR_FAIL(CR_EFORMAT, "%s has %u keys and %u children", node->type, list->n, node->nchildren);
    cr_tree_key *keys = cr_arena_calloc(p->arena, list->n, sizeof *keys);
    if (!keys) return CR_ENOMEM;
    for (uint32_t i = 0; i < list->n; i++) CR_TRY(read_key(p, &list->u.items[i], &keys[i]));
    node->keys = keys;
    return CR_OK;
}

/* {"default_factory_module": "builtins", "default_factory_name": "list", "dict_context": ["a"]} */
static cr_status read_default_dict(parser *p, const cr_json *context, cr_tree_node *node) {
    const char *module, *name;
    const cr_json *keys;
    CR_TRY(cr_json_get_string(context, "default_factory_module", &module));
    CR_TRY(cr_json_get_string(context, "default_factory_name", &name));
    CR_TRY(cr_json_get(context, "dict_context", CR_JSON_ARRAY, &keys));
    node->factory = cr_arena_printf(p->arena, "%s.%s", module, name);
    return node->factory ? read_keys(p, keys, node) : CR_ENOMEM;
}

static cr_status read_namedtuple(parser *p, const cr_json *context, cr_tree_node *node) {
    if (context->kind != CR_JSON_STRING)
        return CR_FAIL(CR_EFORMAT, "the context of %s is %s, expected the name of a class", node->type,
                       cr_json_kind_name(context->kind));
    node->name = node->context;
    if (!p->fields || !node->nchildren || !p->fields(p->user, node->name, node->nchildren - 1)) return CR_OK;
    cr_tree_key *keys = cr_arena_calloc(p->arena, node->nchildren, sizeof *keys);
    if (!keys) return CR_ENOMEM;
    for (uint32_t i = 0; i < node->nchildren; i++) {
        const char *field = p->fields(p->user, node->name, i);
        keys[i].s = field ? cr_arena_strdup(p->arena, field) : cr_arena_printf(p->arena, "field_%u", i);
        if (!keys[i].s) return CR_ENOMEM;
    }
    node->keys = keys;
    return CR_OK;
}

/* Lists of field names, as dataclasses ([names, names that are None]) and model outputs (names) have them; any other
 * context is only kept. */
static cr_status read_other(parser *p, const cr_json *context, cr_tree_node *node) {
    node->name = node->type;
    if (context && context->kind == CR_JSON_ARRAY && context->n == 2 && context->u.items[0].kind == CR_JSON_ARRAY &&
        context->u.items[1].kind == CR_JSON_ARRAY)
        context = &context->u.items[0];
    if (!context || context->kind != CR_JSON_ARRAY || context->n != node->nchildren || !context->n) return CR_OK;
    for (uint32_t i = 0; i < context->n; i++)
        if (context->u.items[i].kind != CR_JSON_STRING) return CR_OK;
    return read_keys(p, context, node);
}

static cr_status read_maxlen(const cr_json *context, cr_tree_node *node) {
    node->maxlen = -1;
    if (context->kind == CR_JSON_NULL) return CR_OK;
    if (context->kind != CR_JSON_INT || context->u.i < 0)
        return CR_FAIL(CR_EFORMAT, "the context of %s is no length", node->type);
    node->maxlen = context->u.i;
    return CR_OK;
}

/* `value` is the archive's: a string with JSON inside, or JSON itself. */
static cr_status read_context(parser *p, const cr_json *value, int what, cr_tree_node *node) {
    const cr_json *context = value;
    node->context_is_text = value->kind == CR_JSON_STRING;
    if (node->context_is_text) {
        if (strlen(value->u.s) != value->n) return CR_FAIL(CR_EFORMAT, "the context of %s holds a NUL", node->type);
        node->context = cr_arena_strdup(p->arena, value->u.s);
        if (!node->context) return CR_ENOMEM;
        if (what != CLASS_NAME) {
            cr_status status = cr_json_parse(&p->json, value->u.s, value->n, &context);
            /* any text may be somebody's context */
            if (status == CR_EFORMAT && node->kind == CR_TREE_OTHER) context = NULL;
            else if (status) return cr_error_context(status, "the context of %s", node->type);
        }
    } else {
        CR_TRY(json_text(p, value, &node->context));
    }
    if (node->kind == CR_TREE_OTHER) return read_other(p, context, node);
    switch (what) {
    case KEYS: return read_keys(p, context, node);
    case FACTORY_AND_KEYS: return read_default_dict(p, context, node);
    case CLASS_NAME: return read_namedtuple(p, context, node);
    case MAXLEN: return read_maxlen(context, node);
    default: return CR_OK;
    }
}

/* ---- nodes ---- */

static cr_status read_node(parser *p, const cr_json *v, cr_tree_node *node);

static cr_status read_children(parser *p, const cr_json *list, cr_tree_node *node) {
    cr_tree_node *children = cr_arena_calloc(p->arena, list->n, sizeof *children);
    if (!children) return CR_ENOMEM;
    node->children = children;
    node->nchildren = list->n;
    for (uint32_t i = 0; i < list->n; i++) {
        CR_TRY(read_node(p, &list->u.items[i], &children[i]));
        node->nleaves += children[i].nleaves; /* fewer than the text has bytes */
    }
    return CR_OK;
}

static cr_status read_node(parser *p, const cr_json *v, cr_tree_node *node) {
    const cr_json *children, *type = cr_json_find(v, "type"), *context = cr_json_find(v, "context");
    if (v->kind != CR_JSON_OBJECT)
        return CR_FAIL(CR_EFORMAT, "a node is %s, expected an object", cr_json_kind_name(v->kind));
    if (!type || !context) return CR_FAIL(CR_EFORMAT, "a node has no '%s'", type ? "context" : "type");
    CR_TRY(cr_json_get(v, "children_spec", CR_JSON_ARRAY, &children));
    if (type->kind == CR_JSON_NULL) {
        if (context->kind != CR_JSON_NULL || children->n)
            return CR_FAIL(CR_EFORMAT, "a leaf has a context or children");
        *node = (cr_tree_node){.kind = CR_TREE_LEAF, .nleaves = 1};
        return CR_OK;
    }
    if (type->kind != CR_JSON_STRING || !type->n || strlen(type->u.s) != type->n)
        return CR_FAIL(CR_EFORMAT, "'type' is no name");
    node->kind = CR_TREE_OTHER;
    node->type = cr_arena_strdup(p->arena, type->u.s);
    if (!node->type) return CR_ENOMEM;
    CR_TRY(read_children(p, children, node));
    int what = NOTHING;
    for (size_t i = 0; i < CR_COUNT(types); i++)
        if (!strcmp(types[i].type, node->type)) {
            node->kind = types[i].kind;
            what = types[i].context;
        }
    return read_context(p, context, what, node);
}

static cr_status read_root(parser *p, const char *text, size_t size, cr_tree *t) {
    const cr_json *v;
    CR_TRY(cr_json_parse(&p->json, text, size, &v));
    if (v->kind != CR_JSON_ARRAY || v->n != 2 || v->u.items[0].kind != CR_JSON_INT)
        return CR_FAIL(CR_EFORMAT, "expected [protocol, node]");
    if (v->u.items[0].u.i != 1)
        return CR_FAIL(CR_EUNSUPPORTED, "protocol %lld; 1 is read", (long long)v->u.items[0].u.i);
    return read_node(p, &v->u.items[1], &t->root);
}

cr_status cr_tree_parse_with(const char *text, size_t size, const char *(*fields)(void *, const char *, size_t),
                             void *user, cr_tree **out) {
    cr_tree *t = cr_calloc(1, sizeof *t);
    if (!t) return CR_ENOMEM;
    atomic_init(&t->refs, 1);
    cr_arena_init(&t->arena);
    parser p = {.arena = &t->arena, .fields = fields, .user = user};
    cr_arena_init(&p.json);
    cr_status status = read_root(&p, text, size, t);
    cr_arena_dispose(&p.json);
    if (status) {
        cr_tree_release(t);
        return cr_error_context(status, "pytree spec");
    }
    *out = t;
    return CR_OK;
}

cr_status cr_tree_parse(const char *text, size_t size, cr_tree **out) {
    return cr_tree_parse_with(text, size, NULL, NULL, out);
}

void cr_tree_retain(cr_tree *t) { atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed); }

void cr_tree_release(cr_tree *t) {
    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1) return;
    cr_arena_dispose(&t->arena);
    cr_free(t);
}

const cr_tree_node *cr_tree_root(const cr_tree *t) { return &t->root; }

/* ---- text ---- */

static void print_node(const cr_tree_node *node, cr_str *out) {
    if (node->kind == CR_TREE_LEAF) {
        cr_str_add(out, "{\"type\": null, \"context\": null, \"children_spec\": []}");
        return;
    }
    cr_str_add(out, "{\"type\": ");
    add_string(out, node->type, strlen(node->type));
    cr_str_add(out, ", \"context\": ");
    if (node->context_is_text) add_string(out, node->context, strlen(node->context));
    else cr_str_add(out, node->context);
    cr_str_add(out, ", \"children_spec\": [");
    for (uint32_t i = 0; i < node->nchildren; i++) {
        if (i) cr_str_add(out, ", ");
        print_node(&node->children[i], out);
    }
    cr_str_add(out, "]}");
}

void cr_tree_print(const cr_tree *t, cr_str *out) {
    cr_str_add(out, "[1, ");
    print_node(&t->root, out);
    cr_str_addc(out, ']');
}

/* ---- one keyword more ---- */

static const char *field_of(const cr_tree_node *node, const char *name, size_t i) {
    if (node->kind == CR_TREE_NAMEDTUPLE && node->keys && !strcmp(node->name, name))
        return i < node->nchildren ? node->keys[i].s : NULL;
    for (uint32_t k = 0; k < node->nchildren; k++) {
        const char *found = field_of(&node->children[k], name, i);
        if (found) return found;
    }
    return NULL;
}

static const char *find_field(void *user, const char *name, size_t i) { return field_of(user, name, i); }

cr_status cr_tree_with_keyword(const cr_tree *t, const char *name, cr_tree **out) {
    const cr_tree_node nothing = { .kind = CR_TREE_TUPLE }, *root = t ? &t->root : NULL;
    const cr_tree_node *args = root && root->nchildren == 2 ? &root->children[0] : &nothing;
    const cr_tree_node *kwargs = root && root->nchildren == 2 ? &root->children[1] : &nothing;
    if (root && (root->kind != CR_TREE_TUPLE || root->nchildren != 2 || kwargs->kind != CR_TREE_DICT))
        return CR_FAIL(CR_EVALUE, "the spec is not one of (args, kwargs)");
    cr_str keys, text;
    cr_str_init(&keys);
    cr_str_init(&text);
    bool known = false;
    for (uint32_t i = 0; i < kwargs->nchildren; i++) {
        const char *key = kwargs->keys[i].s;
        known |= key && !strcmp(key, name);
        add_string(&keys, key ? key : "", key ? strlen(key) : 0);
        cr_str_add(&keys, ", ");
    }
    add_string(&keys, name, strlen(name));
    cr_str_add(&text, "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [");
    if (args == &nothing)
        cr_str_add(&text, "{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": []}");
    else print_node(args, &text);
    cr_str_add(&text, ", {\"type\": \"builtins.dict\", \"context\": ");
    cr_str list;
    cr_str_init(&list);
    cr_str_addf(&list, "[%s]", cr_str_get(&keys));
    add_string(&text, cr_str_get(&list), list.n);
    cr_str_add(&text, ", \"children_spec\": [");
    for (uint32_t i = 0; i < kwargs->nchildren; i++) print_node(&kwargs->children[i], &text), cr_str_add(&text, ", ");
    print_node(&(cr_tree_node){ .kind = CR_TREE_LEAF }, &text);
    cr_str_add(&text, "]}]}]");
    cr_status status = known ? CR_FAIL(CR_EVALUE, "the call has an argument '%s' already; give it another name", name)
                             : keys.failed || list.failed ? CR_ENOMEM : cr_str_status(&text);
    if (!status)
        status = cr_tree_parse_with(cr_str_get(&text), text.n, find_field, (void *)(root ? root : &nothing), out);
    cr_str_dispose(&keys);
    cr_str_dispose(&list);
    cr_str_dispose(&text);
    return status;
}

/* ---- equality, paths ---- */

static bool same_text(const char *a, const char *b) { return a == b || (a && b && !strcmp(a, b)); }

static bool node_equal(const cr_tree_node *a, const cr_tree_node *b) {
    if (a->kind != b->kind || a->nchildren != b->nchildren || a->nleaves != b->nleaves ||
        a->context_is_text != b->context_is_text)
        return false;
    if (!same_text(a->type, b->type) || !same_text(a->context, b->context)) return false;
    for (uint32_t i = 0; i < a->nchildren; i++)
        if (!node_equal(&a->children[i], &b->children[i])) return false;
    return true;
}

bool cr_tree_equal(const cr_tree *a, const cr_tree *b) { return a == b || node_equal(&a->root, &b->root); }

/* A text as Python's repr quotes it, near enough: one kind of quotes. */
static void add_repr(cr_str *out, const char *s) {
    cr_str_addc(out, '\'');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '\'' || c == '\\') cr_str_addf(out, "\\%c", c);
        else if (c == '\n') cr_str_add(out, "\\n");
        else if (c < 0x20 || c == 0x7f) cr_str_addf(out, "\\x%02x", c);
        else cr_str_addc(out, (char)c);
    }
    cr_str_addc(out, '\'');
}

void cr_tree_add_step(const cr_tree_node *node, uint32_t i, cr_str *out) {
    const cr_tree_key *key = node->keys ? &node->keys[i] : NULL;
    if (!key) {
        cr_str_addf(out, "[%u]", i);
    } else if (node->kind == CR_TREE_NAMEDTUPLE || node->kind == CR_TREE_OTHER) {
        cr_str_addf(out, ".%s", key->s);
    } else {
        cr_str_addc(out, '[');
        if (key->kind == CR_KEY_STR) add_repr(out, key->s);
        else if (key->kind == CR_KEY_INT) cr_str_addf(out, "%lld", (long long)key->i);
        else if (key->kind == CR_KEY_BOOL) cr_str_add(out, key->i ? "True" : "False");
        else cr_str_add(out, key->s);
        cr_str_addc(out, ']');
    }
}

void cr_tree_leaf_path(const cr_tree *t, const char *root, uint32_t leaf, cr_str *out) {
    const cr_tree_node *node = &t->root;
    cr_str_add(out, root);
    if (leaf >= node->nleaves) return;
    while (node->kind != CR_TREE_LEAF) {
        uint32_t i = 0;
        /* stays inside: leaf < nleaves */
        while (leaf >= node->children[i].nleaves) leaf -= node->children[i++].nleaves;
        cr_tree_add_step(node, i, out);
        node = &node->children[i];
    }
}

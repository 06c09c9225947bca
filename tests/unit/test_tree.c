/* Pytree specs: PyTorch's texts come back byte for byte, leaves have the paths that Python writes, and bad texts are
 * refused. */
#include "base/base.h"
#include "check.h"
#include "trace/tree.h"

#define LEAF "{\"type\": null, \"context\": null, \"children_spec\": []}"
#define NODE(type, context, children) \
    "{\"type\": \"" type "\", \"context\": " context ", \"children_spec\": [" children "]}"
#define TUPLE(children) NODE("builtins.tuple", "\"null\"", children)
#define LIST(children) NODE("builtins.list", "\"null\"", children)
#define DICT(keys, children) NODE("builtins.dict", "\"" keys "\"", children)
#define POINT(children) NODE("collections.namedtuple", "\"models.Point\"", children)

/* Each text as torch.utils._pytree.treespec_dumps wrote it, and the paths of its leaves below "x". */
static const struct { const char *text, *paths; } good[] = {
    { "[1, " LEAF "]", "x" },
    { "[1, " TUPLE(TUPLE(LEAF ", " TUPLE(LEAF ", " LEAF)) ", " DICT("[]", "")) "]", "x[0][0] x[0][1][0] x[0][1][1]" },
    { "[1, " LIST(LEAF ", " LIST("") ", " LIST(LEAF)) "]", "x[0] x[2][0]" },
    { "[1, " DICT("[\\\"b\\\", \\\"a\\\"]", LEAF ", " LEAF) "]", "x['b'] x['a']" },
    { "[1, " DICT("[3, true, \\\"x\\\", null, 1.5]", LEAF ", " LEAF ", " LEAF ", " LEAF ", " LEAF) "]", "x[3] x[True] "
                                                                                                        "x['x'] "
                                                                                                        "x[null] "
                                                                                                        "x[1.5]" },
    { "[1, " DICT("[\\\"h\\\\u00e9\\\\u20ac\\\\ud83d\\\\ude00\\\\\\\"\\\\\\\\\\\\n\\\\u007f'\\\"]", LEAF) "]",
      "x['h\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"\\\\\\n\\x7f\\'']" },
    { "[1, " NODE("collections.OrderedDict", "\"[\\\"z\\\", \\\"a\\\"]\"", LEAF ", " LIST(LEAF)) "]", "x['z'] "
                                                                                                      "x['a'][0]" },
    { "[1, " NODE("collections.defaultdict",
                  "{\"default_factory_module\": \"builtins\", \"default_factory_name\": \"list\", \"dict_context\": "
                  "[\"k\"]}",
                  LEAF) "]",
      "x['k']" },
    { "[1, " POINT(LEAF ", " TUPLE(LEAF)) "]", "x[0] x[1][0]" },
    { "[1, " NODE("collections.deque", "\"null\"", LEAF ", " LEAF) "]", "x[0] x[1]" },
    { "[1, " NODE("collections.deque", "\"5\"", LEAF) "]", "x[0]" },
    { "[1, " NODE("models.Box", "\"[[\\\"a\\\", \\\"b\\\"], []]\"", LEAF ", " LIST(LEAF)) "]", "x.a x.b[0]" },
    { "[1, " NODE("models.Box", "\"[[\\\"a\\\"], [\\\"b\\\"]]\"", LEAF) "]", "x.a" },
    { "[1, " NODE("transformers.modeling_outputs.BaseModelOutput", "\"[\\\"last_hidden_state\\\"]\"", LEAF) "]",
      "x.last_hidden_state" },
    { "[1, " DICT("[{\\\"__enum__\\\": true, \\\"fqn\\\": \\\"models:Color\\\", \\\"name\\\": \\\"RED\\\"}]", LEAF) "]",
      "x[{\"__enum__\": true, \"fqn\": \"models:Color\", \"name\": \"RED\"}]" },
    { "[1, " NODE("models.T\\u00e9", "\"any text\"", LEAF ", " LEAF) "]", "x[0] x[1]" },
    { "[1, " NODE("models.Cache", "{\"a\": [1, null, \"\\u00e9\"], \"b\": {}}", LEAF) "]", "x[0]" },
    { "[1, " NODE("builtins.NoneType", "\"null\"", "") "]", "" },
};

static void round_trips(void) {
    for (size_t i = 0; i < CR_COUNT(good); i++) {
        cr_tree *t, *again;
        cr_str text = {0}, paths = {0};
        cr_status status = cr_tree_parse(good[i].text, strlen(good[i].text), &t);
        CHECK_OK(status);
        if (status) continue;
        cr_tree_print(t, &text);
        CHECK_STR(cr_str_get(&text), good[i].text);
        for (uint32_t leaf = 0; leaf < cr_tree_root(t)->nleaves; leaf++) {
            if (leaf) cr_str_addc(&paths, ' ');
            cr_tree_leaf_path(t, "x", leaf, &paths);
        }
        CHECK_STR(cr_str_get(&paths), good[i].paths);
        CHECK_OK(cr_tree_parse(cr_str_get(&text), text.n, &again));
        for (size_t k = 0; k < CR_COUNT(good); k++) {
            cr_tree *other;
            CHECK_OK(cr_tree_parse(good[k].text, strlen(good[k].text), &other));
            CHECK_EQ(cr_tree_equal(again, other), i == k);
            cr_tree_release(other);
        }
        cr_tree_release(again);
        cr_tree_release(t);
        cr_str_dispose(&text);
        cr_str_dispose(&paths);
    }
}

static const char *point_fields(void *user, const char *name, size_t i) {
    static const char *const fields[] = {"x", "y"};
    CHECK_STR(user, "user");
    return !strcmp(name, "models.Point") && i < 2 ? fields[i] : NULL;
}

static void contents(void) {
    static const char text[] = "[1, " TUPLE(
        POINT(LEAF ", " LEAF) ", " NODE("collections.defaultdict",
                                        "{\"default_factory_module\": \"builtins\", \"default_factory_name\": "
                                        "\"list\", \"dict_context\": [\"k\", 7]}",
                                        LEAF ", " LEAF) ", " NODE("collections.deque", "\"5\"",
                                                                  LEAF) ", " NODE("a.B", "\"x\"", LEAF)) "]";
    cr_tree *t;
    cr_str path = {0};
    CHECK_OK(cr_tree_parse_with(text, sizeof text - 1, point_fields, "user", &t));
    const cr_tree_node *root = cr_tree_root(t), *at = root->children;
    CHECK_EQ(root->kind, CR_TREE_TUPLE);
    CHECK_EQ(root->nchildren, 4);
    CHECK_EQ(root->nleaves, 6);
    CHECK(!root->keys && !root->name);
    CHECK_EQ(at[0].kind, CR_TREE_NAMEDTUPLE);
    CHECK_STR(at[0].name, "models.Point");
    CHECK_STR(at[0].keys[1].s, "y");
    CHECK_EQ(at[1].kind, CR_TREE_DEFAULT_DICT);
    CHECK_STR(at[1].factory, "builtins.list");
    CHECK_EQ(at[1].keys[1].kind, CR_KEY_INT);
    CHECK_EQ(at[1].keys[1].i, 7);
    CHECK_EQ(at[2].maxlen, 5);
    CHECK_EQ(at[3].kind, CR_TREE_OTHER);
    CHECK_STR(at[3].name, "a.B");
    CHECK_STR(at[3].context, "x");
    cr_tree_leaf_path(t, "args", 1, &path);
    CHECK_STR(cr_str_get(&path), "args[0].y");
    cr_tree_retain(t);
    cr_tree_release(t);
    CHECK_EQ(cr_tree_root(t)->nleaves, 6);
    cr_tree_release(t);
    cr_tree_release(NULL);
    cr_str_dispose(&path);
}

static const struct { const char *text; cr_status code; const char *part; } bad[] = {
    { "", CR_EFORMAT, "pytree spec: " },
    { "[1, ", CR_EFORMAT, "" },
    { "{}", CR_EFORMAT, "expected [protocol, node]" },
    { "[1]", CR_EFORMAT, "expected [protocol, node]" },
    { "[1, " LEAF ", 3]", CR_EFORMAT, "expected [protocol, node]" },
    { "[\"1\", " LEAF "]", CR_EFORMAT, "expected [protocol, node]" },
    { "[2, " LEAF "]", CR_EUNSUPPORTED, "protocol 2; 1 is read" },
    { "[1, null]", CR_EFORMAT, "a node is null, expected an object" },
    { "[1, {\"context\": null, \"children_spec\": []}]", CR_EFORMAT, "a node has no 'type'" },
    { "[1, {\"type\": null, \"children_spec\": []}]", CR_EFORMAT, "a node has no 'context'" },
    { "[1, {\"type\": null, \"context\": null}]", CR_EFORMAT, "'children_spec' is missing" },
    { "[1, {\"type\": null, \"context\": null, \"children_spec\": {}}]", CR_EFORMAT,
      "'children_spec' is an object, expected an array" },
    { "[1, {\"type\": null, \"context\": \"null\", \"children_spec\": []}]", CR_EFORMAT,
      "a leaf has a context or children" },
    { "[1, {\"type\": null, \"context\": null, \"children_spec\": [" LEAF "]}]", CR_EFORMAT,
      "a leaf has a context or children" },
    { "[1, {\"type\": 3, \"context\": null, \"children_spec\": []}]", CR_EFORMAT, "'type' is no name" },
    { "[1, {\"type\": \"\", \"context\": null, \"children_spec\": []}]", CR_EFORMAT, "'type' is no name" },
    { "[1, {\"type\": \"a\\u0000b\", \"context\": null, \"children_spec\": []}]", CR_EFORMAT, "'type' is no name" },
    { "[1, " DICT("[1]", "") "]", CR_EFORMAT, "builtins.dict has 1 keys and 0 children" },
    { "[1, " DICT("{}", "") "]", CR_EFORMAT, "the keys of builtins.dict are an object, expected an array" },
    { "[1, " DICT("[", "") "]", CR_EFORMAT, "the context of builtins.dict" },
    { "[1, " NODE("builtins.dict", "\"[]\\u0000\"", "") "]", CR_EFORMAT, "holds a NUL" },
    { "[1, " NODE("collections.deque", "\"-1\"", "") "]", CR_EFORMAT, "is no length" },
    { "[1, " NODE("collections.deque", "\"[]\"", "") "]", CR_EFORMAT, "is no length" },
    { "[1, " NODE("collections.namedtuple", "null", "") "]", CR_EFORMAT, "expected the name of a class" },
    { "[1, " NODE("collections.defaultdict", "\"[]\"", "") "]", CR_EFORMAT,
      "expected an object with 'default_factory_module'" },
    { "[1, " NODE("collections.defaultdict",
                  "{\"default_factory_module\": \"a\", \"default_factory_name\": \"b\", \"dict_context\": [1]}",
                  "") "]",
      CR_EFORMAT, "has 1 keys and 0 children" },
    { "[1, " LIST("3") "]", CR_EFORMAT, "a node is an integer" },
};

static void errors(void) {
    for (size_t i = 0; i < CR_COUNT(bad); i++) {
        cr_tree *t = NULL;
        cr_status status = cr_tree_parse(bad[i].text, strlen(bad[i].text), &t);
        if (status != bad[i].code || !strstr(cr_error_message(), bad[i].part))
            CHECK_FAILED("row %zu gave %s \"%s\", expected %s \"%s\"", i, cr_status_name(status), cr_error_message(),
                         cr_status_name(bad[i].code), bad[i].part);
        else CHECK(!t);
        cr_tree_release(t);
    }
}

static void depth(void) {
    for (int levels = 90; levels <= 100000; levels = levels == 90 ? 110 : levels * 900) {
        cr_str text = {0};
        cr_tree *t = NULL;
        cr_str_add(&text, "[1, ");
        for (int i = 0; i < levels; i++)
            cr_str_add(&text, "{\"type\": \"builtins.list\", \"context\": \"null\", \"children_spec\": [");
        cr_str_add(&text, LEAF);
        for (int i = 0; i < levels; i++) cr_str_add(&text, "]}");
        cr_str_addc(&text, ']');
        cr_status status = cr_tree_parse(text.at, text.n, &t);
        CHECK_EQ(status, levels == 90 ? CR_OK : CR_EFORMAT);
        cr_tree_release(t);
        cr_str_dispose(&text);
    }
}

static cr_status parse_and_print(void *arg) {
    (void)arg;
    for (size_t i = 0; i < CR_COUNT(good); i++) {
        cr_tree *t;
        cr_str text = {0};
        CR_TRY(cr_tree_parse_with(good[i].text, strlen(good[i].text), point_fields, "user", &t));
        cr_tree_print(t, &text);
        if (cr_tree_root(t)->nleaves) cr_tree_leaf_path(t, "x", cr_tree_root(t)->nleaves - 1, &text);
        cr_status status = cr_str_status(&text);
        cr_str_dispose(&text);
        cr_tree_release(t);
        if (status) return status;
    }
    return CR_OK;
}
static void out_of_memory(void) { CHECK_OOM_SWEEP(parse_and_print, NULL); }

int main(void) {
    RUN(round_trips);
    RUN(contents);
    RUN(errors);
    RUN(depth);
    RUN(out_of_memory);
    return check_summary();
}

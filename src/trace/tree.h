/* tree.h: pytrees: how a call's nested arguments and results are flattened.
 *
 * A spec is the structure without the leaves, as PyTorch's archives write it:
 *
 *     [1, {"type": "builtins.tuple", "context": "null", "children_spec": [{"type": null, "context": null,
 *     "children_spec": []}]}]
 *
 * Node types are rows of one table (tuple, list, dict, OrderedDict, defaultdict, namedtuple, deque): name in the text,
 * how keys are kept. Any other type, a dataclass or a class that somebody registered, keeps its name and context and is
 * a plain named structure; where its context lists names of fields, they are its keys. None is a leaf. Specs are
 * immutable and refcounted, readable from many threads; depth is bounded by CR_JSON_DEPTH.
 *
 *     cr_tree *t;
 *     CR_TRY(cr_tree_parse(text, strlen(text), &t));
 *     cr_tree_leaf_path(t, "args", 3, &path);     -- args[0]['image'][2] */
#ifndef CR_TREE_H
#define CR_TREE_H

#include "base/base.h"

typedef enum cr_tree_kind {
    CR_TREE_LEAF,
    CR_TREE_NONE /* a None that is a node: other writers than PyTorch's have it */,
    CR_TREE_TUPLE,
    CR_TREE_LIST,
    CR_TREE_DICT,
    CR_TREE_ORDERED_DICT,
    CR_TREE_DEFAULT_DICT,
    CR_TREE_NAMEDTUPLE,
    CR_TREE_DEQUE,
    CR_TREE_OTHER
} cr_tree_kind;
/* A key of a dict: a text, an integer or a bool (in i); other keys (null, numbers, enums) are their JSON text in s. */
typedef struct cr_tree_key {
    enum { CR_KEY_STR, CR_KEY_INT, CR_KEY_BOOL, CR_KEY_OTHER } kind;
    const char *s;
    int64_t i;
} cr_tree_key;
typedef struct cr_tree_node {
    uint8_t kind;
    /* the archive has the context as a JSON text in a string ("[\"a\"]"), not as JSON itself */
    bool context_is_text;
    uint32_t nchildren, nleaves;       /* leaves below it; a leaf has 1 */
    const char *type;                  /* "builtins.dict"; NULL for a leaf */
    const char *name;                  /* NAMEDTUPLE: the class ("models.Point"); OTHER: same as type; else NULL */
    /* JSON text ("null", "[\"a\"]"), or, when context_is_text, any text; NULL for a leaf */
    const char *context;
    /* dicts: one per child; NAMEDTUPLE and OTHER: the fields' names where known; else NULL */
    const cr_tree_key *keys;
    const char *factory;               /* DEFAULT_DICT: "builtins.list"; else NULL */
    int64_t maxlen;                    /* DEQUE: -1 for none; else 0 */
    const struct cr_tree_node *children;
} cr_tree_node;
typedef struct cr_tree cr_tree;
/* CR_EFORMAT: malformed, keys that do not fit the children, too deep; CR_EUNSUPPORTED: another protocol number than
 * 1. */
CR_NODISCARD cr_status cr_tree_parse(const char *text, size_t size, cr_tree **out);
/* `fields` gives namedtuples their field names where the archive lists them apart (treespec_namedtuple_fields): field i
 * of the class `name`, or NULL; may itself be NULL. */
CR_NODISCARD cr_status cr_tree_parse_with(const char *text, size_t size,
                                          const char *(*fields)(void *user, const char *name, size_t i), void *user,
                                          cr_tree **out);
void cr_tree_retain(cr_tree *t);
void cr_tree_release(cr_tree *t);
const cr_tree_node *cr_tree_root(const cr_tree *t);
void cr_tree_print(const cr_tree *t, cr_str *out); /* parses back; equal to PyTorch's text */
bool cr_tree_equal(const cr_tree *a, const cr_tree *b); /* types, contexts and children; field names do not count */
/* A call's spec, (args, kwargs), with one keyword more: a leaf, the last of all. `t` NULL: of a call without arguments.
 * CR_EVALUE: it is no such spec, or has the keyword already. */
CR_NODISCARD cr_status cr_tree_with_keyword(const cr_tree *t, const char *name, cr_tree **out);
/* Where leaf i sits, as Python reads it: "args[0]['image'][2].x", with the given root text. */
void cr_tree_leaf_path(const cr_tree *t, const char *root, uint32_t leaf, cr_str *out);
/* The last step of such a path: child i of `node`. */
void cr_tree_add_step(const cr_tree_node *node, uint32_t i, cr_str *out);

#endif

/* tree.h: pytrees: how a call's nested arguments and results are flattened.
 *
 * A spec is the structure without the leaves, as PyTorch's archives write it:
 *
 *     [1, {"type": "builtins.tuple", "context": "null", "children_spec": [{"type": null, "context": null, "children_spec": []}]}]
 *
 * Node types are rows of one table (tuple, list, dict, OrderedDict, defaultdict, namedtuple, deque, dataclasses and types that
 * were registered): name in the text, how keys are kept. A type that is not known here keeps its name and context and is
 * treated as a plain named structure. Specs are immutable and refcounted; depth is bounded. */
#ifndef CR_TREE_H
#define CR_TREE_H

#include "base/base.h"

typedef enum cr_tree_kind {
    CR_TREE_LEAF, CR_TREE_NONE, CR_TREE_TUPLE, CR_TREE_LIST, CR_TREE_DICT, CR_TREE_ORDERED_DICT, CR_TREE_DEFAULT_DICT,
    CR_TREE_NAMEDTUPLE, CR_TREE_DEQUE, CR_TREE_OTHER
} cr_tree_kind;
/* A key of a dict: a text or an integer; other keys keep their JSON text. */
typedef struct cr_tree_key { enum { CR_KEY_STR, CR_KEY_INT, CR_KEY_BOOL, CR_KEY_OTHER } kind; const char *s; int64_t i; } cr_tree_key;
typedef struct cr_tree_node {
    uint8_t kind;
    uint32_t nchildren, nleaves;       /* leaves below it; a leaf has 1 */
    const char *type;                  /* "builtins.dict"; NULL for a leaf */
    const char *context;               /* the context's JSON text; NULL for a leaf */
    const cr_tree_key *keys;           /* dicts: one per child; namedtuples and dataclasses: the field names; else NULL */
    const struct cr_tree_node *children;
} cr_tree_node;
typedef struct cr_tree cr_tree;
/* CR_EFORMAT: malformed, another protocol number than 1, too deep. */
CR_NODISCARD cr_status cr_tree_parse(const char *text, size_t size, cr_tree **out);
/* `fields` gives namedtuples their field names where the archive lists them apart (treespec_namedtuple_fields); may be NULL. */
CR_NODISCARD cr_status cr_tree_parse_with(const char *text, size_t size, const char *(*fields)(void *user, const char *type, size_t i), void *user, cr_tree **out);
void cr_tree_retain(cr_tree *t);
void cr_tree_release(cr_tree *t);
const cr_tree_node *cr_tree_root(const cr_tree *t);
void cr_tree_print(const cr_tree *t, cr_str *out); /* parses back; equal to PyTorch's text */
bool cr_tree_equal(const cr_tree *a, const cr_tree *b);
/* Where leaf i sits, as Python reads it: "args[0]['image'][2]", with the given root text. */
void cr_tree_leaf_path(const cr_tree *t, const char *root, uint32_t leaf, cr_str *out);

#endif

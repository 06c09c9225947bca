/* json.h: JSON texts as plain, immutable trees in an arena.
 *
 * A value takes 16 bytes, a member of an object 24, and repeated keys are shared: a text costs a few times its own
 * size, and is parsed in one pass. Trees come from cr_json_parse alone (large objects have an index that it builds).
 * Strict JSON (RFC 8259): valid UTF-8, no duplicate keys in one object, nothing after the value, nesting up to
 * CR_JSON_DEPTH; and, as Python's writer has it, the bare words NaN, Infinity and -Infinity.
 *
 * Readers of a format walk it with the cr_json_get functions, which say in the error which field is missing or has
 * which wrong kind; callers add where they are with cr_error_context ("graph.nodes[3]"). */
#ifndef CR_JSON_H
#define CR_JSON_H

#include "base/base.h"

enum { CR_JSON_DEPTH = 200 };
typedef enum cr_json_kind {
    CR_JSON_NULL, CR_JSON_BOOL, CR_JSON_INT, CR_JSON_FLOAT, CR_JSON_STRING, CR_JSON_ARRAY, CR_JSON_OBJECT
} cr_json_kind;
typedef struct cr_json cr_json;
typedef struct cr_json_member cr_json_member;
struct cr_json {
    uint8_t kind;
    uint32_t n;      /* bytes of a string, items of an array, members of an object */
    union {
        bool b;
        int64_t i;   /* an integer beyond 64 bits is a FLOAT */
        double f;
        const char *s; /* NUL-terminated; may hold NULs inside */
        const cr_json *items;
        const cr_json_member *members; /* in the order of the text */
    } u;
};
struct cr_json_member { const char *key; cr_json value; };

/* `text` need not end with NUL and is not kept. CR_EFORMAT with line and column; the arena may hold leftovers then. */
CR_NODISCARD cr_status cr_json_parse(cr_arena *arena, const char *text, size_t size, const cr_json **out);
const char *cr_json_kind_name(int kind); /* "an object", "a string", ... for messages */

const cr_json *cr_json_find(const cr_json *object, const char *key); /* NULL: absent, or `object` is none */
/* The field, of that kind. CR_EFORMAT: "'key' is missing" or "'key' is a string, expected an array". */
CR_NODISCARD cr_status cr_json_get(const cr_json *object, const char *key, cr_json_kind kind, const cr_json **out);
CR_NODISCARD cr_status cr_json_get_string(const cr_json *object, const char *key, const char **out);
CR_NODISCARD cr_status cr_json_get_int(const cr_json *object, const char *key, int64_t *out);
/* Absent or null gives `fallback`. */
CR_NODISCARD cr_status cr_json_get_int_or(const cr_json *object, const char *key, int64_t fallback, int64_t *out);
CR_NODISCARD cr_status cr_json_get_bool_or(const cr_json *object, const char *key, bool fallback, bool *out);
/* The one member of a tagged union {"as_int": 3}. CR_EFORMAT unless it is an object with exactly one member. */
CR_NODISCARD cr_status cr_json_union(const cr_json *value, const cr_json_member **out);
/* A number: INT, FLOAT, or the strings "Infinity" "-Infinity" "NaN" that PyTorch's archives hold. */
CR_NODISCARD cr_status cr_json_number(const cr_json *value, double *out);

/* ---- writing: a stream of tokens; commas and indentation are put in between. Errors are the cr_str's, sticky. ---- */
/* indent 0: one line, ", " and ": " as Python writes */
/* Tokens: cresset/text.h. */
void cr_json_value(cr_json_writer *w, const cr_json *value); /* a whole tree */
/* the members of an object, given as text "{...}", as they are */
void cr_json_members(cr_json_writer *w, const char *object);

#endif

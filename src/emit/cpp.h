/* cpp.h: as much of C's preprocessor as the runtime's sources need: what a stretch of their text becomes, and which
 * macros that took. Internal to src/emit.
 *
 * Nothing is known of the compiler that will read the text: conditions on its own macros (names with two underscores in
 * front) have no answer here, and macros that are defined under such conditions may have several definitions at a
 * time. */
#ifndef CR_EMIT_CPP_H
#define CR_EMIT_CPP_H

#include "base/base.h"

/* kind: 'w' a word, '0' a number, '"' a literal, '.' a point or an arrow, 'P' ##, else the sign itself. */
typedef struct cr_token {
    const char *at;
    uint32_t n;
    char kind;
} cr_token;
typedef CR_VEC(cr_token) cr_tokens;

typedef struct cr_macro {
    struct cr_macro *next; /* an older definition under another condition */
    size_t item;           /* whose it is: the caller's number */
    bool takes, rest, maybe, busy;
    cr_tokens params, body;
} cr_macro;
typedef struct cr_cpp {
    cr_arena arena;
    cr_map macros; /* name -> cr_macro * */
    CR_VEC(cr_macro *) all;
    CR_VEC(size_t) used; /* items of the macros that expansions used since the caller emptied it */
} cr_cpp;

void cr__cpp_init(cr_cpp *c);
void cr__cpp_dispose(cr_cpp *c);
/* Past spaces, comments and joined lines. */
const char *cr__skip_space(const char *at, const char *end);
/* The next token from *at on, comments and spaces passed over; false: `end` was reached. */
bool cr__token_next(const char **at, const char *end, cr_token *out);
bool cr__token_is(const cr_token *t, const char *text);
/* The newest definition of the word; NULL: it is no macro. */
cr_macro *cr__cpp_find(const cr_cpp *c, const cr_token *word);
/* The text behind `#define`. `maybe`: under a condition without an answer. The text must outlive c. */
CR_NODISCARD cr_status cr__cpp_define(cr_cpp *c, const char *at, const char *end, size_t item, bool maybe);
void cr__cpp_undef(cr_cpp *c, const cr_token *word);
/* The text behind `#if`: 1, 0, or -1, which only the compiler knows. */
int cr__cpp_condition(const cr_cpp *c, const char *at, const char *end);
/* Appends what the tokens become. */
CR_NODISCARD cr_status cr__cpp_expand(cr_cpp *c, const cr_token *in, size_t n, cr_tokens *out);

#endif

/* Any bytes as an expression, infix and srepr: either one error with a position, or an expression whose two texts read
 * back to the same pointer. Ranges, simplification and questions run on it, too: they must end, and hold together. */
#include "sym/sym.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what, const char *text) {
    fprintf(stderr, "%s:\n%s\n%s\n", what, text, cr_error_message());
    abort();
}

typedef cr_status (*parse_function)(cr_env *, const char *, bool, cr_sym *);
typedef void (*print_function)(cr_sym, cr_str *);

static void check_back(cr_env *env, cr_sym e, parse_function parse, print_function print) {
    cr_str text = {0};
    cr_sym back;
    print(e, &text);
    if (text.n <= 1 << 20) { /* the parser's limit */
        if (parse(env, cr_str_get(&text), true, &back)) die("the printed text does not parse", cr_str_get(&text));
        if (back != e) die("the printed text is another expression", cr_str_get(&text));
    }
    cr_str_dispose(&text);
}

static void one(const char *text, parse_function parse) {
    cr_env *env;
    cr_sym e;
    if (cr_env_create(&env)) abort();
    cr_status status = parse(env, text, false, &e);
    if (status && status != CR_EFORMAT) die("not a format error", text);
    if (!status) {
        check_back(env, e, cr_sym_parse, cr_sym_print);
        check_back(env, e, cr_sym_parse_srepr, cr_sym_print_srepr);
        cr_range r = cr_sym_range(env, e);
        if (r.lo > r.hi) die("an empty range", text);
        cr_sym simple = cr_sym_simplify(env, e);
        if (!simple || cr_sym_simplify(env, simple) != simple) die("simplifying twice is not simplifying once", text);
        if (cr_sym_type_of(e) == CR_TYPE_BOOL && cr_env_add_cond(env, CR_COND_ASSERT, e, "") == CR_OK &&
            cr_sym_kind_of(e) != CR_SYM_OPAQUE && cr_sym_truth(env, e) != CR_YES)
            die("a learned condition is not known", text);
    }
    cr_env_release(env);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = cr_strndup((const char *)data, size);
    if (!text) return 0;
    one(text, cr_sym_parse);
    one(text, cr_sym_parse_srepr);
    cr_free(text);
    return 0;
}

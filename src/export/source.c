/* source.c: where in the user's program a node comes from.
 *
 * A stack trace is Python's text: `File "PATH", line N, in NAME` and the code below it, innermost last. */
#include "export/internal.h"
#include "export/source.h"

/* One frame at `at` (the F of File); false: the text is something else. */
static bool read_frame(const char *at, cr__frame *f) {
    static const char open[] = "File \"", line[] = "\", line ", in[] = ", in ";
    if (strncmp(at, open, sizeof open - 1)) return false;
    f->path = at + sizeof open - 1;
    const char *end = strstr(f->path, line), *eol = f->path + strcspn(f->path, "\n");
    if (!end || end > eol) return false;
    f->path_length = (int)(end - f->path);
    f->line = end + sizeof line - 1;
    f->line_length = (int)strspn(f->line, "0123456789");
    f->function = f->line + f->line_length;
    f->function_length = 0;
    if (!strncmp(f->function, in, sizeof in - 1)) {
        f->function += sizeof in - 1;
        f->function_length = (int)(eol - f->function);
    }
    f->code = eol + strspn(eol, "\n \t");
    f->code_length = (int)strcspn(f->code, "\n");
    return true;
}

static bool is_library(const cr__frame *f) {
    static const char part[] = "site-packages/torch/";
    for (int i = 0; i + (int)sizeof part - 1 <= f->path_length; i++)
        if (!strncmp(f->path + i, part, sizeof part - 1)) return true;
    return false;
}

bool cr__source_frame(const cr_origin *origin, bool users, cr__frame *out) {
    bool found = false, users_own = false;
    cr__frame f;
    for (const char *at = origin->stack_trace; at && *at;) {
        const char *text = at + strspn(at, " \t");
        if (read_frame(text, &f) && !(users && users_own && is_library(&f))) {
            *out = f;
            found = true;
            users_own |= !is_library(&f);
        }
        at += strcspn(at, "\n");
        at += *at == '\n';
    }
    return found;
}

/* source.c: where in the user's program a node comes from.
 *
 * A stack trace is Python's text: `File "PATH", line N, in NAME` and the code below it, innermost last. */
#include "export/internal.h"
#include "export/source.h"

#include <unistd.h>

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

/* "KEY,PATH,TYPE;KEY,PATH,TYPE": the path of the last one. */
const char *cr__source_module(const cr_origin *origin, int *length) {
    const char *last = origin->module_stack ? origin->module_stack : "", *next;
    while ((next = strchr(last, ';'))) last = next + 1;
    const char *path = strchr(last, ','), *end = strrchr(last, ',');
    *length = path && end > path ? (int)(end - path - 1) : 0;
    return path ? path + 1 : last;
}

void cr__working_folder(char out[4096]) {
    if (!getcwd(out, 4096)) out[0] = 0;
}

const char *cr__shown_path(const char *folder, const char *path, int *length) {
    static const char packages[] = "-packages/"; /* site-, dist- */
    size_t n = strlen(folder), m = sizeof packages - 1;
    int whole = *length, name = 0;
    if (!whole || path[0] != '/') return path;
    if (n > 1 && (size_t)whole > n + 1 && !strncmp(path, folder, n) && path[n] == '/')
        return *length -= (int)n + 1, path + n + 1;
    for (int i = 0; i < whole; i++) {
        if (path[i] == '/') name = i + 1;
        if ((size_t)(whole - i) > m && !strncmp(path + i, packages, m)) return *length -= name, path + name;
    }
    return *length -= name, path + name;
}

void cr__show_trace(const char *folder, const char *trace, cr_str *out) {
    static const char file[] = "File \"";
    for (const char *at = trace, *next; *at; at = next) {
        next = at + strcspn(at, "\n");
        next += *next == '\n';
        const char *text = at + strspn(at, " \t"), *path = text + sizeof file - 1, *end;
        bool is_file = !strncmp(text, file, sizeof file - 1) && (end = memchr(path, '"', (size_t)(next - path)));
        if (!is_file) {
            cr_str_addn(out, at, (size_t)(next - at));
            continue;
        }
        int length = (int)(end - path);
        cr_str_addn(out, at, (size_t)(path - at));
        const char *shown = cr__shown_path(folder, path, &length);
        cr_str_addn(out, shown, (size_t)length);
        cr_str_addn(out, end, (size_t)(next - end));
    }
}

/* report.c: what the tool says besides its results: failures, warnings, progress.
 *
 * A failure is one line, "cresset: what happened; what to do". Messages of the library may have several lines and may
 * hold bytes of a hostile file, so every control character becomes a space or a '?' before it reaches the terminal. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static bool misused;
static char hint[512];

/* What to do, where neither the failing place nor its message ("...; do this") says it. */
static const struct { cr_status code; const char *hint; } hints[] = {
    { CR_ENOMEM, "close other programs, or use a machine with more memory" },
    { CR_EFORMAT, "'cresset doctor FILE' checks the whole file" },
    { CR_EUNSUPPORTED, "export it again without that, or run it with PyTorch" },
    { CR_EIO, "check the name, its permissions and the space left" },
};

cr_status cli_misuse(const char *format, ...) {
    va_list args;
    cr_str text;
    cr_str_init(&text);
    va_start(args, format);
    cr_str_addv(&text, format, args);
    va_end(args);
    cr_status status = cr_str_status(&text);
    if (!status) {
        misused = true;
        status = CR_FAIL(CR_EVALUE, "%s", cr_str_get(&text));
    }
    cr_str_dispose(&text);
    return status;
}

void cli_hint(const char *format, ...) {
    if (hint[0]) return;
    va_list args;
    va_start(args, format);
    vsnprintf(hint, sizeof hint, format, args);
    va_end(args);
}

/* On the stack, so that running out of memory can be told, too; the rest of a very long text is cut. */
static void write_line(const char *first, const char *second) {
    char line[4096];
    size_t n = 0, limit = sizeof line - 8;
    const char *parts[] = { "cresset: ", first, second ? "; " : NULL, second };
    for (size_t i = 0; i < CLI_COUNT(parts); i++) {
        bool space = false;
        for (const unsigned char *c = (const unsigned char *)parts[i]; c && *c && n < limit; c++) {
            if (*c == '\n' || *c == '\r' || *c == '\t' || (*c == ' ' && space)) {
                space = true; /* a line break and what indents the next line: one space */
                continue;
            }
            if (space) line[n++] = ' ';
            space = false;
            line[n++] = *c < 32 || *c == 127 ? '?' : (char)*c;
        }
    }
    if (n >= limit) memcpy(line + n, "...", 3), n += 3;
    line[n++] = '\n';
    (void)!fwrite(line, 1, n, stderr);
}

void cli_warn(const char *format, ...) {
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    write_line(text, NULL);
}

int cli_report(cr_status status) {
    if (!status) return CLI_DONE;
    const char *advice = hint[0] ? hint : NULL;
    bool said = status != CR_ENOMEM && strstr(cr_error_message(), "; ");
    for (size_t i = 0; !advice && !misused && !said && i < CLI_COUNT(hints); i++)
        if (hints[i].code == status) advice = hints[i].hint;
    if (status == CR_ENOMEM) write_line("out of memory", advice);
    else write_line(cr_error_message(), advice);
    return misused ? CLI_MISUSED : CLI_FAILED;
}

cr_status cli_print(const cr_str *text) {
    static bool gone;
    CR_TRY(cr_str_status(text));
    if (gone) return CR_OK;
    const char *at = cr_str_get(text);
    if (fwrite(at, 1, text->n, stdout) == text->n && !fflush(stdout)) return CR_OK;
    if (errno == EPIPE) {
        gone = true;
        return CR_OK;
    }
    return CR_FAIL(CR_EIO, "cannot write to standard output: %s", strerror(errno));
}

/* ---- progress ---- */

double cli_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void cli_progress_begin(cli_progress *p, const char *what, uint64_t total) {
    *p = (cli_progress){
        .what = what, .total = total, .shown = cli_seconds(), .on = isatty(STDERR_FILENO) && total > 0
    };
}

/* Nothing is shown in the first half second: short work stays quiet. */
void cli_progress_add(cli_progress *p, uint64_t bytes) {
    p->done += bytes;
    if (!p->on) return;
    double now = cli_seconds();
    if (now - p->shown < (p->done == bytes ? 0.5 : 0.1)) return;
    p->shown = now;
    fprintf(stderr, "\r%s: %3d %%", p->what, (int)((double)p->done * 100 / (double)p->total));
    fflush(stderr);
}

void cli_progress_end(cli_progress *p) {
    if (p->on) fputs("\r\033[K", stderr);
    p->on = false;
}

void cli_stage(const char *format, ...) {
    if (!isatty(STDERR_FILENO)) return;
    fputs("\r\033[K", stderr);
    if (format) {
        char text[256];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        fprintf(stderr, "%.78s ...", text);
    }
    fflush(stderr);
}

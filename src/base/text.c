/* What parsers share: positions for their messages, numbers that do not follow the process's locale. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strtod_l */
#endif
#include "base/base.h"

#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

void cr_text_position(const char *text, const char *at, int *line, int *column) {
    *line = *column = 1;
    for (const char *p = text; p < at; p++) {
        if (*p == '\n') {
            ++*line;
            *column = 1;
        } else {
            ++*column;
        }
    }
}

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void c_locale_make(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

double cr_strtod(const char *text, char **end) {
    pthread_once(&c_locale_once, c_locale_make);
    return c_locale ? strtod_l(text, end, c_locale) : strtod(text, end);
}

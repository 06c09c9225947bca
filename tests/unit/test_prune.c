/* What of a C text is needed: items, macros that name functions, conditions, definitions that the model brings itself.
 * */
#include "check.h"
#include "emit/prune.h"

enum { MOST = 3 };
static cr_piece pieces[MOST];
static cr_map symbols;

/* A header, a file and the model; the text that stays of each is in `pieces`. */
static void prune(const char *header, const char *file, const char *model) {
    const char *const texts[MOST] = { header, file, model };
    for (int i = 0; i < MOST; i++) {
        pieces[i] = (cr_piece){ .file = i == 0 ? "a.h" : i == 1 ? "a.c" : NULL, .is_header = i == 0 };
        cr_map_init(&pieces[i].names);
        cr_map_init(&pieces[i].macros);
        cr_str_add(&pieces[i].text, texts[i]);
    }
    cr_map_init(&symbols);
    CHECK_OK(cr__prune(pieces, MOST, "root", &symbols));
}

static void done(void) {
    for (int i = 0; i < MOST; i++) {
        cr_str_dispose(&pieces[i].text);
        cr_map_dispose(&pieces[i].names);
        cr_map_dispose(&pieces[i].macros);
    }
    cr_map_dispose(&symbols);
}

static const char *text(int i) { return cr_str_get(&pieces[i].text); }

static void unused_items_go(void) {
    prune("/* a.h: title */\n#ifndef CRESSET_A_H\n#define CRESSET_A_H\ntypedef int used_t; /* why */\ntypedef int "
          "other_t;\n"
          "used_t f(used_t x);\nint g(void);\n#endif\n",
          "/* not needed */\nstatic int helper(int x) { return x + 1; }\nstatic int lonely(void) { return 0; }\n\n"
          "/* needed */\nused_t f(used_t x) { return helper(x); }\nint g(void) { return lonely(); }\n",
          "int root(void) { return f(1); }\n");
    CHECK_STR(text(0), "/* a.h: title */\ntypedef int used_t; /* why */\nused_t f(used_t x);\n");
    CHECK_STR(text(1), "/* not needed */\nstatic int helper(int x) { return x + 1; }\n\n/* needed */\nused_t f(used_t "
                       "x) { "
                       "return helper(x); }\n");
    CHECK(cr_map_find_str(&symbols, "f", NULL) && !cr_map_find_str(&symbols, "g", NULL));
    CHECK(cr_map_find_str(&pieces[1].names, "helper", NULL) && !cr_map_find_str(&pieces[1].names, "lonely", NULL));
    done();
}

static void macros_name_functions(void) {
    prune("",
          "#define SUM(name, T) static T sum_##name(T a) { return a + LAST_##name; }\n#define LAST_f 1\n#define LAST_d "
          "2\n"
          "#define EACH(X) X(f, float) X(d, double)\nEACH(SUM)\n#define TWICE(T) T twice_##T(T x) { return 2 * x; }\n"
          "TWICE(int)\nTWICE(long)\n#undef TWICE\n#define UNUSED 1\n",
          "float twice_int(int);\nfloat root(void) { return sum_f(1); }\n");
    CHECK_STR(text(1), ""); /* statics are their file's alone */
    done();
    prune("",
          "#define SUM(name, T) static T sum_##name(T a) { return a + LAST_##name; }\n#define LAST_f 1\n#define LAST_d "
          "2\n"
          "#define EACH(X) X(f, float) X(d, double)\nEACH(SUM)\n#define TWICE(T) T twice_##T(T x) { return 2 * x; }\n"
          "TWICE(int)\nTWICE(long)\n#undef TWICE\n#define UNUSED 1\nfloat one(float x) { return sum_f(x); }\n",
          "int root(void) { return twice_int(2) + one(3); }\n");
    CHECK_STR(text(1), "#define SUM(name, T) static T sum_##name(T a) { return a + LAST_##name; }\n#define LAST_f 1\n"
                       "#define LAST_d 2\n#define EACH(X) X(f, float) X(d, double)\nEACH(SUM)\n#define TWICE(T) T "
                       "twice_##T(T x) { return 2 * x; }\nTWICE(int)\n#undef TWICE\nfloat one(float x) { return "
                       "sum_f(x); }\n");
    CHECK(cr_map_find_str(&symbols, "twice_int", NULL) && !cr_map_find_str(&symbols, "twice_long", NULL));
    CHECK(cr_map_find_str(&pieces[1].names, "sum_d", NULL) && cr_map_find_str(&pieces[1].macros, "SUM", NULL));
    done();
}

static void conditions(void) {
    prune("",
          "#if defined(__x86_64__)\nint f(void) { return wide(); }\n#else\nint f(void) { return plain(); }\n#endif\n"
          "#define FAST\n#ifdef FAST\nstatic int k;\n#else\nstatic int k = slow();\n#endif\n"
          "#if defined(__AVX2__)\n#define W 8\n#elif defined(__x86_64__)\n#define W 6\n#else\n#define W 4\n#endif\n"
          "#if W == 8\nint plain(void) { return k; }\n#else\nint plain(void) { return W; }\n#endif\n"
          "#if defined(__clang__)\nstatic int nobody;\n#endif\n",
          "int root(void) { return f(); }\n");
    CHECK_STR(text(1), "int f(void) { return plain(); }\nstatic int k;\n#if defined(__AVX2__)\n#define W 8\n"
                       "#elif defined(__x86_64__)\n#else\n#define W 4\n#endif\n#if W == 8\nint plain(void) { return k; "
                       "}\n"
                       "#else\nint plain(void) { return W; }\n#endif\n");
    done();
}

static void definitions_of_the_model(void) {
    prune("int choose(void);\nextern int table[2];\n",
          "#define WEAK __attribute__((weak))\nstatic int all(void) { return 3; }\nWEAK int choose(void) { return "
          "all(); }\n"
          "WEAK int table[2] = { 1, 2 };\nint use(void) { return choose() + table[0]; }\n",
          "int choose(void) { return 0; }\nint root(void) { return use(); }\n");
    CHECK_STR(text(1), "#define WEAK __attribute__((weak))\nWEAK int table[2] = { 1, 2 };\nint use(void) { return "
                       "choose() + "
                       "table[0]; }\n");
    CHECK_STR(text(2), "int choose(void) { return 0; }\nint root(void) { return use(); }\n");
    done();
}

/* Fields are no mentions, constructors stay with their file, tags and enumerators are names. */
static void kinds_of_names(void) {
    prune("struct shape { int width; };\nenum { A, B = sizeof(int) };\nenum colour { RED };\nunion u { int i; };\n",
          "static int width(void) { return 1; }\nstatic int (*pointer)(void) = width;\n"
          "__attribute__((constructor)) static void start(void) { pointer = 0; }\n"
          "int f(struct shape *s) {\n#define STEP(x) s->x\n    return STEP(width);\n#undef STEP\n}\n",
          "int root(void) { struct shape s = { .width = B }; return f(&s); }\n");
    CHECK_STR(text(0), "struct shape { int width; };\nenum { A, B = sizeof(int) };\n");
    CHECK_STR(text(1), "static int width(void) { return 1; }\nstatic int (*pointer)(void) = width;\n"
                       "__attribute__((constructor)) static void start(void) { pointer = 0; }\n"
                       "int f(struct shape *s) {\n#define STEP(x) s->x\n    return STEP(width);\n#undef STEP\n}\n");
    done();
}

/* Whatever is cut off: no crash, and the same end. */
static void any_beginning_of_a_text(void) {
    static const char whole[] = "#define M(a, ...) a##b __VA_ARGS__ #a\n#if defined(X) && (W == 3 || !Y)\nint M(r, "
                                "(1), {)"
                                "oot(int x[]) { return '\\''; } /* \" */\n#else\nenum e { A = \"a\\\"b\"[0] "
                                "};\n#endif\nint root = 1;";
    for (size_t n = 0; n <= sizeof whole - 1; n++) {
        char cut[sizeof whole];
        snprintf(cut, sizeof cut, "%.*s", (int)n, whole);
        prune(cut, cut, cut);
        done();
    }
}

int main(void) {
    RUN(unused_items_go);
    RUN(macros_name_functions);
    RUN(conditions);
    RUN(definitions_of_the_model);
    RUN(kinds_of_names);
    RUN(any_beginning_of_a_text);
    return check_summary();
}

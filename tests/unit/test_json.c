/* JSON: what is read, what is refused and where, walking, and what is left when the Nth allocation fails. */
#include "archive/json.h"
#include "check.h"

#include <stdlib.h>

static cr_arena arena;

static const cr_json *read_text(const char *text) {
    const cr_json *value = NULL;
    CHECK_OK(cr_json_parse(&arena, text, strlen(text), &value));
    return value;
}

static void check_int(const char *text, int64_t want) {
    const cr_json *v = read_text(text);
    if (!v) return;
    CHECK_EQ(v->kind, CR_JSON_INT);
    CHECK_EQ(v->u.i, want);
}

static void check_float(const char *text, double want) {
    const cr_json *v = read_text(text);
    if (!v) return;
    CHECK_EQ(v->kind, CR_JSON_FLOAT);
    CHECK_FLOAT(v->u.f, want);
    CHECK_EQ(signbit(v->u.f), signbit(want));
}

static void numbers(void) {
    check_int("0", 0);
    check_int("-0", 0);
    check_int(" \t\r\n12 ", 12);
    check_int("9223372036854775807", INT64_MAX);
    check_int("-9223372036854775808", INT64_MIN);
    check_float("9223372036854775808", 9223372036854775808.0);
    check_float("-9223372036854775809", -9223372036854775808.0);
    check_float("18446744073709551616", 18446744073709551616.0);
    check_float("1.0", 1.0);
    check_float("-0.0", -0.0);
    check_float("0.1", 0.1);
    check_float("1e5", 1e5);
    check_float("1E+2", 100.0);
    check_float("1e-05", 1e-5);
    check_float("0.30000000000000004", 0.1 + 0.2);
    check_float("9007199254740993e0", 9007199254740992.0);
    check_float("1.7976931348623157e308", 1.7976931348623157e308);
    check_float("5e-324", 5e-324);
    check_float("1e999", INFINITY);
    check_float("-1e999", -INFINITY);
    check_float("1e-999", 0.0);
    check_float("1e99999999999999999999", INFINITY);
    check_float("NaN", NAN);
    check_float("Infinity", INFINITY);
    check_float("-Infinity", -INFINITY);
    srand(3);
    for (int i = 0; i < 2000; i++) { /* the short way agrees with strtod */
        char text[64];
        snprintf(text, sizeof text, "%d.%0*de%d", rand() % 1000, 1 + rand() % 12, rand() % 10, rand() % 60 - 30);
        check_float(text, strtod(text, NULL));
    }
}

static void check_string(const char *text, const char *want, size_t n) {
    const cr_json *v = read_text(text);
    if (!v) return;
    CHECK_EQ(v->kind, CR_JSON_STRING);
    CHECK_EQ(v->n, n);
    CHECK(v->n == n && !memcmp(v->u.s, want, n + 1));
}

static void strings(void) {
    check_string("\"\"", "", 0);
    check_string("\"hello, world: more than a word\"", "hello, world: more than a word", 30);
    check_string("\"a\\\"b\\\\c\\/d\\b\\f\\n\\r\\t\"", "a\"b\\c/d\b\f\n\r\t", 12);
    check_string("\"\\u0041\\u00e9\\u20ac\\uD83D\\uDE00\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 10);
    check_string("\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", 14);
    check_string("\"nul \\u0000 inside\"", "nul \0 inside", 12);
    check_string("\"\\uffff\\u0800\"", "\xef\xbf\xbf\xe0\xa0\x80", 6);
    char *large = malloc(300003); /* longer than any chunk */
    memset(large, 'x', 300002);
    large[0] = large[300001] = '"';
    large[300002] = 0;
    const cr_json *v = read_text(large);
    CHECK(v && v->n == 300000 && strspn(v->u.s, "x") == 300000);
    free(large);
}

static void trees(void) {
    const cr_json *v = read_text("{\"a\": [1, 2.5, \"x\", null, true, false, [], {}], \"b\": {\"c\": [[3]]}}");
    CHECK_EQ(v->kind, CR_JSON_OBJECT);
    CHECK_EQ(v->n, 2);
    CHECK_STR(v->u.members[0].key, "a");
    const cr_json *a = cr_json_find(v, "a");
    CHECK(a && a->kind == CR_JSON_ARRAY && a->n == 8);
    static const int kinds[] = {CR_JSON_INT,  CR_JSON_FLOAT, CR_JSON_STRING, CR_JSON_NULL,
                                CR_JSON_BOOL, CR_JSON_BOOL,  CR_JSON_ARRAY,  CR_JSON_OBJECT};
    for (int i = 0; i < 8; i++) CHECK_EQ(a->u.items[i].kind, kinds[i]);
    CHECK(a->u.items[4].u.b && !a->u.items[5].u.b);
    CHECK_EQ(cr_json_find(cr_json_find(v, "b"), "c")->u.items[0].u.items[0].u.i, 3);
    CHECK(cr_json_find(v, "z") == NULL);
    CHECK(cr_json_find(a, "a") == NULL);
    CHECK(cr_json_find(NULL, "a") == NULL);

    /* As deep as allowed. */
    char text[2 * CR_JSON_DEPTH + 3] = {0};
    memset(text, '[', CR_JSON_DEPTH);
    memset(text + CR_JSON_DEPTH, ']', CR_JSON_DEPTH);
    CHECK(read_text(text) != NULL);
    memset(text, '[', CR_JSON_DEPTH + 1);
    memset(text + CR_JSON_DEPTH + 1, ']', CR_JSON_DEPTH + 1);
    const cr_json *deep = NULL;
    CHECK_ERROR(cr_json_parse(&arena, text, strlen(text), &deep), CR_EFORMAT,
                "line 1, column 201: values are nested more than 200 deep");

    /* Many members: found by the index, in the order of the text. */
    cr_str large = {0};
    cr_str_addc(&large, '{');
    for (int i = 0; i < 5000; i++) cr_str_addf(&large, "%s\"key%d\": %d", i ? ", " : "", i, i);
    cr_str_addc(&large, '}');
    v = read_text(cr_str_get(&large));
    CHECK_EQ(v->n, 5000);
    for (int i = 0; i < 5000; i++) {
        char key[16];
        snprintf(key, sizeof key, "key%d", i);
        const cr_json *found = cr_json_find(v, key);
        CHECK(found == &v->u.members[i].value && found->u.i == i);
    }
    CHECK(cr_json_find(v, "key5000") == NULL);
    large.n--; /* the closing brace */
    cr_str_add(&large, ", \"key17\": 0}");
    CHECK_ERROR(cr_json_parse(&arena, cr_str_get(&large), large.n, &deep), CR_EFORMAT, "key 'key17' occurs twice");
    cr_str_dispose(&large);
}

/* Every bad text and the error it must give. */
static void bad_texts(void) {
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"", "line 1, column 1: expected a value, found the end of the text"},
        {"  \n ", "line 2, column 2: expected a value, found the end"},
        {"tru", "line 1, column 1: expected a value, found 't'"},
        {"True", "expected a value, found 'T'"},
        {"nul", "expected a value, found 'n'"},
        {"nan", "expected a value"},
        {"+1", "expected a value, found '+'"},
        {".5", "expected a value, found '.'"},
        {"'a'", "expected a value, found '''"},
        {"\xef\xbb\xbf{}", "expected a value, found byte 0xef"},
        {"01", "a number may not begin with 0"},
        {"-01", "a number may not begin with 0"},
        {"-", "expected a digit, found the end of the text"},
        {"-a", "expected a digit, found 'a'"},
        {"-Infinit", "expected a value, found '-'"},
        {"1.", "expected a digit after the decimal point, found the end"},
        {"1.e5", "expected a digit after the decimal point, found 'e'"},
        {"1e", "expected a digit of the exponent, found the end"},
        {"1e+", "expected a digit of the exponent"},
        {"1 2", "line 1, column 3: expected nothing after the value, found '2'"},
        {"0x10", "expected nothing after the value, found 'x'"},
        {"{} {}", "column 4: expected nothing after the value, found '{'"},
        {"[1,]", "line 1, column 4: expected a value, found ']'"},
        {"[,1]", "column 2: expected a value, found ','"},
        {"[1 2]", "column 4: expected ',' or ']', found '2'"},
        {"[1", "expected ',' or ']', found the end of the text"},
        {"[1}", "expected ',' or ']', found '}'"},
        {"[", "expected a value, found the end"},
        {"]", "expected a value, found ']'"},
        {"{", "expected a key in quotes, found the end"},
        {"{a: 1}", "expected a key in quotes, found 'a'"},
        {"{1: 1}", "expected a key in quotes, found '1'"},
        {"{\"a\" 1}", "expected ':' after the key, found '1'"},
        {"{\"a\":}", "expected a value, found '}'"},
        {"{\"a\": 1,}", "expected a key in quotes, found '}'"},
        {"{\"a\": 1 \"b\": 2}", "expected ',' or '}', found '\"'"},
        {"{\"a\": 1]", "expected ',' or '}', found ']'"},
        {"{\"a\": 1,\n \"a\": 2}", "line 2, column 8: key 'a' occurs twice"},
        {"{\"a\": 1, \"\\u0061\": 2}", "key 'a' occurs twice"},
        {"[{\"x\": {\"k\": 1, \"k\": 1}}]", "key 'k' occurs twice"},
        {"{\"a\\u0000b\": 1}", "a key that contains NUL"},
        {"\"abc", "the text ends inside a string"},
        {"\"abc\\", "the text ends inside a string"},
        {"\"abc\\\"", "the text ends inside a string"},
        {"\"a\nb\"", "line 1, column 3: control character 0x0a in a string"},
        {"\"a\x01\"", "control character 0x01"},
        {"\"\\x41\"", "an unknown escape"},
        {"\"\\u12\"", "\\u needs four hexadecimal digits"},
        {"\"\\u12g4\"", "\\u needs four hexadecimal digits"},
        {"\"\\ud800\"", "\\ud800 is half of a surrogate pair"},
        {"\"\\ud800x\"", "\\ud800 is half of a surrogate pair"},
        {"\"\\ud800\\u0041\"", "\\ud800 is half of a surrogate pair"},
        {"\"\\ud800\\ud800\"", "half of a surrogate pair"},
        {"\"\\udc00\"", "\\udc00 is half of a surrogate pair"},
        {"\"\x80\"", "byte 0x80 is not valid UTF-8"},
        {"\"\xc0\xaf\"", "byte 0xc0 is not valid UTF-8"},
        {"\"\xc3\"", "byte 0xc3 is not valid UTF-8"},
        {"\"\xe0\x80\xaf\"", "byte 0xe0 is not valid UTF-8"},
        {"\"\xed\xa0\x80\"", "byte 0xed is not valid UTF-8"},
        {"\"\xf4\x90\x80\x80\"", "byte 0xf4 is not valid UTF-8"},
        {"\"\xf8\x88\x80\x80\x80\"", "byte 0xf8 is not valid UTF-8"},
        {"// c\n1", "expected a value, found '/'"},
    };
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        const cr_json *value = NULL;
        /* A heap block of exactly its size, so that a sanitizer sees any read past the end. */
        size_t n = strlen(rows[i].text);
        char *copy = malloc(n ? n : 1);
        memcpy(copy, rows[i].text, n);
        CHECK_ERROR(cr_json_parse(&arena, copy, n, &value), CR_EFORMAT, rows[i].error);
        CHECK(value == NULL);
        free(copy);
    }
    const cr_json *value;
    CHECK_ERROR(cr_json_parse(&arena, "[1,\0 2]", 7, &value), CR_EFORMAT, "expected a value, found byte 0x00");
    char digits[2000];
    memset(digits, '7', sizeof digits);
    CHECK_ERROR(cr_json_parse(&arena, digits, sizeof digits, &value), CR_EFORMAT,
                "a number of 2000 characters is too long");
    CHECK_OK(cr_json_parse(&arena, digits, 900, &value));
    CHECK(value->kind == CR_JSON_FLOAT && isinf(value->u.f));
}

static void walking(void) {
    const cr_json *v = read_text("{\"s\": \"text\", \"i\": 3, \"f\": 2.5, \"t\": true, \"n\": null, \"o\": "
                                 "{\"as_int\": 7}, \"inf\": \"-Infinity\", "
                                 "\"nul\": \"a\\u0000b\", \"nan\": \"NaN\", \"big\": 1e30}");
    const cr_json *o = NULL;
    const char *s = NULL;
    int64_t i = 0;
    bool b = false;
    double d = 0;
    const cr_json_member *m = NULL;
    CHECK_OK(cr_json_get(v, "o", CR_JSON_OBJECT, &o));
    CHECK_OK(cr_json_union(o, &m));
    CHECK(m && !strcmp(m->key, "as_int") && m->value.u.i == 7);
    CHECK_OK(cr_json_get_string(v, "s", &s));
    CHECK_STR(s, "text");
    CHECK_OK(cr_json_get_int(v, "i", &i));
    CHECK_EQ(i, 3);
    CHECK_OK(cr_json_get_int_or(v, "n", 5, &i));
    CHECK_EQ(i, 5);
    CHECK_OK(cr_json_get_int_or(v, "absent", 6, &i));
    CHECK_EQ(i, 6);
    CHECK_OK(cr_json_get_int_or(v, "i", 6, &i));
    CHECK_EQ(i, 3);
    CHECK_OK(cr_json_get_bool_or(v, "t", false, &b));
    CHECK(b);
    CHECK_OK(cr_json_get_bool_or(v, "absent", false, &b));
    CHECK(!b);
    CHECK_OK(cr_json_number(cr_json_find(v, "i"), &d));
    CHECK_FLOAT(d, 3);
    CHECK_OK(cr_json_number(cr_json_find(v, "f"), &d));
    CHECK_FLOAT(d, 2.5);
    CHECK_OK(cr_json_number(cr_json_find(v, "inf"), &d));
    CHECK_FLOAT(d, -INFINITY);
    CHECK_OK(cr_json_number(cr_json_find(v, "nan"), &d));
    CHECK_FLOAT(d, NAN);

    CHECK_ERROR(cr_json_get(v, "z", CR_JSON_ARRAY, &o), CR_EFORMAT, "'z' is missing, expected an array");
    CHECK_ERROR(cr_json_get(v, "s", CR_JSON_ARRAY, &o), CR_EFORMAT, "'s' is a string, expected an array");
    CHECK_ERROR(cr_json_get_string(v, "i", &s), CR_EFORMAT, "'i' is an integer, expected a string");
    CHECK_ERROR(cr_json_get_string(v, "nul", &s), CR_EFORMAT, "'nul' is a string that contains NUL");
    CHECK_ERROR(cr_json_get_int(v, "f", &i), CR_EFORMAT, "'f' is a float, expected an integer");
    CHECK_ERROR(cr_json_get_int(v, "big", &i), CR_EFORMAT, "'big' is a float, expected an integer");
    CHECK_ERROR(cr_json_get_int_or(v, "s", 0, &i), CR_EFORMAT, "'s' is a string, expected an integer");
    CHECK_ERROR(cr_json_get_bool_or(v, "i", 0, &b), CR_EFORMAT, "'i' is an integer, expected true or false");
    CHECK_ERROR(cr_json_get_int(cr_json_find(v, "i"), "x", &i), CR_EFORMAT,
                "found an integer, expected an object with 'x'");
    CHECK_ERROR(cr_json_get_int(NULL, "x", &i), CR_EFORMAT, "found nothing, expected an object with 'x'");
    CHECK_ERROR(cr_json_union(v, &m), CR_EFORMAT, "found an object with 10 members, expected exactly one");
    CHECK_ERROR(cr_json_union(cr_json_find(v, "s"), &m), CR_EFORMAT,
                "found a string, expected an object with one member");
    CHECK_ERROR(cr_json_number(cr_json_find(v, "s"), &d), CR_EFORMAT, "found the string 'text', expected a number");
    CHECK_ERROR(cr_json_number(cr_json_find(v, "t"), &d), CR_EFORMAT, "found true or false, expected a number");
    CHECK_ERROR(cr_json_number(NULL, &d), CR_EFORMAT, "found nothing");
    CHECK_STR(cr_json_kind_name(99), "?");
}

static void check_written(const char *text, int indent, const char *want) {
    cr_str out = {0};
    cr_json_writer w;
    cr_json_writer_init(&w, &out, indent);
    cr_json_value(&w, read_text(text));
    CHECK_STR(cr_str_get(&out), want);
    cr_str_dispose(&out);
}

/* What Python's json.dumps writes for the same value (with ensure_ascii=False). */
static void writing(void) {
    check_written("[]", 0, "[]");
    check_written("{}", 2, "{}");
    check_written("[1,2.5,\"x\",null,true,false,[],{}]", 0, "[1, 2.5, \"x\", null, true, false, [], {}]");
    check_written("{\"a\":{\"b\":[1,[2]],\"c\":\"d\"},\"e\":-7}", 0,
                  "{\"a\": {\"b\": [1, [2]], \"c\": \"d\"}, \"e\": -7}");
    check_written("{\"a\":{\"b\":[1,[2]],\"c\":{}},\"e\":[]}", 2,
                  "{\n  \"a\": {\n    \"b\": [\n      1,\n      [\n        2\n      ]\n    ],\n    \"c\": {}\n  },\n  "
                  "\"e\": []\n}");
    check_written("[NaN, Infinity, -Infinity, 1e-05, 1e16, 0.1, -0.0]", 0,
                  "[NaN, Infinity, -Infinity, 1e-05, 1e+16, 0.1, -0.0]");
    check_written("\"\\u0000\\u001f\\n\\t\\r\\b\\f\\\"\\\\\\/caf\\u00e9\\ud83d\\ude00\"", 0,
                  "\"\\u0000\\u001f\\n\\t\\r\\b\\f\\\"\\\\/caf\xc3\xa9\xf0\x9f\x98\x80\"");
    check_written("-9223372036854775808", 0, "-9223372036854775808");
    cr_str out = {0};
    cr_json_writer w;
    cr_json_writer_init(&w, &out, 0);
    cr_json_open(&w, '{');
    cr_json_key(&w, "bad \xff byte");
    cr_json_string(&w, "\xc3", 1);
    cr_json_key(&w, "b");
    cr_json_bool(&w, true);
    cr_json_key(&w, "n");
    cr_json_null(&w);
    cr_json_key(&w, "f");
    cr_json_float(&w, 3);
    cr_json_close(&w, '}');
    CHECK_STR(cr_str_get(&out), "{\"bad \xef\xbf\xbd byte\": \"\xef\xbf\xbd\", \"b\": true, \"n\": null, \"f\": 3.0}");
    CHECK(read_text(cr_str_get(&out)) != NULL);
    cr_str_dispose(&out);
    cr_alloc_fail_at(2); /* errors are the text's, and sticky */
    cr_json_writer_init(&w, &out, 0);
    cr_json_open(&w, '[');
    for (int i = 0; i < 100; i++) cr_json_int(&w, i);
    cr_json_close(&w, ']');
    cr_alloc_fail_at(0);
    CHECK_EQ(cr_str_status(&out), CR_ENOMEM);
    cr_str_dispose(&out);
}

/* A program that PyTorch wrote (tests/fuzz/make_seeds.py). */
static void real_files(void) {
    char *text = NULL;
    size_t n = 0;
    const cr_json *program = NULL, *module = NULL, *graph = NULL, *nodes = NULL;
    CHECK_OK(cr_file_read("tests/fuzz/corpus/json/pt2_model.json", &text, &n));
    CHECK_OK(cr_json_parse(&arena, text, n, &program));
    cr_free(text);
    CHECK_OK(cr_json_get(program, "graph_module", CR_JSON_OBJECT, &module));
    CHECK_OK(cr_json_get(module, "graph", CR_JSON_OBJECT, &graph));
    CHECK_OK(cr_json_get(graph, "nodes", CR_JSON_ARRAY, &nodes));
    const char *target = NULL;
    CHECK(nodes && nodes->n == 1);
    if (nodes) CHECK_OK(cr_json_get_string(&nodes->u.items[0], "target", &target));
    CHECK_STR(target, "torch.ops.aten.linear.default");
}

static cr_status parse_once(void *text) {
    cr_arena a;
    cr_arena_init(&a);
    const cr_json *value;
    cr_status status = cr_json_parse(&a, text, strlen(text), &value);
    cr_arena_dispose(&a);
    return status;
}

static void out_of_memory(void) {
    cr_str text = {0};
    cr_str_add(&text, "{\"list\": [1, 2, \"three\", [[\"a\\n\"]], {}], \"large\": {");
    for (int i = 0; i < 40; i++) cr_str_addf(&text, "%s\"member number %d\": \"value %d\"", i ? "," : "", i, i);
    cr_str_add(&text, "}}");
    CHECK_OOM_SWEEP(parse_once, text.at);
    cr_str_dispose(&text);
}

int main(void) {
    cr_arena_init(&arena);
    RUN(numbers);
    RUN(strings);
    RUN(trees);
    RUN(bad_texts);
    RUN(walking);
    RUN(writing);
    RUN(real_files);
    cr_arena_dispose(&arena);
    RUN(out_of_memory);
    return check_summary();
}

/* Walking JSON trees: fields by name and kind, with errors that say which field is wrong and how. */
#include "archive/json.h"
#include "archive/json_internal.h"

#include <math.h>

const char *cr_json_kind_name(int kind) {
    static const char *const names[] = {
        [CR_JSON_NULL] = "null",        [CR_JSON_BOOL] = "true or false", [CR_JSON_INT] = "an integer",
        [CR_JSON_FLOAT] = "a float",    [CR_JSON_STRING] = "a string",    [CR_JSON_ARRAY] = "an array",
        [CR_JSON_OBJECT] = "an object",
    };
    return (unsigned)kind < CR_COUNT(names) ? names[kind] : "?";
}

const cr_json *cr_json_find(const cr_json *object, const char *key) {
    if (!object || object->kind != CR_JSON_OBJECT) return NULL;
    const cr_json_member *members = object->u.members;
    if (object->n > CR__JSON_LARGE) {
        uint32_t found = *cr__json_slot(members, object->n, key);
        return found ? &members[found - 1].value : NULL;
    }
    for (uint32_t i = 0; i < object->n; i++)
        if (!strcmp(members[i].key, key)) return &members[i].value;
    return NULL;
}

static cr_status fail_kind(const char *key, const cr_json *value, const char *expected) {
    return CR_FAIL(CR_EFORMAT, "'%s' is %s, expected %s", key, cr_json_kind_name(value->kind), expected);
}

/* The field, of whatever kind; `object` itself must be an object. */
static cr_status field(const cr_json *object, const char *key, const char *expected, const cr_json **out) {
    if (!object || object->kind != CR_JSON_OBJECT)
        return CR_FAIL(CR_EFORMAT, "found %s, expected an object with '%s'",
                       object ? cr_json_kind_name(object->kind) : "nothing", key);
    const cr_json *value = cr_json_find(object, key);
    if (!value) return CR_FAIL(CR_EFORMAT, "'%s' is missing, expected %s", key, expected);
    *out = value;
    return CR_OK;
}

cr_status cr_json_get(const cr_json *object, const char *key, cr_json_kind kind, const cr_json **out) {
    const cr_json *value = NULL;
    CR_TRY(field(object, key, cr_json_kind_name((int)kind), &value));
    if (value->kind != (uint8_t)kind) return fail_kind(key, value, cr_json_kind_name((int)kind));
    *out = value;
    return CR_OK;
}

cr_status cr_json_get_string(const cr_json *object, const char *key, const char **out) {
    const cr_json *value = NULL;
    CR_TRY(cr_json_get(object, key, CR_JSON_STRING, &value));
    if (strlen(value->u.s) != value->n) return CR_FAIL(CR_EFORMAT, "'%s' is a string that contains NUL", key);
    *out = value->u.s;
    return CR_OK;
}

cr_status cr_json_get_int(const cr_json *object, const char *key, int64_t *out) {
    const cr_json *value = NULL;
    CR_TRY(cr_json_get(object, key, CR_JSON_INT, &value));
    *out = value->u.i;
    return CR_OK;
}

cr_status cr_json_get_int_or(const cr_json *object, const char *key, int64_t fallback, int64_t *out) {
    const cr_json *value = cr_json_find(object, key);
    if (!value || value->kind == CR_JSON_NULL) {
        *out = fallback;
        return CR_OK;
    }
    return cr_json_get_int(object, key, out);
}

cr_status cr_json_get_bool_or(const cr_json *object, const char *key, bool fallback, bool *out) {
    const cr_json *value = cr_json_find(object, key);
    if (!value || value->kind == CR_JSON_NULL) {
        *out = fallback;
        return CR_OK;
    }
    if (value->kind != CR_JSON_BOOL) return fail_kind(key, value, cr_json_kind_name(CR_JSON_BOOL));
    *out = value->u.b;
    return CR_OK;
}

cr_status cr_json_union(const cr_json *value, const cr_json_member **out) {
    if (!value || value->kind != CR_JSON_OBJECT)
        return CR_FAIL(CR_EFORMAT, "found %s, expected an object with one member",
                       value ? cr_json_kind_name(value->kind) : "nothing");
    if (value->n != 1) return CR_FAIL(CR_EFORMAT, "found an object with %u members, expected exactly one", value->n);
    *out = value->u.members;
    return CR_OK;
}

cr_status cr_json_number(const cr_json *value, double *out) {
    static const struct {
        const char *text;
        double value;
    } words[] = {{"Infinity", (double)INFINITY}, {"-Infinity", -(double)INFINITY}, {"NaN", (double)NAN}};
    if (!value) return CR_FAIL(CR_EFORMAT, "found nothing, expected a number");
    if (value->kind == CR_JSON_INT || value->kind == CR_JSON_FLOAT) {
        *out = value->kind == CR_JSON_INT ? (double)value->u.i : value->u.f;
        return CR_OK;
    }
    if (value->kind == CR_JSON_STRING) {
        for (size_t i = 0; i < CR_COUNT(words); i++) {
            if (strcmp(value->u.s, words[i].text)) continue;
            *out = words[i].value;
            return CR_OK;
        }
        return CR_FAIL(CR_EFORMAT, "found the string '%.40s', expected a number", value->u.s);
    }
    return CR_FAIL(CR_EFORMAT, "found %s, expected a number", cr_json_kind_name(value->kind));
}

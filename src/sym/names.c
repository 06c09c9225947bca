/* Which function name means which operator, both ways. */
#include "sym/names.h"
#include "sym/internal.h"

static const cr__function functions[] = {
    {"Add", CR__SUM, CR_SYM_ADD, -1},
    {"Mul", CR__PRODUCT, CR_SYM_MUL, -1},
    {"Pow", CR__SPECIAL, CR__NEGATIVE_POW, 2},
    {"PowByNatural", CR__FIXED, CR_SYM_POW, 2},
    {"FloatPow", CR__SPECIAL, CR__FLOAT_POW, 2},
    {"FloorDiv", CR__FIXED, CR_SYM_FLOORDIV, 2},
    {"CleanDiv", CR__SPECIAL, CR__CLEAN_DIV, 2},
    {"CeilDiv", CR__FIXED, CR_SYM_CEILDIV, 2},
    {"TruncDiv", CR__FIXED, CR_SYM_TRUNCDIV, 2},
    {"Mod", CR__FIXED, CR_SYM_MOD, 2},
    {"PythonMod", CR__FIXED, CR_SYM_MOD, 2},
    {"CMod", CR__FIXED, CR_SYM_CMOD, 2},
    {"Min", CR__LIST, CR_SYM_MIN, -1},
    {"Max", CR__LIST, CR_SYM_MAX, -1},
    {"Abs", CR__FIXED, CR_SYM_ABS, 1},
    {"BitwiseFn_bitwise_and", CR__FIXED, CR_SYM_BITAND, 2},
    {"BitwiseFn_bitwise_or", CR__FIXED, CR_SYM_BITOR, 2},
    {"BitwiseFn_bitwise_xor", CR__SPECIAL, CR__XOR, 2},
    {"IntTrueDiv", CR__SPECIAL, CR__INT_DIV, 2},
    {"FloatTrueDiv", CR__SPECIAL, CR__FLOAT_DIV, 2},
    {"ToFloat", CR__FIXED, CR_SYM_TOFLOAT, 1},
    {"FloorToInt", CR__SPECIAL, CR__FLOOR_OF, 1},
    {"CeilToInt", CR__SPECIAL, CR__CEILING_OF, 1},
    {"TruncToInt", CR__FIXED, CR_SYM_TRUNC, 1},
    {"TruncToFloat", CR__SPECIAL, CR__TRUNC_TO_FLOAT, 1},
    {"RoundToInt", CR__FIXED, CR_SYM_ROUND, 1},
    {"floor", CR__SPECIAL, CR__FLOOR_OF, 1},
    {"ceiling", CR__SPECIAL, CR__CEILING_OF, 1},
    {"OpaqueUnaryFn_sqrt", CR__FIXED, CR_SYM_SQRT, 1},
    {"sqrt", CR__FIXED, CR_SYM_SQRT, 1},
    {"Where", CR__FIXED, CR_SYM_WHERE, 3},
    {"Eq", CR__COMPARE, CR_EQ, 2},
    {"Ne", CR__COMPARE, CR_NE, 2},
    {"Lt", CR__COMPARE, CR_LT, 2},
    {"Le", CR__COMPARE, CR_LE, 2},
    {"Gt", CR__COMPARE, CR_GT, 2},
    {"Ge", CR__COMPARE, CR_GE, 2},
    {"Equality", CR__COMPARE, CR_EQ, 2},
    {"Unequality", CR__COMPARE, CR_NE, 2},
    {"StrictLessThan", CR__COMPARE, CR_LT, 2},
    {"LessThan", CR__COMPARE, CR_LE, 2},
    {"StrictGreaterThan", CR__COMPARE, CR_GT, 2},
    {"GreaterThan", CR__COMPARE, CR_GE, 2},
    {"And", CR__JUNCTION, CR_SYM_AND, -1},
    {"Or", CR__JUNCTION, CR_SYM_OR, -1},
    {"Not", CR__FIXED, CR_SYM_NOT, 1},
    {"ModularIndexing", CR__SPECIAL, CR__MODULAR_INDEXING, 3},
    {"LShift", CR__SPECIAL, CR__LSHIFT, 2},
    {"RShift", CR__SPECIAL, CR__RSHIFT, 2},
    {"Identity", CR__SPECIAL, CR__IDENTITY, 1},
};

const cr__function *cr__function_find(const char *name, size_t length) {
    for (size_t i = 0; i < CR_COUNT(functions); i++)
        if (strncmp(functions[i].name, name, length) == 0 && functions[i].name[length] == 0) return &functions[i];
    return NULL;
}

bool cr__reserved_name(const char *name) {
    static const char *const words[] = {"and", "or", "not", "True", "False", "true", "false", "oo", "nan"};
    for (size_t i = 0; i < CR_COUNT(words); i++)
        if (strcmp(words[i], name) == 0) return true;
    return false;
}

const char *cr__type_name(cr_sym_type type) {
    return type == CR_TYPE_INT ? "int" : type == CR_TYPE_FLOAT ? "float" : "bool";
}

/* Not negative because of what the text itself states: symbols declared so, and sums and products of them. */
static bool stated_nonnegative(cr_sym e) {
    if (e->kind == CR_SYM_INTEGER) return e->constant >= 0;
    if (e->kind == CR_SYM_SYMBOL) return e->type == CR_TYPE_INT && e->u.symbol->declared_lo >= 0;
    if (e->type != CR_TYPE_INT || (e->kind == CR_SYM_ADD && e->constant < 0)) return false;
    if (e->kind != CR_SYM_ADD && e->kind != CR_SYM_MUL && e->kind != CR_SYM_FLOORDIV && e->kind != CR_SYM_MOD)
        return false;
    for (size_t i = 0; i < e->n; i++)
        if (cr_sym_coefficient(e, i) < 0 || !stated_nonnegative(e->operand[i])) return false;
    return true;
}

const char *cr__name_of(cr_sym e) {
    static const char *const names[] = {
        [CR_SYM_ADD] = "Add",
        [CR_SYM_MUL] = "Mul",
        [CR_SYM_FLOORDIV] = "FloorDiv",
        [CR_SYM_TRUNCDIV] = "TruncDiv",
        [CR_SYM_CMOD] = "CMod",
        [CR_SYM_MIN] = "Min",
        [CR_SYM_MAX] = "Max",
        [CR_SYM_ABS] = "Abs",
        [CR_SYM_TOFLOAT] = "ToFloat",
        [CR_SYM_FLOOR] = "FloorToInt",
        [CR_SYM_CEIL] = "CeilToInt",
        [CR_SYM_TRUNC] = "TruncToInt",
        [CR_SYM_ROUND] = "RoundToInt",
        [CR_SYM_SQRT] = "OpaqueUnaryFn_sqrt",
        [CR_SYM_WHERE] = "Where",
        [CR_SYM_EQ] = "Equality",
        [CR_SYM_NE] = "Unequality",
        [CR_SYM_LT] = "StrictLessThan",
        [CR_SYM_LE] = "LessThan",
        [CR_SYM_AND] = "And",
        [CR_SYM_OR] = "Or",
        [CR_SYM_NOT] = "Not",
        [CR_SYM_CEILDIV] = "CeilDiv",
        [CR_SYM_BITAND] = "BitwiseFn_bitwise_and",
        [CR_SYM_BITOR] = "BitwiseFn_bitwise_or",
    };
    bool real = e->type == CR_TYPE_FLOAT;
    if (e->kind == CR_SYM_POW) return real ? "FloatPow" : "PowByNatural";
    if (e->kind == CR_SYM_TRUEDIV) return e->operand[0]->type == CR_TYPE_INT ? "IntTrueDiv" : "FloatTrueDiv";
    /* PyTorch's Mod is for numbers that are not negative, PythonMod for all. */
    if (e->kind == CR_SYM_MOD)
        return !real && stated_nonnegative(e->operand[0]) && stated_nonnegative(e->operand[1]) ? "Mod" : "PythonMod";
    return names[e->kind];
}

/* program_text.h: a small exported program as PyTorch writes it, for the tests to load, break and run.
 *
 *     n += k                                   -- a buffer written in place
 *     return {"y": (x @ w.T + b) * scale + n, "rows": len(x), "none": None, "three": 3}     -- len(x) is s0 in [2, 64]
 *
 * In the texts ' stands for a quote and ` for a quote inside a string. */
#ifndef PROGRAM_TEXT_H
#define PROGRAM_TEXT_H

#include <stdlib.h>
#include <string.h>

#define META(dtype, sizes, strides) "{'dtype': " #dtype ", 'sizes': [" sizes \
    "], 'requires_grad': false, 'device': {'type': 'cpu', 'index': null}, 'strides': [" strides \
    "], 'storage_offset': {'as_int': 0}, 'layout': 7}"
#define I(n) "{'as_int': " #n "}"
#define S0 "{'as_expr': {'expr_str': 'Symbol(\\u0027s0\\u0027, positive=True, integer=True)', 'hint': {'as_int': 4}}}"
#define T(name) "{'as_tensor': {'name': '" name "'}}"
#define LEAF "{`type`: null, `context`: null, `children_spec`: []}"
#define TUPLE(children) "{`type`: `builtins.tuple`, `context`: `null`, `children_spec`: [" children "]}"
#define DICT(keys, children) "{`type`: `builtins.dict`, `context`: `[" keys "]`, `children_spec`: [" children "]}"
#define IN(name, arg) "{'name': '" name "', 'arg': " arg ", 'kind': 1}"
#define NODE(target, inputs, outputs, name) "{'target': '" target "', 'inputs': [" inputs "], 'outputs': [" outputs \
    "], 'metadata': {'stack_trace': '  File `model.py`, line 12, in forward\\n    return " name \
    "', 'nn_module_stack': 'L__self__,,M'}, 'name': '" name "'}"

static const char program_graph[] =
    "{'inputs': [" T("p_w") ", " T("p_b") ", " T("b_n") ", " T("c_k") ", " T("x") ", {'as_float': 2.0}],"
    " 'outputs': [" T("add") ", {'as_sym_int': {'as_name': 'sym_size_int'}}, {'as_none': true}, {'as_int': 3}],"
    " 'nodes': ["
    NODE("torch.ops.aten.sym_size.int", IN("self", T("x")) ", " IN("dim", "{'as_int': 0}"),
         "{'as_sym_int': {'as_name': 'sym_size_int'}}", "sym_size_int") ", "
    NODE("torch.ops.aten.linear.default", IN("input", T("x")) ", " IN("weight", T("p_w")) ", " IN("bias", T("p_b")),
         T("linear"), "linear") ", "
    NODE("torch.ops.aten.mul.Tensor", IN("self", T("linear")) ", " IN("other", "{'as_float': 2.0}"), T("mul"), "mul")
    ", "
    NODE("torch.ops.aten.add_.Tensor", IN("self", T("b_n")) ", " IN("other", T("c_k")), T("add_"), "add_") ", "
    NODE("torch.ops.aten.add.Tensor", IN("self", T("mul")) ", " IN("other", T("b_n")), T("add"), "add") "],"
    " 'tensor_values': {'p_w': " META(7, I(3) ", " I(2), I(2) ", " I(1)) ", 'p_b': " META(7, I(3), I(1)) ", 'b_n': "
    META(7, I(3), I(1)) ", 'c_k': " META(7, I(3), I(1))
    ", 'x': " META(7, S0 ", " I(2), I(2) ", " I(1)) ", 'linear': " META(7, S0 ", " I(3), I(3) ", " I(1)) ", 'mul': "
    META(7, S0 ", " I(3), I(3) ", " I(1))
    ", 'add_': " META(7, I(3), I(1)) ", 'add': " META(7, S0 ", " I(3), I(3) ", " I(1)) "},"
    " 'sym_int_values': {'sym_size_int': " S0
    "}, 'sym_bool_values': {}, 'sym_float_values': {}, 'custom_obj_values': {}, 'is_single_tensor_return': false}";

static const char program_head[] = "{'graph_module': {'graph': ";
static const char program_tail[] =
    ", 'signature': {'input_specs': [{'parameter': {'arg': {'name': 'p_w'}, 'parameter_name': 'w'}}, {'parameter': "
    "{'arg': {'name': 'p_b'}, 'parameter_name': 'b'}},"
    " {'buffer': {'arg': {'name': 'b_n'}, 'buffer_name': 'n', 'persistent': true}}, {'tensor_constant': {'arg': "
    "{'name': 'c_k'}, 'tensor_constant_name': 'k'}},"
    " {'user_input': {'arg': " T("x") "}}, {'constant_input': {'name': 'scale', 'value': {'as_float': 2.0}}}],"
    " 'output_specs': [{'user_output': {'arg': " T("add")
    "}}, {'user_output': {'arg': {'as_sym_int': {'as_name': 'sym_size_int'}}}},"
    " {'user_output': {'arg': {'as_none': true}}}, {'user_output': {'arg': {'as_int': 3}}}]},"
    " 'module_call_graph': [{'fqn': '', 'signature': {'inputs': [], 'outputs': [],"
    " 'in_spec': '[1, " TUPLE(TUPLE(DICT("\\\\`x\\\\`", LEAF)) ", " DICT("\\\\`scale\\\\`", LEAF)) "]',"
    " 'out_spec': '[1, " DICT("\\\\`y\\\\`, \\\\`rows\\\\`, \\\\`none\\\\`, \\\\`three\\\\`", LEAF ", " LEAF ", "
    LEAF ", " LEAF) "]',"
    " 'forward_arg_names': ['d', 'scale']}}, {'fqn': 'inner', 'signature': null}], 'metadata': {}, "
    "'treespec_namedtuple_fields': {}},"
    " 'opset_version': {'aten': 10}, 'range_constraints': {'s0': {'min_val': 2, 'max_val': 64}}, 'schema_version': "
    "{'major': 8, 'minor': 20},"
    " 'verifiers': ['TRAINING'], 'torch_version': '2.13.0', 'guards_code': "
    "['L[\\u0027d\\u0027][\\u0027x\\u0027].size()[0] != 7']}";

#define ENTRY(path, param, meta) "{'path_name': '" path "', 'is_param': " #param \
    ", 'use_pickle': false, 'tensor_meta': " meta "}"
static const char weights_text[] = "{'config': {'w': " ENTRY("weight_0", true,
    META(7, I(3) ", " I(2), I(2) ", " I(1))) ", 'b': " ENTRY("weight_1", true, META(7, I(3), I(1)))
                                   ", 'n': " ENTRY("weight_2", false, META(7, I(3), I(1))) "}}";
static const char constants_text[] = "{'config': {'k': " ENTRY("tensor_0", false, META(7, I(3), I(1))) "}}";
static const float weight_data[6] = { 1, 2, 3, 4, 5, 6 }, bias_data[3] = { 10, 20, 30 }, buffer_data[3] = { 0, 0, 0 },
                   constant_data[3] = { 100, 200, 300 };

/* JSON of such a text: a fresh string. */
static inline char *as_json(const char *text) {
    char *out = malloc(2 * strlen(text) + 1), *to = out;
    for (; *text; text++) {
        if (*text == '`') *to++ = '\\', *to++ = '"';
        else *to++ = *text == '\'' ? '"' : *text;
    }
    *to = 0;
    return out;
}

/* The text with the first occurrence of `from` replaced; NULL when it does not occur. */
static inline char *replaced(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    if (!at) return NULL;
    size_t before = (size_t)(at - text), n = strlen(to), after = strlen(at + strlen(from));
    char *out = malloc(before + n + after + 1);
    memcpy(out, text, before);
    memcpy(out + before, to, n);
    memcpy(out + before + n, at + strlen(from), after + 1);
    return out;
}

static inline char *program_json(void) {
    char *text = malloc(sizeof program_head + sizeof program_graph + sizeof program_tail);
    strcpy(text, program_head);
    strcat(text, program_graph);
    strcat(text, program_tail);
    return text; /* still with ' and ` */
}

#endif

/* Archives that no writer makes: one row each, with the class and the words of the error. Every row is loaded with the
 * whole program otherwise sound, and again with every allocation counted: nothing stays behind. */
#include "check.h"
#include "export/program.h"
#include "program_text.h"
#include "zip_maker.h"

typedef enum where { PROGRAM, WEIGHTS, CONSTANTS } where; /* whose text is changed */

typedef struct row { where where; const char *from, *to; cr_status code; const char *part; } row;

#define F CR_EFORMAT
#define U CR_EUNSUPPORTED
static const row rows[] = {
    /* the shape of the JSON */
    { PROGRAM, "{'graph_module'", "['graph_module'", F, "model.json" },
    { PROGRAM, "{'graph_module': {", "{'module': {", F, "'graph_module' is missing" },
    { PROGRAM, "'graph': {", "'graph': 3, 'other': {", F, "'graph' is " },
    { PROGRAM, "'nodes': [", "'nodes': {}, 'other': [", F, "graph: 'nodes' is an object, expected an array" },
    { PROGRAM, "'tensor_values': {", "'tensors': {", F, "'tensor_values' is missing" },
    { PROGRAM, "'tensor_values': {", "'tensor_values': [], 'tensors': {", F,
      "'tensor_values' is an array, expected an object" },
    { PROGRAM, "'sym_int_values': {'sym_size_int'", "'sym_int_values': {'other'", F,
      "'sym_size_int' is not in the graph's sym_int_values" },
    { PROGRAM, "'sym_bool_values': {}", "'sym_bool_values': {'x': {'as_bool': true}}", F,
      "'x' is listed in another table, too" },
    { PROGRAM, "'sym_bool_values': {}", "'sym_bool_values': []", F, "'sym_bool_values' is an array" },
    { PROGRAM, "'inputs': [" T("p_w"), "'inputs': [3, " T("p_w"), F, "graph: inputs[0]" },
    { PROGRAM, "'signature': {'input_specs'", "'signatures': {'input_specs'", F, "'signature' is missing" },
    { PROGRAM, "'input_specs': [", "'input_specs': {}, 'x': [", F, "'input_specs' is an object" },
    { PROGRAM, "'output_specs': [", "'output_specs': null, 'x': [", F, "'output_specs' is null" },
    { PROGRAM, "'module_call_graph': [", "'module_call_graph': 'none', 'x': [", F, "'module_call_graph' is a string" },
    { PROGRAM, "'module_call_graph': [{", "'module_call_graph': [], 'x': [{", F, "module_call_graph: the first entry" },
    { PROGRAM, "'range_constraints': {", "'ranges': {", F, "'range_constraints' is missing" },
    { PROGRAM, "'guards_code': [", "'guards_code': [3, ", F, "guards_code[0] is " },
    { PROGRAM, "'verifiers': ['TRAINING']", "'verifiers': {}", F, "'verifiers' is an object" },
    /* versions */
    { PROGRAM, "'major': 8", "'major': 9", U, "major version 9, this reader knows 8" },
    { PROGRAM, "'major': 8", "'major': '8'", F, "'major' is a string" },
    { PROGRAM, "'minor': 20", "'minor': null", F, "'minor'" },
    { PROGRAM, "'schema_version': {", "'schema': {", F, "'schema_version' is missing" },
    /* nodes */
    { PROGRAM, "'nodes': [", "'nodes': [3, ", F, "nodes[0]" },
    { PROGRAM, "'target': 'torch.ops.aten.linear.default'", "'target': 5", F, "nodes[1] (?): 'target' is " },
    { PROGRAM, "'inputs': [" IN("self", T("x")), "'in': [" IN("self", T("x")), F,
      "nodes[0] (torch.ops.aten.sym_size.int): 'inputs' is missing" },
    { PROGRAM, "'outputs': [" T("linear") "]", "'outs': [" T("linear") "]", F,
      "nodes[1] (torch.ops.aten.linear.default): 'outputs' is missing" },
    { PROGRAM, "'outputs': [" T("linear") "]", "'outputs': []", F, "outputs: 0 results, the op gives 1" },
    { PROGRAM, "'outputs': [" T("linear") "]", "'outputs': [" T("linear") ", " T("mul") "]", F,
      "outputs: 2 results, the op gives 1" },
    { PROGRAM, "'outputs': [" T("linear") "]", "'outputs': [{'as_tensors': []}]", F,
      "outputs[0]: 0 values where the op gives one" },
    { PROGRAM, "'outputs': [" T("linear") "]", "'outputs': [{'as_tensors': {}}]", F,
      "outputs[0]: an object found, expected a list" },
    { PROGRAM, "'outputs': [" T("linear") "]", "'outputs': [{'as_graph': {}}]", F,
      "outputs[0]: 'as_graph' is no kind of result" },
    { PROGRAM, "'outputs': [" T("linear") "]", "'outputs': [{'as_tensor': {'name': 7}}]", F, "'name' is " },
    { PROGRAM, "'outputs': [" T("linear") "]", "'outputs': [" T("x") "]", F, "outputs[0]: 'x' is defined twice" },
    { PROGRAM, "'outputs': [" T("linear") "]", "'outputs': [" T("nowhere") "]", F,
      "outputs[0]: 'nowhere' is not in the graph's tensor_values" },
    { PROGRAM, "'outputs': [" T("linear") "]", "'outputs': [{'as_sym_int': {'as_name': 'linear'}}]", F,
      "'linear' is not in the graph's sym_int_values" },
    { PROGRAM, IN("weight", T("p_w")), IN("weight", T("add")), F,
      "inputs[1] ('weight'): as_tensor: 'add' is used before it is defined" },
    { PROGRAM, IN("weight", T("p_w")), IN("weight", T("linear")), F, "'linear' is used before it is defined" },
    { PROGRAM, IN("weight", T("p_w")), IN("weight", T("p_v")), F, "'p_v' is not in the graph's tensor_values" },
    { PROGRAM, IN("weight", T("p_w")), IN("waits", T("p_w")), F, "inputs[1] ('waits'): the op has no such argument" },
    { PROGRAM, IN("weight", T("p_w")), IN("input", T("p_w")), F, "argument 'input' is given twice" },
    { PROGRAM, IN("weight", T("p_w")), IN("bias", T("p_w")), F, "argument 'bias' is given twice" },
    { PROGRAM, IN("weight", T("p_w")), IN("weight", "{'as_string': 'w'}"), F, "argument 'weight'" },
    { PROGRAM, IN("weight", T("p_w")), IN("weight", "{'as_none': true}"), F, "argument 'weight'" },
    { PROGRAM, IN("weight", T("p_w")), IN("weight", "{'as_thing': 3}"), F, "'as_thing' is no kind of argument" },
    { PROGRAM, IN("weight", T("p_w")), IN("weight", "{}"), F, "inputs[1] ('weight')" },
    { PROGRAM, IN("weight", T("p_w")), IN("weight", "{'as_int': 3, 'as_float': 3}"), F, "inputs[1] ('weight')" },
    { PROGRAM, IN("weight", T("p_w")), IN("weight", "3"), F, "'arg' is " },
    { PROGRAM, IN("weight", T("p_w")) ", ", "", F, "argument 'weight' is missing" },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_int': 1.5}"), F, "as_int: " },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_int': -9223372036854775807}"), F, "as_int: " },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_bool': 1}"), F, "as_bool: " },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_string': 1}"), F, "as_string: " },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_ints': 1}"), F, "as_ints: " },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_float': 'one'}"), F, "as_float: " },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_scalar_type': 14}"), F, "as_scalar_type: 14 is no dtype" },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_scalar_type': 'f'}"), F, "as_scalar_type: " },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_memory_format': 9}"), F, "9 is no memory format" },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_layout': 8}"), F, "8 is no layout" },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_layout': 2}"), U, "only strided tensors" },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_device': {'type': 'moon'}}"), U, "device 'moon'" },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_device': {'type': 'cuda', 'index': 1000}}"), F,
      "1000 is no index" },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_complex': {'real': 1}}"), F, "needs 'real' and 'imag'" },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_custom_obj': {'name': 'o', 'class_fqn': 'a.B'}}"), U,
      "'o' is a script object of class 'a.B'" },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_sym_int': {'as_name': 'x'}}"), F,
      "'x' is not in the graph's sym_int_values" },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_sym_int': {'as_expr': 'x'}}"), F,
      "expected 'as_name' or 'as_int'" },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_optional_tensor': {'as_int': 1}}"), F,
      "expected 'as_tensor' or 'as_none'" },
    { PROGRAM, IN("dim", "{'as_int': 0}"), IN("dim", "{'as_graph': {'name': 'g'}}"), F,
      "as_graph: 'graph' is missing" },
    { PROGRAM, IN("dim", "{'as_int': 0}"),
      IN("dim", "{'as_graph': {'name': 'g', 'graph': {'inputs': [], 'outputs': [" T("x") "], 'nodes': [], "
                                                                                         "'tensor_values': {}}}}"),
      F, "graph 'g': outputs[0]" },
    { PROGRAM, "'kind': 1", "'kind': 4", F, "4 is no kind of argument" },
    { PROGRAM, "torch.ops.aten.mul.Tensor", "torch.ops.higher_order.call_torchbind", U, "script object" },
    { PROGRAM, "torch.ops.aten.mul.Tensor", "torch.ops.higher_order.with_effects", F, "inputs[1]" },
    { PROGRAM, "'outputs': [" T("add") ", ", "'outputs': [" T("sub") ", ", F,
      "graph: outputs[0]: as_tensor: 'sub' is not" },
    { PROGRAM, "'outputs': [" T("add") ", ", "'outputs': [" T("x") ", ", F,
      "signature.output_specs[0]: it names 'add', the graph's output there is 'x'" },
    { PROGRAM, "'outputs': [" T("add") ", ", "'outputs': [{'as_int': 1}, ", F,
      "signature.output_specs[0]: it names 'add'" },
    { PROGRAM, "'outputs': [" T("add") ", ", "'outputs': [", F, "4 specs for 3 outputs" },
    /* metas and sizes */
    { PROGRAM, "'x': {'dtype': 7", "'x': {'dtype': 0", F, "tensor_values['x']: 0 is no dtype" },
    { PROGRAM, "'x': {'dtype': 7", "'x': {'dtype': 99", F, "99 is no dtype" },
    { PROGRAM, "'x': {'dtype': 7", "'x': {'dtype': 'f32'", F, "'dtype' is a string" },
    { PROGRAM, "'x': {'dtype': 7", "'x': {'type': 7", F, "tensor_values['x']: 'dtype' is missing" },
    { PROGRAM, "'x': {'dtype': 7, 'sizes': [", "'x': {'dtype': 7, 'sizes': [" I(1) ", ", F, "3 sizes and 2 strides" },
    { PROGRAM, "'x': {'dtype': 7, 'sizes': [", "'x': {'dtype': 7, 'sizes': [" I(-1) ", ", F,
      "sizes[0]: -1 is negative" },
    { PROGRAM, "'x': {'dtype': 7, 'sizes': [", "'x': {'dtype': 7, 'sizes': [{'as_float': 1.0}, ", F,
      "sizes[0]: 'as_float' found" },
    { PROGRAM, "'x': {'dtype': 7, 'sizes': [", "'x': {'dtype': 7, 'sizes': [3, ", F, "sizes[0]" },
    { PROGRAM, "'x': {'dtype': 7, 'sizes': [", "'x': {'dtype': 7, 'size': [", F, "'sizes' is missing" },
    { PROGRAM, "'x': {'dtype': 7, 'sizes': [",
      "'x': {'dtype': 7, 'sizes': [" I(1) "," I(1) "," I(1) "," I(1) "," I(1) "," I(1) "," I(1) "," I(1) "," I(1) "," I(
          1) "," I(1) "," I(1) "," I(1) "," I(1) "," I(1) "," I(1) "," I(1) ",",
      U, "19 dimensions" },
    { PROGRAM, "'x': {", "'x': 3, 'y': {", F, "tensor_values['x']: a tensor's meta is " },
    { PROGRAM, "'range_constraints': {'s0'", "'range_constraints': {'s1'", F, "expected a symbol that is known here" },
    { PROGRAM, "'min_val': 2", "'min_val': 65", F, "range_constraints['s0']: min_val 65 is above max_val 64" },
    { PROGRAM, "'min_val': 2", "'min_val': 'two'", F, "range_constraints['s0']: 'min_val' is a string" },
    { PROGRAM, "'range_constraints': {'s0': {", "'range_constraints': {'s0': 3, 's9': {", F,
      "range_constraints['s0']: a range is " },
    { PROGRAM, "'range_constraints': {'s0': {", "'range_constraints': {'2*t': {'min_val': 1, 'max_val': 3}, 's0': {", F,
      "range_constraints['2*t']" },
    { PROGRAM, "Symbol(\\u0027s0\\u0027, positive=True, integer=True)", "Symbol(", F, "tensor_values['x']: sizes[0]" },
    { PROGRAM, "Symbol(\\u0027s0\\u0027, positive=True, integer=True)",
      "LessThan(Symbol(\\u0027s0\\u0027), Integer(3))", F, "another type than the field" },
    { PROGRAM, "'expr_str': 'Symbol(\\u0027s0\\u0027, positive=True, integer=True)'", "'expr': 's0'", F,
      "'expr_str' is missing" },
    { PROGRAM, "'hint': {'as_int': 4}", "'hint': 4", F, "sizes[0]" },
    { PROGRAM, "'device': {'type': 'cpu', 'index': null}", "'device': 'cpu'", F, "'device' is a string" },
    { PROGRAM, "'storage_offset': {'as_int': 0}", "'storage_offset': {'as_int': -4}", F,
      "storage_offset: -4 is negative" },
    { PROGRAM, "'layout': 7}", "'layout': 1}", U, "only strided tensors" },
    /* the signature */
    { PROGRAM, "{'parameter': {'arg': {'name': 'p_w'}", "{'parameter': {'arg': {'name': 'p_v'}", F,
      "input_specs[0]: it names 'p_v', the graph's input there is 'p_w'" },
    { PROGRAM, "{'parameter': {'arg': {'name': 'p_w'}", "{'param': {'arg': {'name': 'p_w'}", F,
      "input_specs[0]: 'param' is no kind of input" },
    { PROGRAM, "{'parameter': {'arg': {'name': 'p_w'}", "{'parameter': {'arg': 'p_w'", F, "'arg' is a string" },
    { PROGRAM, "'parameter_name': 'w'", "'name': 'w'", F, "input_specs[0]: 'parameter_name' is missing" },
    { PROGRAM, "'parameter_name': 'w'", "'parameter_name': 'v'", F, "the archive has no tensor for parameter 'v'" },
    { PROGRAM, "'parameter_name': 'w'", "'parameter_name': 'b'", F,
      "parameter 'b' is f32[3](1)@cpu, the graph's input 'p_w' is f32[3, 2](2, 1)@cpu" },
    { PROGRAM, "'buffer_name': 'n'", "'buffer_name': 'm'", F, "no tensor for buffer 'm'" },
    { PROGRAM, "'tensor_constant_name': 'k'", "'tensor_constant_name': 'j'", F, "no tensor for constant 'j'" },
    { PROGRAM, "'persistent': true", "'persistent': 'yes'", F, "'persistent' is a string" },
    { PROGRAM, "{'tensor_constant': {'arg': {'name': 'c_k'}, 'tensor_constant_name'",
      "{'custom_obj': {'arg': {'name': 'c_k'}, 'custom_obj_name'", U, "'k' is a script object" },
    { PROGRAM, "{'user_input': {'arg': " T("x") "}}, ", "", F, "5 specs for 6 inputs" },
    { PROGRAM, "{'user_input': {'arg': " T("x") "}}", "{'user_input': {'arg': {'as_custom_obj': {'name': 'x'}}}}", U,
      "'x' is a script object" },
    { PROGRAM, "{'user_input': {'arg': " T("x") "}}", "{'user_input': {'arg': {'as_ints': [1]}}}", F,
      "'as_ints' is no kind of input" },
    { PROGRAM, "'value': {'as_float': 2.0}", "'value': {'as_graph': 2.0}", F,
      "input_specs[5]: 'as_graph' is no constant" },
    { PROGRAM, "'output_specs': [{'user_output'", "'output_specs': [{'user_result'", F,
      "output_specs[0]: 'user_result' is no kind of output" },
    { PROGRAM, "'output_specs': [{'user_output': {'arg': " T("add") "}}",
      "'output_specs': [{'buffer_mutation': {'arg': {'name': 'add'}, 'buffer_name': 'w'}}", F,
      "output_specs[0]: no buffer is named 'w'" },
    { PROGRAM, "'output_specs': [{'user_output': {'arg': " T("add") "}}",
      "'output_specs': [{'parameter_mutation': {'arg': {'name': 'add'}, 'parameter_name': 'n'}}", F,
      "no parameter is named 'n'" },
    { PROGRAM, "'output_specs': [{'user_output': {'arg': " T("add") "}}",
      "'output_specs': [{'user_input_mutation': {'arg': {'name': 'add'}, 'user_input_name': 'y'}}", F,
      "no user input is named 'y'" },
    { PROGRAM, "{'user_output': {'arg': {'as_none': true}}}, ", "", F, "3 specs for 4 outputs" },
    { PROGRAM, "{'user_output': {'arg': {'as_sym_int': {'as_name': 'sym_size_int'}}}}",
      "{'user_output': {'arg': {'as_int': 3}}}", F, "output_specs[1]: it is a constant" },
    /* call structure */
    { PROGRAM, "'in_spec': '[1, ", "'in_spec': '[2, ", U, "module_call_graph[0]: in_spec" },
    { PROGRAM, "'in_spec': '", "'in_spec': '[", F, "module_call_graph[0]: in_spec" },
    { PROGRAM, "'in_spec': '", "'in': '", F, "'in_spec' is missing" },
    { PROGRAM, TUPLE(DICT("\\\\`x\\\\`", LEAF)), TUPLE(LEAF ", " LEAF), F, "in_spec: 3 leaves for 2 user inputs" },
    { PROGRAM, LEAF ", " LEAF ", " LEAF ", " LEAF, LEAF ", " LEAF ", " LEAF, F, "out_spec" },
    { PROGRAM, "'forward_arg_names': ['d', 'scale']", "'forward_arg_names': ['d', 4]", F, "forward_arg_names[1] is " },
    { PROGRAM, "'forward_arg_names': ['d', 'scale']", "'forward_arg_names': 'd'", F,
      "'forward_arg_names' is a string" },
    { PROGRAM, "{'fqn': 'inner', 'signature': null}", "{'fqn': 'inner', 'signature': 3}", F,
      "module_call_graph[1]: 'signature' is " },
    { PROGRAM, "{'fqn': 'inner', 'signature': null}", "{'name': 'inner'}", F,
      "module_call_graph[1]: 'fqn' is missing" },
    /* weights */
    { WEIGHTS, "{'config': {", "{'configs': {", F, "model_weights_config.json: 'config' is missing" },
    { WEIGHTS, "{'config': {", "{'config': [{", F, "model_weights_config.json" },
    { WEIGHTS, "'w': {", "'w': 3, 'v': {", F, "config['w']: an entry is " },
    { WEIGHTS, "'path_name': 'weight_0'", "'path_name': 'weight_9'", F,
      "config['w']: member 'data/weights/weight_9' is missing" },
    { WEIGHTS, "'path_name': 'weight_0'", "'path': 'weight_0'", F, "'path_name' is missing" },
    { WEIGHTS, "'path_name': 'weight_0'", "'path_name': 'custom_obj_0'", U, "script object" },
    { WEIGHTS, "'use_pickle': false", "'use_pickle': true", F, "weight_0" },
    { WEIGHTS, "'use_pickle': false", "'use_pickle': 0", F, "'use_pickle' is " },
    { WEIGHTS, "'tensor_meta': {", "'meta': {", F, "'tensor_meta' is missing" },
    { WEIGHTS, "'dtype': 7, 'sizes': [" I(3), "'dtype': 7, 'sizes': [" I(4), F, "reaches beyond the 24 bytes" },
    { WEIGHTS, "'dtype': 7, 'sizes': [" I(3), "'dtype': 8, 'sizes': [" I(3), F, "reaches beyond the 24 bytes" },
    { WEIGHTS, "'dtype': 7, 'sizes': [" I(3), "'dtype': 7, 'sizes': [" I(4611686018427387904), F, "reaches beyond" },
    { WEIGHTS, "'dtype': 7, 'sizes': [" I(3), "'dtype': 7, 'sizes': [" I(2), F, "parameter 'w' is f32[2, 2]" },
    { WEIGHTS, "'dtype': 7, 'sizes': [" I(3), "'dtype': 4, 'sizes': [" I(3), F, "parameter 'w' is i32[3, 2]" },
    { WEIGHTS, "'dtype': 7, 'sizes': [" I(3), "'dtype': 7, 'sizes': [" S0, F, "dimension 0 is symbolic" },
    { WEIGHTS, "'storage_offset': {'as_int': 0}", "'storage_offset': {'as_int': 1}", F, "reaches beyond the 24 bytes" },
    { WEIGHTS, "'n': {", "'k': {", F, "'k' is both a weight and a constant" },
    { WEIGHTS, "'n': {", "'nn': {", F, "no tensor for buffer 'n'" },
    { CONSTANTS, "{'config': {", "{'c': {", F, "model_constants_config.json: 'config' is missing" },
    { CONSTANTS, "'path_name': 'tensor_0'", "'path_name': '../x'", F, "member 'data/constants/../x' is missing" },
};

static maker build(const row *r, char *texts[3]) {
    char *program = program_json();
    const char *plain[] = { program, weights_text, constants_text };
    for (int i = 0; i < 3; i++) {
        char *changed = r && (int)r->where == i ? replaced(plain[i], r->from, r->to) : NULL;
        if (r && (int)r->where == i && !changed) CHECK_FAILED("'%s' does not occur", r->from);
        texts[i] = as_json(changed ? changed : plain[i]);
        free(changed);
    }
    free(program);
    maker_entry entries[] = {
        { "m/models/model.json", texts[0], strlen(texts[0]), 0 },
        { "m/data/weights/model_weights_config.json", texts[1], strlen(texts[1]), 0 },
        { "m/data/weights/weight_0", (const char *)weight_data, sizeof weight_data, 0 },
        { "m/data/weights/weight_1", (const char *)bias_data, sizeof bias_data, 0 },
        { "m/data/weights/weight_2", (const char *)buffer_data, sizeof buffer_data, 0 },
        { "m/data/constants/model_constants_config.json", texts[2], strlen(texts[2]), 0 },
        { "m/data/constants/tensor_0", (const char *)constant_data, sizeof constant_data, 0 },
    };
    return maker_build(entries, CR_COUNT(entries), false, "");
}

static cr_status load(const maker *m, const char *name, cr_program **out) {
    cr_zip *zip = NULL;
    CR_TRY(cr_zip_open_memory(m->at, m->n, NULL, &zip));
    cr_status status = cr_program_load_zip(zip, name, 0, out);
    cr_zip_release(zip);
    return status;
}

static void bad_rows(void) {
    for (size_t i = 0; i < CR_COUNT(rows); i++) {
        char *texts[3];
        cr_program *p = NULL;
        maker m = build(&rows[i], texts);
        cr_error_release(cr_error_take());
        int64_t live = cr_alloc_live();
        cr_status status = load(&m, NULL, &p);
        if (status != rows[i].code || !strstr(cr_error_message(), rows[i].part))
            CHECK_FAILED("row %zu: '%s' for '%s' gave %s: %s\n  expected: %s", i, rows[i].to, rows[i].from,
                         cr_status_name(status), status ? cr_error_message() : "", rows[i].part);
        else check_count(true);
        if (!status) cr_program_release(p);
        cr_error_release(cr_error_take());
        CHECK_EQ(cr_alloc_live(), live);
        for (int k = 0; k < 3; k++) free(texts[k]);
        free(m.at);
    }
}

/* ---- containers ---- */

static void check_container(const maker_entry *entries, size_t n, const char *name, cr_status code, const char *part) {
    maker m = maker_build(entries, n, false, "");
    cr_program *p = NULL;
    CHECK_ERROR(load(&m, name, &p), code, part);
    free(m.at);
}

static void bad_containers(void) {
    char *texts[3];
    maker good = build(NULL, texts);
    free(good.at);
    maker_entry program = { "m/models/model.json", texts[0], strlen(texts[0]), 0 };
    check_container((maker_entry[]){ { "m/readme", "hi", 2, 0 } }, 1, NULL, F, "holds no exported program");
    check_container((maker_entry[]){ { "m/data/aotinductor/model/x.so", "hi", 2, 0 } }, 1, NULL, U, "AOTInductor");
    check_container((maker_entry[]){ program, { "m/byteorder", "big", 3, 0 } }, 2, NULL, U, "'big'-endian");
    check_container((maker_entry[]){ program, { "m/archive_format", "zip", 3, 0 } }, 2, NULL, F,
                    "archive_format: it is 'zip'");
    check_container((maker_entry[]){ program, { "m/archive_version", "1", 1, 0 } }, 2, NULL, U,
                    "archive_version: it is '1'");
    check_container((maker_entry[]){ program }, 1, "other", CR_ENOTFOUND, "no program 'other'; it has 'model'");
    check_container((maker_entry[]){ program }, 1, NULL, F, "the archive has no tensor for parameter 'w'");
    check_container((maker_entry[]){ { "m/models/a.json", "{}", 2, 0 }, { "m/models/b.json", "{}", 2, 0 } }, 2, NULL,
                    CR_ENOTFOUND, "no program 'model'; it has 'a', 'b'");
    check_container((maker_entry[]){ { "m/models/a.json", "{}", 2, 0 }, { "m/models/b.json", "{}", 2, 0 } }, 2, "b", F,
                    "m/models/b.json: 'schema_version' is missing");
    check_container((maker_entry[]){ { "m/models/model.json", "{]", 2, 0 } }, 1, NULL, F, "m/models/model.json");
    check_container((maker_entry[]){ { "m/models/model.json", "", 0, 0 } }, 1, NULL, F, "m/models/model.json");
    check_container((maker_entry[]){ { "m/models/model.json", "[]", 2, 0 } }, 1, NULL, F, "the program is an array");
    check_container((maker_entry[]){ { "serialized_exported_program.json", texts[0], strlen(texts[0]), 0 } }, 1, NULL,
                    F, "no tensor for parameter 'w'");
    check_container((maker_entry[]){ { "serialized_exported_program.json", texts[0], strlen(texts[0]), 0 },
                                     { "serialized_state_dict.pt", "xyz", 3, 0 } },
                    2, NULL, F, "serialized_state_dict.pt");
    check_container((maker_entry[]){ { "serialized_exported_program.json", texts[0], strlen(texts[0]), 0 },
                                     { "serialized_state_dict.json", "{'a': 1}", 8, 0 } },
                    2, NULL, F, "serialized_state_dict.json");
    for (int k = 0; k < 3; k++) free(texts[k]);
}

/* Every prefix of the text: one error each, nothing kept. */
static void truncated(void) {
    char *texts[3];
    maker good = build(NULL, texts);
    cr_program *p = NULL;
    CHECK_OK(load(&good, NULL, &p));
    cr_program_release(p);
    free(good.at);
    for (size_t n = 0; n < strlen(texts[0]); n += 41) {
        maker_entry entry = { "m/models/model.json", texts[0], n, 0 };
        maker m = maker_build(&entry, 1, false, "");
        CHECK_ERROR(load(&m, NULL, &p), CR_EFORMAT, "m/models/model.json");
        free(m.at);
    }
    for (int k = 0; k < 3; k++) free(texts[k]);
}

int main(void) {
    RUN(truncated);
    RUN(bad_rows);
    RUN(bad_containers);
    return check_summary();
}

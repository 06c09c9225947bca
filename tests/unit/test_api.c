/* test_api.c: the C API from outside: only its headers, on the digits archive. */
#include "check.h"
#include "cresset/cresset.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static const char archive[] = "examples/digits/digits.pt2", images[] = "examples/digits/images.npy";

static cr_program *load(void) {
    cr_program *p = NULL;
    CHECK_OK(cr_program_load(archive, NULL, 0, &p));
    return p;
}

static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    char *data = malloc(*size);
    rewind(file);
    CHECK_EQ(fread(data, 1, *size, file), *size);
    fclose(file);
    return data;
}

/* A file in a folder of this process's own, which is removed at the end. */
static const char *scratch(const char *name) {
    static char folder[64], path[128];
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/cresset_api_XXXXXX");
        CHECK(mkdtemp(folder) != NULL);
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void remove_scratch(void) {
    static const char *const names[] = { "a.npy",   "a.npz",     "a.safetensors", "s.safetensors",
                                         "one.pt2", "again.pt2", "x.so" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(scratch(names[i]));
    char *folder = strdup(scratch(""));
    rmdir(folder);
    free(folder);
}

/* ---- tensors ---- */

static void count_dispose(void *user, void *data) {
    (void)data;
    ++*(int *)user;
}

static void tensors(void) {
    const int64_t size[] = { 2, 3 }, columns[] = { 1, 2 }, none[] = { 0, 3 }, negative[] = { -1 };
    const int64_t huge[] = { INT64_MAX, 2 };
    float data[] = { 0, 1, 2, 3, 4, 5.5f };
    int64_t whole[6];
    int disposed = 0;
    cr_tensor *t = NULL, *u = NULL;
    CHECK_OK(cr_tensor_wrap(CR_F32, 2, size, columns, data, count_dispose, &disposed, &t));
    CHECK(!cr_tensor_is_contiguous(t) && cr_tensor_data(t) == data);
    CHECK_OK(cr_tensor_read(t, CR_I64, whole, sizeof whole)); /* [[0, 2, 4], [1, 3, 5]] */
    CHECK(whole[1] == 2 && whole[3] == 1 && whole[5] == 5);
    CHECK_EQ(cr_tensor_read(t, CR_I64, whole, sizeof whole - 1), CR_EVALUE);
    CHECK_OK(cr_tensor_empty(CR_F64, 2, size, &u));
    CHECK_OK(cr_tensor_copy(u, t));
    CHECK_FLOAT(((const double *)cr_tensor_data(u))[5], 5.5);
    CHECK_OK(cr_tensor_write(u, CR_I64, whole, sizeof whole));
    CHECK_FLOAT(((const double *)cr_tensor_data(u))[3], 1);
    CHECK_EQ(cr_tensor_write(u, CR_I64, whole, sizeof whole + 8), CR_EVALUE);
    cr_tensor_retain(t);
    cr_tensor_release(t);
    CHECK_EQ(disposed, 0);
    cr_tensor_release(t);
    CHECK_EQ(disposed, 1);
    cr_tensor_release(u);
    CHECK_OK(cr_tensor_from(CR_F32, 2, none, NULL, &t));
    CHECK(cr_tensor_numel(t) == 0 && !cr_tensor_data(t));
    CHECK_OK(cr_tensor_read(t, CR_F32, NULL, 0));
    cr_tensor_release(t);
    CHECK_EQ(cr_tensor_wrap(CR_F32, 2, size, negative, data, count_dispose, &disposed, &t), CR_ERUNTIME);
    CHECK_EQ(cr_tensor_wrap(CR_F32, 2, size, NULL, NULL, NULL, NULL, &t), CR_EVALUE);
    CHECK_EQ(disposed, 1);
    CHECK_EQ(cr_tensor_empty(CR_F32, 1, negative, &t), CR_ERUNTIME);
    CHECK_EQ(cr_tensor_empty(CR_F32, 2, huge, &t), CR_ERUNTIME);
    CHECK_EQ(cr_tensor_empty(CR_F32, 17, none, &t), CR_ERUNTIME);
    CHECK_EQ(cr_tensor_empty(99, 2, size, &t), CR_ETYPE);
    CHECK_OK(cr_tensor_fake(CR_F32, 2, size, &t));
    CHECK(!cr_tensor_has_data(t) && !cr_tensor_edit(t));
    CHECK_EQ(cr_tensor_read(t, CR_F32, whole, sizeof whole), CR_ERUNTIME);
    cr_tensor_release(t);
    CHECK_EQ(cr_dtype_size(CR_C128), 16);
    CHECK_EQ(cr_dtype_size(-1), 0);
}

static void arrays(void) {
    static const char *const files[] = { "a.npz", "a.safetensors" };
    const int64_t size[] = { 3 };
    const float data[] = { 1, 2, 3.5f };
    const char *names[] = { "half", "number" };
    cr_tensor *t = NULL, *back = NULL;
    cr_arrays *a = NULL;
    size_t i = 9;
    float read[3];
    CHECK_OK(cr_tensor_empty(CR_BF16, 1, size, &t));
    CHECK_OK(cr_tensor_write(t, CR_F32, data, sizeof data));
    cr_arg values[] = { cr_arg_tensor(t), cr_arg_float(0.25) };
    for (size_t k = 0; k < 2; k++) {
        CHECK_OK(cr_arrays_write(scratch(files[k]), CR_ARRAYS_BY_NAME, names, values, 2));
        CHECK_OK(cr_arrays_open(scratch(files[k]), &a));
        CHECK_EQ(cr_arrays_count(a), 2);
        CHECK(cr_arrays_find(a, "half", &i) && !cr_arrays_find(a, "none", &i));
        CHECK_OK(cr_arrays_get(a, i, &back));
        CHECK_EQ(cr_tensor_dtype(back), k ? CR_BF16 : CR_F32); /* NumPy has none */
        CHECK_OK(cr_tensor_read(back, CR_F32, read, sizeof read));
        CHECK_FLOAT(read[2], 3.5);
        CHECK_EQ(cr_arrays_get(a, 2, &back), CR_EINDEX);
        CHECK(cr_arrays_name(a, 2) == NULL);
        cr_tensor_release(back);
        cr_arrays_release(a);
    }
    CHECK_EQ(cr_arrays_write(scratch("a.npy"), CR_ARRAYS_BY_NAME, names, values, 2), CR_EVALUE);
    CHECK_OK(cr_arrays_write(scratch("a.npy"), CR_ARRAYS_BY_NAME, names, values, 1));
    CHECK_EQ(cr_arrays_write(scratch("a.txt"), CR_ARRAYS_BY_NAME, names, values, 1), CR_EVALUE);
    CHECK_EQ(cr_arrays_open(scratch("a.txt"), &a), CR_EVALUE);
    CHECK_EQ(cr_arrays_open(scratch("none.npz"), &a), CR_EIO);
    values[1] = cr_arg_str("text");
    CHECK_EQ(cr_arrays_write(scratch("a.npz"), CR_ARRAYS_BY_NAME, names, values, 2), CR_EUNSUPPORTED);
    cr_tensor_release(t);
}

/* ---- programs ---- */

/* The first digit that a program sees in the images. */
static int64_t first_digit(cr_program *p, cr_library *library) {
    cr_signature *s = NULL;
    cr_inputs *in = NULL;
    cr_module *m = NULL;
    cr_native *native = NULL;
    const cr_arg *args = NULL;
    cr_arg out[2];
    size_t n = 0;
    int64_t digit = -1;
    CHECK_OK(library ? cr_library_signature(library, 0, &s) : cr_program_signature(p, &s));
    CHECK_OK(cr_inputs_create(s, &in));
    CHECK_OK(cr_inputs_set_file(in, "image", images));
    CHECK_OK(cr_inputs_args(in, &args, &n));
    if (library) {
        CHECK_OK(cr_native_create(library, 1, NULL, &native));
        CHECK_OK(cr_native_run(native, 0, args, n, out, 2));
    } else {
        CHECK_OK(cr_module_create(p, CR_MODULE_OWN_STATE, &m));
        CHECK_OK(cr_module_run(m, args, n, out, 2));
    }
    digit = *(const int64_t *)cr_tensor_data(out[0].u.t);
    cr_results_release(out, 2);
    cr_native_release(native);
    cr_module_release(m);
    cr_inputs_release(in);
    cr_signature_release(s);
    return digit;
}

static void from_memory(void) {
    size_t size;
    char *data = read_file(archive, &size);
    cr_program *p = NULL, *of_archive = NULL;
    cr_archive *a = NULL;
    CHECK_OK(cr_program_load_memory(data, size, NULL, CR_LOAD_CHECK, &p));
    CHECK_OK(cr_archive_open_memory(data, size, &a));
    CHECK_EQ(cr_archive_size(a), size);
    CHECK_EQ(cr_archive_program_count(a), 1);
    CHECK_STR(cr_archive_program_name(a, 0), "model");
    CHECK(cr_archive_program_name(a, 1) == NULL);
    CHECK_EQ(cr_program_load_from(a, "none", 0, &of_archive), CR_ENOTFOUND);
    CHECK_OK(cr_program_load_from(a, "model", 0, &of_archive));
    memset(data, 0, size); /* what was loaded does not look at it any more */
    free(data);
    cr_archive_release(a);
    CHECK_EQ(first_digit(p, NULL), 5);
    CHECK_EQ(first_digit(of_archive, NULL), 5);
    CHECK_EQ(cr_program_load_memory("PK", 2, NULL, 0, &p), CR_EFORMAT);
    CHECK_EQ(cr_program_load_memory("", 0, NULL, 0, &p), CR_EFORMAT);
    cr_program_release(p);
    cr_program_release(of_archive);
}

static cr_status stop_writing(void *user, uint64_t bytes) {
    (void)user, (void)bytes;
    return CR_FAIL(CR_ERUNTIME, "stopped");
}

static void saving(void) {
    cr_program *p = load(), *again = NULL;
    cr_archive *a = NULL;
    void *data = NULL;
    size_t size = 0;
    const struct cr_extra_file extra = { "notes.txt", "hello", 5 };
    cr_save_options options = { .struct_size = sizeof options, .extra = &extra, .nextra = 1 };
    CHECK_OK(cr_program_save(p, scratch("one.pt2"), &options));
    CHECK_OK(cr_archive_open(scratch("one.pt2"), &a));
    CHECK_EQ(cr_archive_extra_count(a), 1);
    CHECK_STR(cr_archive_extra_name(a, 0), "notes.txt");
    CHECK_OK(cr_archive_extra(a, "notes.txt", &data, &size));
    CHECK(size == 5 && !strcmp(data, "hello"));
    CHECK_EQ(cr_archive_extra(a, "none", &data, &size), CR_ENOTFOUND);
    CHECK_EQ(cr_archive_package_count(a), 0);
    cr_free(data);
    cr_archive_release(a);
    options.struct_size = 0; /* forgotten */
    CHECK_EQ(cr_program_save(p, scratch("one.pt2"), &options), CR_EVALUE);
    CHECK_CONTAINS(cr_error_message(), "cr_save_options");
    options.struct_size = 2 * sizeof(size_t); /* an older program's: it knows no extra files */
    CHECK_OK(cr_program_save(p, scratch("one.pt2"), &options));
    CHECK_OK(cr_archive_open(scratch("one.pt2"), &a));
    CHECK_EQ(cr_archive_extra_count(a), 0);
    cr_archive_release(a);
    cr_str bytes = { 0 };
    CHECK_OK(cr_program_save_to(p, cr_str_sink(&bytes), NULL));
    CHECK_OK(cr_program_load_memory(bytes.at, bytes.n, NULL, CR_LOAD_CHECK, &again));
    cr_str_dispose(&bytes);
    CHECK_EQ(first_digit(again, NULL), 5);
    cr_program_release(again);
    CHECK_EQ(cr_program_save_again(p, scratch("again.pt2"), stop_writing, NULL), CR_ERUNTIME);
    CHECK(access(scratch("again.pt2"), F_OK) != 0);
    CHECK_OK(cr_program_save_again(p, scratch("again.pt2"), NULL, NULL));
    CHECK_OK(cr_program_load(scratch("again.pt2"), NULL, CR_LOAD_CHECK, &again));
    CHECK_EQ(first_digit(again, NULL), 5);
    cr_program_release(again);
    cr_program_release(p);
}

static void weights(void) {
    cr_program *p = load(), *other = load();
    const cr_named_tensor *first = cr_program_state(p, 0);
    float before, after = 0;
    CHECK_EQ(cr_program_state_count(p), 18);
    CHECK(cr_program_state(p, 18) == NULL && cr_program_tensor(p, "none") == NULL);
    CHECK(cr_program_tensor(p, first->name) == first->tensor);
    float *data = cr_tensor_edit(first->tensor);
    before = data[0];
    data[0] = 77;
    CHECK_OK(cr_program_save_state(p, scratch("s.safetensors")));
    CHECK_OK(cr_program_load_state(other, scratch("s.safetensors")));
    after = *(const float *)cr_tensor_data(cr_program_state(other, 0)->tensor);
    CHECK(before != 77 && after == 77);
    cr_arg one = cr_arg_int(1);
    const char *name = "none";
    CHECK_OK(cr_arrays_write(scratch("s.safetensors"), CR_ARRAYS_BY_NAME, &name, &one, 1));
    CHECK_EQ(cr_program_load_state(other, scratch("s.safetensors")), CR_ENOTFOUND);
    cr_program_release(p);
    cr_program_release(other);
}

static void looking(void) {
    cr_program *p = NULL;
    cr_op_uses *ops = NULL;
    int major = 0, minor = 0;
    CHECK_OK(cr_program_load(archive, NULL, CR_LOAD_META, &p));
    CHECK_STR(cr_program_name(p), "model");
    CHECK_STR(cr_program_dialect(p), "TRAINING");
    cr_program_schema_version(p, &major, &minor);
    CHECK(major == 8 && minor == 20);
    CHECK_OK(cr_program_ops(p, &ops));
    CHECK_EQ(cr_op_uses_count(ops), 11);
    CHECK_STR(cr_op_uses_at(ops, 0)->name, "aten::relu");
    CHECK(cr_op_uses_at(ops, 0)->count == 3 && cr_op_uses_at(ops, 0)->is_known && cr_op_uses_at(ops, 11) == NULL);
    CHECK_EQ(cr_graph_result_count(cr_program_graph(p)), 2);
    CHECK(cr_graph_input_count(cr_program_graph(p)) > 12);
    cr_op_uses_free(ops);
    cr_program_release(p);
}

/* ---- inputs ---- */

static void inputs(void) {
    cr_program *p = load();
    cr_signature *s = NULL;
    cr_inputs *in = NULL;
    const cr_arg *args;
    cr_tensor *t = NULL;
    size_t n;
    CHECK_OK(cr_program_signature(p, &s));
    CHECK_OK(cr_inputs_create(s, &in));
    CHECK_EQ(cr_inputs_args(in, &args, &n), CR_ENOTFOUND);
    CHECK_CONTAINS(cr_error_message(), "missing input 'image' (float32 [s40, 8, 8] with s40 0 to 1024)");
    cr_arg three = cr_arg_int(3), list = cr_arg_list(&three, 1);
    CHECK_EQ(cr_inputs_set(in, "imagine", &three), CR_ENOTFOUND);
    CHECK_EQ(cr_inputs_set(in, "image", &list), CR_ETYPE);
    CHECK_OK(cr_inputs_set(in, "image", &three));
    CHECK_EQ(cr_inputs_args(in, &args, &n), CR_EVALUE);
    const struct { int dtype, rank; int64_t size[4]; const char *message; } wrong[] = {
        { CR_F64, 3, { 2, 8, 8 }, "found float64 [2, 8, 8]: the dtype differs" },
        { CR_F32, 2, { 8, 8 }, "it has 2 dimensions, not 3" },
        { CR_F32, 3, { 2, 8, 7 }, "dimension 2 is 7, not 8" },
        { CR_F32, 3, { 2000, 8, 8 }, "dimension 0 is 2000, outside its range" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_OK(cr_tensor_empty(wrong[i].dtype, wrong[i].rank, wrong[i].size, &t));
        cr_arg value = cr_arg_tensor(t);
        CHECK_OK(cr_inputs_set(in, "image", &value));
        cr_tensor_release(t); /* the inputs have a reference of their own */
        CHECK_EQ(cr_inputs_args(in, &args, &n), CR_EVALUE);
        CHECK_CONTAINS(cr_error_message(), wrong[i].message);
    }
    CHECK_OK(cr_inputs_set_random(in, p, 3));
    CHECK_OK(cr_inputs_args(in, &args, &n));
    CHECK(n == 1 && args[0].kind == CR_ARG_TENSOR);
    CHECK_EQ(cr_inputs_set_npz(in, archive), CR_EFORMAT);
    CHECK_EQ(cr_inputs_set_file(in, "image", scratch("none.npy")), CR_EIO);
    CHECK_OK(cr_inputs_args(in, &args, &n)); /* a failed set has changed nothing */
    CHECK_EQ(cr_inputs_set_example(in, p), cr_program_has_example(p) ? CR_OK : CR_EVALUE);
    cr_inputs_release(in);
    cr_signature_release(s);
    cr_program_release(p);
}

/* ---- compiling ---- */

typedef struct watcher { int passes, written; bool stop; } watcher;

static cr_status watch(void *user, const cr_progress *progress) {
    watcher *w = user;
    CHECK(progress->struct_size >= sizeof(cr_progress));
    if (progress->stage == CR_STAGE_PASS) w->passes++;
    if (progress->stage == CR_STAGE_PASS) CHECK(cr_graph_node_count(progress->graph) > 0);
    if (progress->stage == CR_STAGE_WRITE) w->written++;
    return w->stop && w->passes == 3 ? CR_FAIL(CR_ERUNTIME, "stopped by the user") : CR_OK;
}

static void compiling(void) {
    cr_program *p = load();
    cr_library *library = NULL;
    watcher w = { .stop = true };
    cr_compile_options options = { .struct_size = sizeof options, .progress = watch, .user = &w };
    cr_compiled out = { .struct_size = sizeof out };
    void *data = NULL;
    size_t size = 0;
    CHECK_EQ(cr_compile(&p, 1, scratch("x.so"), &options, NULL), CR_ERUNTIME);
    CHECK_CONTAINS(cr_error_message(), "stopped by the user");
    CHECK(w.passes == 3 && access(scratch("x.so"), F_OK) != 0);
    w = (watcher){ .stop = false };
    CHECK_OK(cr_compile(&p, 1, NULL, &options, &out)); /* the passes alone */
    CHECK(w.passes > 10 && w.written == 0 && out.methods == 1 && out.steps > 3 && out.file_bytes == 0);
    CHECK_EQ(cr_compile(&p, 1, scratch("x.exe"), NULL, NULL), CR_EVALUE);
    CHECK_EQ(cr_compile(&p, 0, scratch("x.so"), NULL, NULL), CR_EVALUE);
    CHECK_EQ(cr_compile_memory(&p, 1, ".exe", NULL, &data, &size), CR_EVALUE);
    options.target = "none";
    CHECK_EQ(cr_compile(&p, 1, scratch("x.so"), &options, NULL), CR_EVALUE);
    CHECK_OK(cr_compile_memory(&p, 1, ".c", NULL, &data, &size));
    CHECK(size > 1000 && strstr(data, "cresset_model"));
    cr_free(data);
    CHECK_OK(cr_compile_load(&p, 1, NULL, &library));
    CHECK_EQ(first_digit(p, library), 5);
    cr_native *native = NULL;
    const cresset_state_info *state = cr_library_api(library)->state;
    CHECK_OK(cr_native_create(library, 1, NULL, &native));
    CHECK_EQ(cr_native_get_state(native, "none", &size, sizeof size), CR_EVALUE);
    for (int32_t i = 0; i < cr_library_api(library)->nstate; i++) {
        cr_tensor *t = cr_program_tensor(p, state[i].name);
        size_t room = (size_t)(cr_tensor_numel(t) * cr_dtype_size(state[i].dtype));
        char *copy = cr_alloc(room);
        CHECK_OK(cr_native_get_state(native, state[i].name, copy, room));
        CHECK(!memcmp(copy, cr_tensor_data(t), room));
        cr_free(copy);
    }
    cr_native_release(native);
    cr_str report = { 0 };
    CHECK_OK(cr_compile_verify(p, library, 0, NULL, &report));
    CHECK_CONTAINS(cr_str_get(&report), "largest error");
    cr_str_dispose(&report);
    CHECK_EQ(cr_library_signature(library, 1, &(cr_signature *){ NULL }), CR_EINDEX);
    cr_library_release(library);
    cr_program_release(p);
    CHECK_STR(cr_target_at(0), "multi");
    CHECK_STR(cr_isa_at(0), "portable");
    size_t n = 0;
    while (cr_isa_at(n)) n++;
    CHECK(n >= 1 && cr_target_at(2) == NULL);
}

/* ---- graphs and ops ---- */

static void graphs(void) {
    cr_graph *g = NULL, *made = NULL;
    CHECK_EQ(cr_graph_parse(NULL, "graph(%x: f32[2]) { return %y }", &g), CR_EFORMAT);
    CHECK_OK(cr_graph_parse(NULL, "graph(%x: f32[2]) { %y: f32[2] = aten.neg(%x) return %y, %x }", &g));
    CHECK(cr_graph_input_count(g) == 1 && cr_graph_result_count(g) == 2 && cr_graph_node_count(g) == 3);
    CHECK_EQ(cr_graph_apply(g, "none", &made), CR_ENOTFOUND);
    CHECK_CONTAINS(cr_error_message(), "there is no pass 'none'; there are ");
    for (size_t i = 0; cr_pass_at(i); i++) {
        CHECK(cr_pass_find(cr_pass_name(cr_pass_at(i))) != NULL && cr_pass_letter(cr_pass_at(i)) > ' ');
        CHECK_OK(cr_graph_apply(g, cr_pass_name(cr_pass_at(i)), &made));
        CHECK_OK(cr_graph_verify(made, CR_VERIFY_METAS));
        cr_graph_release(made);
    }
    cr_graph_release(g);
    const char *writes = "graph(%x: f32[2]) { %y = aten.neg(%x) %z = aten.relu_(%y) return %z }";
    CHECK_OK(cr_graph_parse(NULL, writes, &g));
    CHECK_EQ(cr_graph_apply(g, "fuse", &made), CR_EVALUE); /* it would read what is written later */
    CHECK_CONTAINS(cr_error_message(), "pass fuse: the graph is not 'settled'");
    CHECK_CONTAINS(cr_error_message(), "; apply decompose, functionalize first");
    CHECK_OK(cr_graph_apply(g, "functionalize", &made));
    cr_graph_release(g);
    CHECK_OK(cr_graph_apply(made, "fuse", &g));
    cr_graph_release(made);
    cr_graph_release(g);
}

static void operators(void) {
    const int64_t size[] = { 2, 3 };
    const float data[] = { 1, 2, 3, 4, 5, 6 };
    cr_tensor *t = NULL;
    cr_arg out[2];
    CHECK(cr_op_count() > 500 && cr_op_find("aten::none") == NULL);
    CHECK_STR(cr_op_schema(cr_op_find("aten.relu.default")), "aten::relu(Tensor self) -> Tensor");
    CHECK_STR(cr_op_name(cr_op_find("aten.relu.default")), "aten::relu");
    CHECK_EQ(cr_op_result_count(cr_op_find("aten::max.dim")), 2);
    CHECK_OK(cr_tensor_from(CR_F32, 2, size, data, &t));
    cr_arg args[] = { cr_arg_tensor(t), cr_arg_int(1) };
    CHECK_EQ(cr_op_call("aten::none", args, 1, NULL, 0, CR_CALL_REAL, out, 1), CR_ENOTFOUND);
    CHECK_EQ(cr_op_call("aten::max", args, 2, NULL, 0, CR_CALL_REAL, out, 1), CR_EVALUE);
    CHECK_EQ(cr_op_call("aten::max.dim", args, 0, NULL, 0, CR_CALL_REAL, out, 2), CR_ETYPE);
    CHECK_OK(cr_op_call("aten::max", args, 2, NULL, 0, CR_CALL_REAL, out, 2)); /* the overload with a dimension */
    CHECK_FLOAT(((const float *)cr_tensor_data(out[0].u.t))[1], 6);
    cr_results_release(out, 2);
    cr_keyword keep = { "keepdim", cr_arg_bool(true) };
    CHECK_OK(cr_op_call("aten::max.dim", args, 2, &keep, 1, CR_CALL_FAKE, out, 2));
    CHECK(!cr_tensor_has_data(out[0].u.t) && cr_tensor_sizes(out[0].u.t)[1] == 1);
    cr_results_release(out, 2);
    CHECK_OK(cr_op_call("aten::neg", args, 1, NULL, 0, CR_CALL_REAL, out, 1)); /* the mode went with the call */
    CHECK(cr_tensor_has_data(out[0].u.t));
    cr_results_release(out, 1);
    CHECK_OK(cr_op_call("aten::nonzero", args, 1, NULL, 0, CR_CALL_FAKE, out, 1)); /* nobody can know how many */
    CHECK(cr_tensor_sizes(out[0].u.t)[0] < 0 && cr_tensor_sizes(out[0].u.t)[1] == 2);
    CHECK_EQ(cr_tensor_numel(out[0].u.t), -1);
    cr_arg unknown = out[0];
    CHECK_OK(cr_op_call("aten::neg", &unknown, 1, NULL, 0, CR_CALL_REAL, out, 1));
    CHECK(cr_tensor_sizes(out[0].u.t)[0] == cr_tensor_sizes(unknown.u.t)[0]);
    cr_results_release(&unknown, 1);
    cr_results_release(out, 1);
    cr_tensor_release(t);
    CHECK_OK(cr_tensor_fake(CR_F32, 0, NULL, &t));
    args[0] = cr_arg_tensor(t);
    CHECK_EQ(cr_op_call("aten::item", args, 1, NULL, 0, CR_CALL_REAL, out, 1), CR_EDATADEP);
    cr_tensor_release(t);
}

/* ---- files ---- */

typedef struct findings { int facts, problems; uint64_t bytes; char last[512]; } findings;

static void find(void *user, int kind, const char *what, const char *text) {
    findings *f = user;
    (void)what;
    if (kind == CR_CHECK_PROBLEM) f->problems++;
    else f->facts++;
    snprintf(f->last, sizeof f->last, "%s", text);
}

static void advance(void *user, uint64_t bytes, uint64_t total) {
    findings *f = user;
    CHECK(bytes > f->bytes || bytes <= total);
    f->bytes = bytes;
}

static void checking(void) {
    findings f = { 0 };
    cr_check_options options = { sizeof options, find, advance, &f };
    size_t size;
    CHECK_OK(cr_check_file(archive, &options));
    CHECK(f.problems == 0 && f.facts == 3 && f.bytes > 1000);
    CHECK_CONTAINS(f.last, "sound and ready to run");
    f = (findings){ 0 };
    char *data = read_file(archive, &size);
    data[size / 2] ^= 1; /* inside some weight */
    FILE *file = fopen(scratch("one.pt2"), "wb");
    CHECK_EQ(fwrite(data, 1, size, file), size);
    fclose(file);
    free(data);
    CHECK_OK(cr_check_file(scratch("one.pt2"), &options));
    CHECK(f.problems >= 1);
    f = (findings){ 0 };
    CHECK_OK(cr_check_file(images, &options));
    CHECK(f.facts == 1 && !f.problems);
    CHECK_EQ(cr_check_file(scratch("none.pt2"), &options), CR_EIO);
    options.struct_size = 0;
    CHECK_EQ(cr_check_file(images, &options), CR_EVALUE);
}

/* ---- threads ---- */

typedef struct shared { cr_program *program; cr_library *library; cr_signature *signature; } shared;

/* Describes, feeds, runs and compiles what the others are using, too. */
static void *use_all(void *user) {
    shared *s = user;
    cr_library *mine = NULL;
    cr_inputs *in = NULL;
    const cr_arg *args;
    size_t n;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(cr_inputs_create(s->signature, &in));
        CHECK_OK(cr_inputs_set_random(in, NULL, (uint64_t)i));
        CHECK_OK(cr_inputs_args(in, &args, &n));
        cr_inputs_release(in);
        CHECK_EQ(first_digit(s->program, NULL), 5);
        CHECK_EQ(first_digit(s->program, s->library), 5);
    }
    CHECK_OK(cr_compile_load(&s->program, 1, NULL, &mine));
    CHECK_EQ(first_digit(s->program, mine), 5);
    cr_library_release(mine);
    return NULL;
}

static void threads(void) {
    shared s = { .program = load() };
    pthread_t all[4];
    CHECK_OK(cr_compile_load(&s.program, 1, NULL, &s.library));
    CHECK_OK(cr_library_signature(s.library, 0, &s.signature));
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_create(&all[i], NULL, use_all, &s), 0);
    for (int i = 0; i < 4; i++) pthread_join(all[i], NULL);
    cr_signature_release(s.signature);
    cr_library_release(s.library);
    cr_program_release(s.program);
}

/* Whichever request for memory fails: the status says so, and nothing stays behind. */
static cr_status describe_and_feed(void) {
    cr_program *p = NULL;
    cr_signature *s = NULL;
    cr_inputs *in = NULL;
    cr_op_uses *ops = NULL;
    const cr_arg *args;
    size_t n;
    cr_status status = cr_program_load(archive, NULL, 0, &p);
    if (!status) status = cr_program_signature(p, &s);
    if (!status) status = cr_program_ops(p, &ops);
    if (!status) status = cr_inputs_create(s, &in);
    if (!status) status = cr_inputs_set_file(in, "image", images);
    if (!status) status = cr_inputs_args(in, &args, &n);
    cr_op_uses_free(ops);
    cr_inputs_release(in);
    cr_signature_release(s);
    cr_program_release(p);
    cr_error_release(cr_error_take()); /* is memory, too */
    return status;
}

static void out_of_memory(void) {
    CHECK_OK(describe_and_feed());
    int64_t live = cr_alloc_live(), before = cr_alloc_count();
    CHECK_OK(describe_and_feed());
    int64_t requests = cr_alloc_count() - before, step = requests / 200 + 1;
#ifdef CR_OOM
    step = 1;
#endif
    for (int64_t i = 1; i <= requests; i += step) {
        cr_alloc_fail_at(i);
        cr_status status = describe_and_feed();
        cr_alloc_fail_at(0);
        CHECK(status == CR_ENOMEM || status == CR_OK); /* some requests only save time */
        CHECK_EQ(cr_alloc_live(), live);
    }
}

int main(void) {
    RUN(tensors);
    RUN(arrays);
    RUN(from_memory);
    RUN(saving);
    RUN(weights);
    RUN(looking);
    RUN(inputs);
    RUN(compiling);
    RUN(graphs);
    RUN(operators);
    RUN(checking);
    RUN(threads);
    RUN(out_of_memory);
    remove_scratch();
    return check_summary();
}

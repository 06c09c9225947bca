/* digits.c: an exported network from C: loads it, prints its signature, runs it, compiles it and runs the library.
 *
 *     cc digits.c $(pkg-config --cflags --libs cresset) -o digits && ./digits digits.pt2 images.npy ./libdigits.so */
#include <cresset/cresset.h>

#include <stdio.h>

static int fail(void) { return fprintf(stderr, "digits: %s\n", cr_error_message()), 1; }

static void print_slot(const char *what, const cr_slot *slot) {
    printf("%s %s: %s [", what, slot->name, slot->type);
    for (int i = 0; i < slot->rank; i++) printf("%s%s", i ? ", " : "", slot->dims[i].text);
    printf("], %s\n", slot->path);
}

static void print_digits(const char *how, const cr_tensor *digits) {
    const int64_t *at = cr_tensor_data(digits);
    printf("%s:", how);
    for (int i = 0; i < 10; i++) printf(" %d", (int)at[i]);
    printf(" ... of %d\n", (int)cr_tensor_numel(digits));
}

static cr_status tell(void *user, const cr_progress *progress) { /* anything but CR_OK would stop it */
    if (progress->stage == CR_STAGE_PASS) ++*(int *)user;
    return CR_OK;
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "usage: digits ARCHIVE.pt2 IMAGES.npy LIBRARY.so\n"), 2;
    cr_program *program;
    cr_signature *signature;
    cr_inputs *inputs;
    cr_module *module;
    cr_library *library;
    cr_native *native;
    const cr_arg *args;
    cr_arg results[2];
    size_t n;
    int passes = 0;
    cr_compile_options options = { .struct_size = sizeof options, .progress = tell, .user = &passes };
    if (cr_program_load(argv[1], NULL, 0, &program) || cr_program_signature(program, &signature)) return fail();
    for (size_t i = 0; cr_signature_input(signature, i); i++) print_slot("input", cr_signature_input(signature, i));
    for (size_t i = 0; cr_signature_output(signature, i); i++) print_slot("output", cr_signature_output(signature, i));
    if (cr_inputs_create(signature, &inputs) || cr_inputs_set_file(inputs, "image", argv[2])) return fail();
    if (cr_inputs_args(inputs, &args, &n) || cr_module_create(program, CR_MODULE_SHARED, &module)) return fail();
    if (cr_module_run(module, args, n, results, 2)) return fail();
    print_digits("interpreted", results[0].u.t);
    cr_results_release(results, 2);
    if (cr_compile(&program, 1, argv[3], &options, NULL) || cr_library_open(argv[3], &library)) return fail();
    if (cr_native_create(library, 0, NULL, &native) || cr_native_run(native, 0, args, n, results, 2)) return fail();
    print_digits("compiled", results[0].u.t);
    cr_results_release(results, 2);
    printf("%d passes\n", passes);
    cr_native_release(native), cr_library_release(library), cr_module_release(module);
    cr_inputs_release(inputs), cr_signature_release(signature), cr_program_release(program);
    return 0;
}

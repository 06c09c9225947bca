/* bench_peers.c: the same archive in other hands: PyTorch three ways, ONNX Runtime, OpenVINO, at their default
 * settings.
 *
 * One Python process holds them all and is asked to make calls between ours, so that everybody meets the same moods of
 * the machine. It reads "I N" lines (peer I, N calls) and answers with the seconds of one call; it ends when its input
 * does. */
#define _GNU_SOURCE
#include "cli/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

const char *const peer_names[] = { "torch", "torch.compile", "aotinductor", "onnxruntime", "openvino", NULL };

static const char script[] =
    "import os, sys, time, warnings\n"
    "warnings.simplefilter('ignore')\n"
    "answers = os.fdopen(os.dup(1), 'w', buffering=1)\n"
    "os.dup2(2, 1)\n" /* what libraries print is no answer */
    "path, threads, names = sys.argv[1], int(sys.argv[2]), sys.argv[3].split(',')\n"
    "def exported():\n"
    "    import torch\n"
    "    torch.set_num_threads(threads)\n"
    "    ep = torch.export.load(path)\n"
    "    if ep.example_inputs is None:\n"
    "        raise RuntimeError('the archive holds no example inputs')\n"
    "    return torch, ep, *ep.example_inputs\n"
    "def eager():\n"
    "    torch, ep, args, kwargs = exported()\n"
    "    module = ep.module()\n"
    "    return lambda: module(*args, **kwargs)\n"
    "def compiled():\n"
    "    torch, ep, args, kwargs = exported()\n"
    "    function = torch.compile(ep.module())\n"
    "    return lambda: function(*args, **kwargs)\n"
    "def inductor():\n"
    "    torch, ep, args, kwargs = exported()\n"
    "    import torch._inductor, tempfile\n"
    "    with tempfile.TemporaryDirectory() as folder:\n"
    "        package = torch._inductor.aoti_compile_and_package(ep, package_path=os.path.join(folder, 'm.pt2'))\n"
    "        function = torch._inductor.aoti_load_package(package)\n"
    "    return lambda: function(*args, **kwargs)\n"
    "def onnx(folder):\n"
    "    torch, ep, args, kwargs = exported()\n"
    "    file = os.path.join(folder, 'm.onnx')\n"
    "    torch.onnx.export(ep, (), file, dynamo=True, external_data=False, verbose=False)\n"
    "    leaves = torch.utils._pytree.tree_leaves((args, kwargs))\n"
    "    return file, [leaf.detach().numpy() for leaf in leaves if isinstance(leaf, torch.Tensor)]\n"
    "def onnxruntime():\n"
    "    import onnxruntime, tempfile\n"
    "    options = onnxruntime.SessionOptions()\n"
    "    options.intra_op_num_threads = threads\n"
    "    with tempfile.TemporaryDirectory() as folder:\n"
    "        file, arrays = onnx(folder)\n"
    "        session = onnxruntime.InferenceSession(file, options, providers=['CPUExecutionProvider'])\n"
    "    feed = {given.name: array for given, array in zip(session.get_inputs(), arrays)}\n"
    "    return lambda: session.run(None, feed)\n"
    "def openvino():\n"
    "    import openvino, tempfile\n"
    "    core = openvino.Core()\n"
    "    with tempfile.TemporaryDirectory() as folder:\n"
    "        file, arrays = onnx(folder)\n        function = core.compile_model(core.read_model(file), 'CPU', "
    "{'INFERENCE_NUM_THREADS': threads, 'PERFORMANCE_HINT': 'LATENCY'})\n    request = "
    "function.create_infer_request()\n    return lambda: request.infer(arrays)\nmakers = {'torch': eager, "
    "'torch.compile': compiled, 'aotinductor': inductor, 'onnxruntime': onnxruntime, 'openvino': openvino}\ntry:\n    "
    "import torch, contextlib\n    quiet = torch.inference_mode\nexcept ImportError:\n    import contextlib\n    quiet "
    "= contextlib.nullcontext\ncalls = []\nfor name in names:\n    try:\n        with (torch.no_grad() if 'torch' in "
    "globals() else quiet()):\n            call = makers[name]()\n        with quiet():\n            call()\n        "
    "answers.write('ready\\n')\n    except Exception as error:\n        call = None\n        text = "
    "(str(error).splitlines() or [''])[0][:200]\n        answers.write(f'missing {type(error).__name__}: {text}\\n')\n "
    "   calls.append(call)\nwith quiet():\n    for line in sys.stdin:\n        which, count = map(int, line.split())\n "
    "       call = calls[which]\n        begin = time.perf_counter()\n        for _ in range(count):\n            "
    "call()\n        answers.write(f'{(time.perf_counter() - begin) / count!r}\\n')\n";

struct peers {
    pid_t pid;
    FILE *to, *from;
    char **missing; /* one per peer; NULL: it is there */
    size_t n;
    char *gone;     /* why there is no Python at all; else NULL */
};

static cr_status spawn(peers *p, const char *const *argv, int in, int out) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, 0);
    posix_spawn_file_actions_adddup2(&actions, out, 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int code = posix_spawnp(&p->pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (!code) return CR_OK;
    cr_str text;
    cr_str_init(&text);
    cr_str_addf(&text, "there is no %s: %s", argv[0], strerror(code));
    cr_status status = cr_str_take(&text, &p->gone);
    cr_str_dispose(&text);
    p->pid = 0;
    return status;
}

static cr_status start(peers *p, const char *const *argv) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC)) return CR_FAIL(CR_EIO, "cannot make a pipe: %s", strerror(errno));
    if (pipe2(from, O_CLOEXEC)) {
        close(to[0]), close(to[1]);
        return CR_FAIL(CR_EIO, "cannot make a pipe: %s", strerror(errno));
    }
    cr_status status = spawn(p, argv, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    p->to = fdopen(to[1], "w");
    p->from = fdopen(from[0], "r");
    if (!p->to) close(to[1]);
    if (!p->from) close(from[0]);
    return !status && (!p->to || !p->from) ? CR_FAIL(CR_ENOMEM, "out of memory") : status;
}

cr_status peers_start(const char *path, const char *const *names, size_t n, int threads, peers **out) {
    const char *python = getenv("CRESSET_PYTHON");
    char number[16];
    cr_str list;
    peers *p = cr_calloc(1, sizeof *p);
    if (!p) return CR_ENOMEM;
    p->n = n;
    p->missing = cr_calloc(n + 1, sizeof *p->missing);
    snprintf(number, sizeof number, "%d", threads);
    cr_str_init(&list);
    for (size_t i = 0; i < n; i++) cr_str_addf(&list, "%s%s", i ? "," : "", names[i]);
    const char *argv[] = {
        python && *python ? python : "python3", "-c", script, path, number, cr_str_get(&list), NULL
    };
    cr_status status = p->missing ? cr_str_status(&list) : CR_ENOMEM;
    if (!status) status = start(p, argv);
    cr_str_dispose(&list);
    if (status) peers_stop(p);
    else *out = p;
    return status;
}

void peers_stop(peers *p) {
    if (!p) return;
    if (p->to) fclose(p->to);
    if (p->from) fclose(p->from);
    while (p->pid > 0 && waitpid(p->pid, NULL, 0) < 0 && errno == EINTR) {
    }
    for (size_t i = 0; p->missing && i < p->n; i++) cr_free(p->missing[i]);
    cr_free(p->missing);
    cr_free(p->gone);
    cr_free(p);
}

static bool read_line(peers *p, char *line, int room) {
    if (p->gone || !fgets(line, room, p->from)) return false;
    line[strcspn(line, "\n")] = 0;
    return true;
}

cr_status peers_prepare(peers *p, size_t i, const char **missing) {
    char line[512];
    *missing = NULL;
    bool said = read_line(p, line, sizeof line);
    if (said && !strcmp(line, "ready")) return CR_OK;
    const char *reason = p->gone ? p->gone : said && !strncmp(line, "missing ", 8) ? line + 8 : "Python ended";
    p->missing[i] = cr_strdup(reason);
    *missing = p->missing[i];
    return *missing ? CR_OK : CR_ENOMEM;
}

cr_status peers_time(peers *p, size_t i, uint64_t calls, double *seconds) {
    char line[512], *end;
    if (fprintf(p->to, "%zu %llu\n", i, (unsigned long long)calls) < 0 || fflush(p->to) ||
        !read_line(p, line, sizeof line))
        return CR_FAIL(CR_ERUNTIME, "the Python with the peers ended; run them one by one to see which");
    *seconds = cr_strtod(line, &end);
    return *end || end == line ? CR_FAIL(CR_ERUNTIME, "a peer answered '%s'", line) : CR_OK;
}

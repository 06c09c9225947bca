"""A small training loop that runs for as long as it is asked to, and what memory it takes: every kind of thing the tape
keeps comes and goes in each step (saved arguments and results, views and writes to them, hooks, second derivatives,
graphs that are never walked)."""
import gc


def resident():
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def make(m):
    m.manual_seed(0)
    net = m.nn.Sequential(m.nn.Linear(4, 8), m.nn.Tanh(), m.nn.LayerNorm(8), m.nn.Linear(8, 1))
    data = m.randn(16, 4)
    target = (data[:, :1] * data[:, 1:2]).sin()
    seen = []

    def step(i):
        out = net(data)
        out.register_hook(lambda g: seen.append(g) or seen.clear())
        table = m.zeros(16, 2)
        table[:, 0] = out[:, 0]
        table[:, 1:] = target
        error = table[:, 0] - table[:, 1]
        loss = (error * error).mean()
        if i % 50 == 0:  # a penalty on the gradient: its derivative is a second one
            grads = m.autograd.grad(loss, list(net.parameters()), create_graph=True)
            loss = loss + 1e-3 * sum((g * g).sum() for g in grads)
        (out * 2).exp()  # never walked
        loss.backward()
        with m.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
                p.grad = None
        return loss.item()
    return step


def run(m, steps, warmup):
    """(first loss, last loss, bytes that the process has grown by after the warmup)."""
    step = make(m)
    losses = [step(i) for i in range(warmup)]
    gc.collect()
    before = resident()
    for i in range(steps - warmup):
        last = step(i)
    gc.collect()
    return losses[0], last, resident() - before

"""What is the same for every choice that results leave open: eigenvectors and singular vectors have a phase, and those
of what a matrix maps to nothing are any basis. `Call.settled` names one of these; they are given PyTorch's tensors or
ours, and use no more than methods that both have."""


def projections(columns):
    """Of each column alone."""
    return columns.unsqueeze(-2) * columns.conj().unsqueeze(-3)


def of_eigh(values, vectors):
    return values, projections(vectors)


def of_eigvals(values):
    """In an order that has no ties: conjugates have the same real part."""
    order = (values.real + values.imag * 0.37).argsort(-1)
    return (values.gather(-1, order),)


def of_eig(values, vectors):
    order = (values.real + values.imag * 0.37).argsort(-1)
    return values.gather(-1, order), projections(vectors.gather(-1, order.unsqueeze(-2).expand(vectors.shape)))


def of_svd(u, s, vh):
    k = s.shape[-1]
    if vh.dim() < 2 or u.dim() < 2:
        return (s,)
    joined = u[..., :k].unsqueeze(-2) * vh[..., :k, :].mT.unsqueeze(-3)
    return s, joined, u[..., k:] @ u[..., k:].mH, vh[..., k:, :].mH @ vh[..., k:, :]


def of_old_svd(u, s, v):
    return of_svd(u, s, v.mH)

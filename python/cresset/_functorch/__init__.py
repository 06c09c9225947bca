"""Functions compiled ahead of time, with their gradients: see aot_autograd."""

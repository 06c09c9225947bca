"""PyTorch programs: what is needed where the real `torch` package is installed. Nothing here is imported by
`import cresset`, and nothing of torch is imported before the first use.

    torch.compile(model, backend="cresset")     backend.py
    cresset.from_fx(graph_module)               importer.py
"""

"""Shows a graph file as it is written, as the library prints it back with every size filled in, and what it gives.

    ./dev exec python examples/run_graph.py examples/scores.crg
"""
import pathlib
import sys

import cresset


def main():
    text = pathlib.Path(sys.argv[1]).read_text().partition("# expect:")[0]
    print(text.rstrip())
    graph = cresset.Graph.parse(text)
    graph.verify("metas", "functional")
    assert cresset.Graph.parse(str(graph)) == graph  # what is printed is the graph
    print("\nprinted back:\n")
    print(graph)
    for batch, length in ((1, 2), (2, 4)):
        cresset.manual_seed(0)
        y, twice = graph.run(cresset.randn(batch, length, 3), cresset.eye(3))
        print(f"\nrun with b = {batch}, n = {length}: n twice is {twice}, and\n{y}")
    try:
        graph.run(cresset.randn(65, 2, 3), cresset.eye(3))
    except (ValueError, RuntimeError) as error:
        print(f"\nrun with b = 65: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()

"""As torch._logging: set_logs(graph_breaks=True, recompiles=True) says what captures write while they work."""
from cresset._dynamo.logs import set_logs

__all__ = ["set_logs"]

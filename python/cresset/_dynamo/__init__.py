"""Names that PyTorch programs import from `torch._dynamo`: the errors a user meets."""
from cresset._dynamo import exc

__all__ = ["exc"]

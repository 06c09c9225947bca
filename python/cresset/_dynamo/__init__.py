"""Names that PyTorch programs import from `torch._dynamo`: the errors a user meets, and marks on tensors."""
from cresset._dynamo import exc
from cresset._dynamo.decorators import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic

__all__ = ["exc", "mark_dynamic", "mark_static", "mark_unbacked", "maybe_mark_dynamic"]

"""Settings of export()."""

assigned_tensors = "error"
"""What export() does when forward assigns a tensor to an attribute that is no buffer: "error" or "warn"."""

log_path = None
"""A file that export() appends its events to, one JSON object a line; None: the environment's
CRESSET_EXPORT_LOG, or nowhere. Nothing is ever sent."""

runtime_asserts = True
"""Does export() make what must hold of data (`_check`, sizes that must agree) part of the program? False
leaves the assertions out."""

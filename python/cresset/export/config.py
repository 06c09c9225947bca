"""Settings of export()."""

assigned_tensors = "error"
"""What export() does when forward assigns a tensor to an attribute that is no buffer: "error" or "warn"."""

log_path = None
"""A file that export() appends its events to, one JSON object a line; None: the environment's CRESSET_EXPORT_LOG, or nowhere. Nothing is ever sent."""

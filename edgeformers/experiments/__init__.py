"""The paper's tables and figures, made again on any network beside the published numbers."""

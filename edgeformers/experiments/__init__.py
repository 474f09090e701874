"""The paper's tables and figures on any network, the quickstart, and comparison of runs."""

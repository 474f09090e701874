"""From any table of edges to a network on disk, its splits and its neighborhoods."""

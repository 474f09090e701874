"""REST server and explorer for trained runs."""

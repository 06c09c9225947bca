"""What turns captured graphs into code: `registry` knows them by name."""

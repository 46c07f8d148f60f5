"""Where rows come from: tables, streams, and their watermarks."""

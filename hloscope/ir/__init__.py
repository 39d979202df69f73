"""Types, layouts, and the graph of instructions that every language is read into."""
